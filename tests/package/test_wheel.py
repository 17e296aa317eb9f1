"""The wheel, on a bare Debian that has Python and nothing of what the programs are linked to."""

import pytest


@pytest.fixture
def bare(machine, packages):
    machine = machine(binds={packages: "packages"})
    machine.install("python3-venv")
    machine.run("python3 -m venv /root/venv && /root/venv/bin/pip install /packages/*-manylinux_*.whl")
    return machine


def test_it_brings_all_that_its_programs_need(bare):
    bare.run(
        "version=$(/root/venv/bin/python -c 'import limpet; print(limpet.__version__)')\n"
        'test "$(/root/venv/bin/limpet version)" = "limpet $version"\n'
        'test "$(/root/venv/bin/limpetd --version)" = "limpetd $version"\n'
        "/root/venv/bin/limpet image ls\n"
        "test -s /root/venv/share/man/man1/limpet.1\n"
        "test -e /root/venv/share/doc/limpet/copyright-libcurl4*"
    )


def test_a_tour(bare):
    """The guest of the local engine is that of the Debian package: it is made for one Python."""
    bare.install("limpet-guest")
    settings = "export LIMPET_ENGINE=local LIMPET_GUEST=/usr/lib/limpet/limpet-guest PATH=/root/venv/bin:$PATH\n"
    bare.run(f"{settings}. /limpet/tests/package/tour.sh")
    bare.run(f"{settings}python /limpet/tests/package/tour.py")


def test_uninstalling_it_leaves_nothing(bare):
    bare.run(
        "/root/venv/bin/pip uninstall --yes limpet\n"
        "test -z \"$(find /root/venv -name '*limpet*')\""
    )
