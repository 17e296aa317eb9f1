"""scripts/quickstart from a bare Debian to an environment in which things work."""

import subprocess

import pytest
from .conftest import ROOT, STATE

EVERYTHING_IS_THERE = (
    ". build/venv/bin/activate\n"
    "test $(command -v limpet) = /root/limpet/build/venv/bin/limpet\n"
    "python -c 'import limpet, limpet.langgraph, limpet.jupyter'\n"
    ". /limpet/tests/package/tour.sh\n"
    "python /limpet/tests/package/tour.py\n"
    "python examples/langgraph_agent.py\n"
)


def copy_tree(target):
    """Without what was built."""
    target.mkdir(parents=True)
    archive = subprocess.Popen(
        ["tar", "--create", "--exclude=./build", "--exclude=./.git", "."], cwd=ROOT, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "--extract"], cwd=target, stdin=archive.stdout, check=True)
    assert archive.wait() == 0


@pytest.mark.slow
@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_root_on_a_bare_debian(machine, release):
    """The image is that of this machine, if it is of this tree; otherwise it is made there."""
    image = (STATE / "images" / "default").resolve()
    bare = machine(release, {image: f"var/lib/limpet/images/{image.name}"} if image.is_dir() else {})
    copy_tree(bare.directory / "files/root/limpet")
    bare.run(f"cd /root/limpet\nscripts/quickstart\n{EVERYTHING_IS_THERE}")
    said = bare.run("cd /root/limpet\nscripts/quickstart\nlimpet shutdown")
    assert "Nothing is missing." in said and ". build/venv/bin/activate" in said
    bare.run("cd /root/limpet\nscripts/bench --quick --only latency.c.p50 --engine local")


@pytest.mark.slow
def test_a_user_without_a_docker_engine_is_told_before_anything_is_done(machine):
    bare = machine("bookworm")
    copy_tree(bare.directory / "files/home/limpet")
    said = bare.run(
        "chown -R 1000:1000 /home/limpet\n"
        "setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/home /home/limpet/scripts/quickstart 2>&1 && exit 1\n"
        "true"
    )
    assert "sudo scripts/quickstart" in said and "Packages" not in said
