"""The Debian packages, each on a bare Debian of the release they were made on."""

import re

import pytest
from .conftest import HERE, STATE, host_release

UNIT = "lib/systemd/system/limpetd.service"
LOCAL = "export LIMPET_ENGINE=local\n"


@pytest.fixture
def bare(machine, packages):
    return machine(binds={packages: "packages"})


def test_packages_are_of_one_version_and_of_this_release(packages):
    with open(HERE.parents[1] / "CMakeLists.txt") as file:
        version = re.search(r"^project\(limpet VERSION (\S+)", file.read(), re.M)[1]
    found = {path.name.partition("_")[0]: path.name.split("_")[1] for path in packages.glob("*.deb") if "dbgsym" not in path.name}
    assert set(found) == {
        "liblimpet-dev", "liblimpet0", "limpet", "limpet-guest", "limpet-image", "limpet-serve", "limpetd", "python3-limpet",
    }  # fmt: skip
    assert len(set(found.values())) == 1
    assert found["limpetd"].startswith(f"{version}-0+")


def test_the_controller_and_the_command(bare):
    """With the engine that needs no containers: those are the machine's that the tests run on."""
    bare.install("limpetd", "limpet-guest")
    bare.run(f"{LOCAL}. /limpet/tests/package/tour.sh")
    bare.run(
        "test -s /usr/share/man/man8/limpetd.8.gz -a -s /usr/share/man/man1/limpet.1.gz\n"
        "test -s /usr/share/bash-completion/completions/limpet\n"
        "test -s /usr/share/zsh/vendor-completions/_limpet\n"
        "test -s /usr/share/fish/vendor_completions.d/limpet.fish\n"
        "limpet image ls 2>&1 | grep -q limpet-image\n"
        "limpet image build && exit 1 || test $? = 125"
    )


def test_the_service(bare):
    """That systemd takes the units, that the one of the system is enabled and that of a user is not."""
    bare.install("limpetd", "systemd")
    bare.run(
        f"systemd-analyze verify --man=no /{UNIT}\n"
        "XDG_RUNTIME_DIR=/run systemd-analyze verify --man=no --user /usr/lib/systemd/user/limpetd.service\n"
        "test -L /etc/systemd/system/multi-user.target.wants/limpetd.service\n"
        "test ! -e /etc/systemd/user/default.target.wants/limpetd.service\n"
        "getent group limpet"
    )


def test_the_service_of_the_gateway(bare):
    """That systemd takes it, for whom it runs and where, and that it waits for somebody to enable it."""
    bare.install("limpet-serve", "systemd")
    bare.run(
        "systemd-analyze verify --man=no /lib/systemd/system/limpet-serve.service\n"
        "test ! -e /etc/systemd/system/multi-user.target.wants/limpet-serve.service\n"
        "test \"$(id --name --groups limpet-serve)\" = 'limpet-serve limpet'\n"
        "test \"$(stat --format '%U %a' /var/lib/limpet-serve)\" = 'limpet-serve 700'\n"
        "apt-get purge --yes limpet-serve\n"
        "test ! -e /var/lib/limpet-serve -a ! -e /lib/systemd/system/limpet-serve.service"
    )


SYSTEMCTL = """#!/bin/sh
echo "$*" >>/root/asked
case "$*" in
*is-enabled*) test -e /root/enabled ;;
*start*)
    LIMPET_ENGINE=local setsid limpetd >/dev/null 2>&1 &
    until LIMPET_AUTOSTART=0 limpet ls >/dev/null 2>&1; do sleep 0.1; done ;;
esac
"""


def test_a_client_asks_systemd_for_the_controller_where_the_service_is_enabled(bare):
    """systemctl is one that starts the controller by itself: there is no systemd here."""
    bare.install("limpetd", "limpet-guest")
    (bare.directory / "files/usr/local/bin").mkdir(parents=True, exist_ok=True)
    program = bare.directory / "files/usr/local/bin/systemctl"
    program.write_text(SYSTEMCTL)
    program.chmod(0o755)
    bare.run(
        "mkdir -p /run/systemd/system\n"
        "touch /root/enabled\n"
        "test $(limpet run -c '6 * 7') = 42\n"
        "grep -qx -- '--system --quiet start limpetd.service' /root/asked\n"
        "limpet shutdown\n"
        "rm /root/enabled /root/asked\n"
        f"{LOCAL}test $(limpet run -c '6 * 7') = 42\n"
        "if grep start /root/asked; then exit 1; fi\n"
        "limpet shutdown --keep\n"
        "touch /root/enabled\n"
        "limpetd --detach --state-dir /root/other --runtime-dir /root/run --socket /root/limpet.sock\n"
        "if grep start /root/asked; then exit 1; fi\n"
        "LIMPET_SOCKET=/root/limpet.sock limpet shutdown"
    )


def test_removing_it_ends_the_sessions_and_purging_it_leaves_nothing(bare):
    bare.install("limpetd", "limpet-guest")
    bare.run(
        f"{LOCAL}limpet run -s a -c 'import os; open(\"/tmp/pid\", \"w\").write(str(os.getpid()))'\n"
        "readlink /proc/$(cat /tmp/pid)/exe\n"
        "apt-get remove --yes limpetd\n"
        "if readlink /proc/$(cat /tmp/pid)/exe; then exit 1; fi\n"
        "test -d /var/lib/limpet\n"
        "apt-get purge --yes limpetd\n"
        "test ! -e /var/lib/limpet -a ! -e /run/limpet"
    )


def test_the_python_package(bare):
    bare.install("python3-limpet", "limpetd", "limpet-guest")
    bare.run(f"{LOCAL}python3 /limpet/tests/package/tour.py")


def test_the_library(bare):
    """Compiled with what its development package depends on, and run where only the library is."""
    bare.install("liblimpet-dev", "limpetd", "limpet-guest", "gcc", "libc6-dev", "pkg-config")
    bare.run(
        "gcc -Werror -Wall -o /root/tour /limpet/tests/package/tour.c $(pkg-config --cflags --libs limpet)\n"
        "test $(pkg-config --modversion limpet) = $(limpet version | cut -d ' ' -f 2)\n"
        "apt-get remove --yes liblimpet-dev\n"
        f'{LOCAL}test "$(/root/tour)" = 42'
    )


def test_the_recipe_of_the_image(bare):
    """That it is complete: it knows its image by all that goes into it, and has what makes it."""
    bare.install("limpet-image", "limpet")
    bare.run(
        "limpet image ls\n"
        "test -x /usr/share/limpet/image/stage -a -x /usr/share/limpet/image/install.sh\n"
        "cd /usr/share/limpet && find CMakeLists.txt proto guest image scripts -type f | sort >/root/there\n"
    )
    there = (bare.directory / "files/root/there").read_text().split()
    tree = HERE.parents[1]
    needed = {str(path.relative_to(tree)) for folder in ("guest", "proto") for path in (tree / folder).rglob("*.[ch]")}
    needed |= {f"image/{path.name}" for path in (tree / "image").glob("*.txt") if path.name != "CMakeLists.txt"}
    needed |= {"CMakeLists.txt", "scripts/lib.sh", "image/dpkg.cfg", "image/smoke.py"}
    assert needed <= set(there)


def capabilities_dropped():
    """What the unit takes from the controller, as setpriv has it."""
    text = (HERE.parents[1] / "host/systemd/system.service.in").read_text()
    names = " ".join(re.findall(r"^CapabilityBoundingSet=~(.*)$", text, re.M)).split()
    assert len(names) > 10
    return ",".join(name.replace("CAP_", "-").lower() for name in names)


def test_containers_without_what_the_unit_takes_away(machine, packages):
    """The unit's capabilities are enough for sessions in containers: runc on a bare machine, the image of this one."""
    image = (STATE / "images" / "default").resolve()
    if not image.is_dir():
        pytest.fail(f"{image} is not there: image/build build --engine oci")
    bare = machine(host_release(), {packages: "packages", image: f"var/lib/limpet/images/{image.name}"})
    bare.install("limpetd", "runc", "e2fsprogs")
    bare.run(
        f"ln -s {image.name} /var/lib/limpet/images/default\n"
        "export LIMPET_ENGINE=oci\n"
        f"setpriv --bounding-set={capabilities_dropped()} limpetd --detach\n"
        "test $(limpet ls --json | tr -d ' \\n' | grep -o '\"engine\":\"[a-z]*\"' | head -n 1) = '\"engine\":\"oci\"'\n"
        ". /limpet/tests/package/tour.sh"
    )
