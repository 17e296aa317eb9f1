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
    "limpet shutdown\n"  # what would be killed with the machine would leave its control groups to this one
)


def copy_tree(target):
    """Without what was built."""
    target.mkdir(parents=True)
    archive = subprocess.Popen(
        ["tar", "--create", "--exclude=./build", "--exclude=./.git", "."], cwd=ROOT, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "--extract"], cwd=target, stdin=archive.stdout, check=True)
    assert archive.wait() == 0


def image_of_this_machine():
    """Where it goes on a bare one. It has to be of this tree: the overlay there has no place to make another one."""
    image = (STATE / "images" / "default").resolve()
    return {image: f"var/lib/limpet/images/{image.name}"} if image.is_dir() else {}


@pytest.mark.long
@pytest.mark.timeout(3600)  # packages, compilers and an index of packages, on whatever machine
@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_root_on_a_bare_debian(machine, release):
    bare = machine(release, image_of_this_machine())
    copy_tree(bare.directory / "files/root/limpet")
    bare.run(f"cd /root/limpet\nscripts/quickstart\n{EVERYTHING_IS_THERE}")
    said = bare.run("cd /root/limpet\nscripts/quickstart\nlimpet shutdown")
    assert "Nothing is missing." in said and ". build/venv/bin/activate" in said
    bare.run("cd /root/limpet\nscripts/bench --quick --only latency.c.p50 --engine local")


AS_A_MEMBER = (
    "cd /srv/limpet\n"
    ". build/venv/bin/activate\n"
    "sed /shutdown/d /limpet/tests/package/tour.sh >/tmp/tour.sh\n"
    ". /tmp/tour.sh\n"
    "python /limpet/tests/package/tour.py\n"
    "limpet run -s a -c 'open(\"artifacts/hello.txt\", \"w\").write(\"hi\")' --json >/tmp/made\n"
    "python -c 'import json; print(*map(open, json.load(open(\"/tmp/made\"))[\"artifacts\"].values()))'\n"
    "mkdir /tmp/data\n"
    "echo hi >/tmp/data/f\n"
    "limpet open --data /tmp/data b\n"
    "test $(limpet run -s b -c 'print(open(\"/data/f\").read())') = hi\n"
    "limpet shutdown && exit 1\n"
    "limpet ls | grep -qw b\n"
)


@pytest.mark.long
@pytest.mark.timeout(3600)  # packages, compilers and an index of packages, on whatever machine
def test_whoever_typed_sudo_needs_it_no_more(machine):
    bare = machine("bookworm", image_of_this_machine())
    copy_tree(bare.directory / "files/srv/limpet")
    said = bare.run(
        "cd /srv/limpet\n"
        "useradd --create-home alice\n"
        "SUDO_USER=alice scripts/quickstart\n"
        f"runuser -u alice -- sh -eux <<'END'\n{AS_A_MEMBER}END\n"
        "limpet ls --all | grep -w alice | grep -qw b\n"
        "limpet ls --json | grep -q '\"sessions\": \\[\\]'\n"
        "limpet shutdown"
    )
    assert "newgrp limpet" in said


def test_a_user_without_a_docker_engine_is_told_before_anything_is_done(machine):
    bare = machine("bookworm")
    copy_tree(bare.directory / "files/home/limpet")
    said = bare.run(
        "chown -R 1000:1000 /home/limpet\n"
        "setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/home /home/limpet/scripts/quickstart 2>&1 && exit 1\n"
        "true"
    )
    assert "sudo scripts/quickstart" in said and "Packages" not in said
