"""What `limpetd --check` says of this host."""

import os
import subprocess

import pytest

pytestmark = pytest.mark.engine


def check(limpetd, **options):
    """The line about disks."""
    said = subprocess.run(limpetd.command("--check"), capture_output=True, text=True, **options).stdout
    (line,) = [line for line in said.splitlines() if line.split()[1:2] == ["disks"]]
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
