"""What `limpetd --check` says of this host."""

import os
import subprocess

import pytest

pytestmark = pytest.mark.engine


def check(limpetd, topic="disks", **options):
    """The line about it."""
    said = subprocess.run(limpetd.command("--check"), capture_output=True, text=True, **options).stdout
    (line,) = [line for line in said.splitlines() if line.split()[1:2] == [topic]]
    return line.split(maxsplit=2)


@pytest.mark.docker
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_disks(own_limpetd):
    level, _, text = check(own_limpetd)
    assert level == "ok" and "file system with a size limit" in text
    assert os.listdir(os.path.join(own_limpetd.directory, "state")) == ["images"]


def test_disks_without_the_right_to_mount(own_limpetd):
    """Nobody is told that what cannot be bounded is."""
    if os.geteuid() == 0:
        for at in (own_limpetd.directory, os.path.join(own_limpetd.directory, "state")):
            os.chown(at, 65534, 65534)
    level, _, text = check(own_limpetd, **({"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}))
    assert level == "warn" and "is not limited" in text and "root" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's containers have a namespace that is made when limpetd starts")
def test_the_clock_of_containers(own_limpetd, tmp_path):
    if own_limpetd.engine != "oci":
        pytest.skip("the engine oci alone gives them one")
    level, _, text = check(own_limpetd, "clock")
    assert level == "ok" and "of their own" in text
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    level, _, text = check(own_limpetd, "clock", env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert level == "warn" and "clock of the machine" in text
