"""The first hour on a bare Debian, of a plain user who may type sudo: README, tutorials, and failures whose messages are followed."""

import os

import pytest

from tests.docs.documents import ROOT, blocks

from .test_quickstart import copy_tree, image_of_this_machine

# A clone in the home of alice, as on a machine of hers. pip finds its certificates in a file, as logins and sudo begin with a clean environment.
PREPARE = """
apt-get update
apt-get install --yes --no-install-recommends sudo
useradd --create-home --shell /bin/bash alice
echo 'alice ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/alice
chown -R alice: /home/alice
"""
# What the README says, in one login.
FIRST = """
cd limpet
{quickstart}
echo "{run}" | newgrp limpet >/tmp/said
test "$(cat /tmp/said)" = 42
limpet key ls >/tmp/said 2>&1 && exit 1
grep -q 'activate the environment that has it' /tmp/said
"""
# In the next login, as quickstart has said.
HOUR = "cd limpet && . build/venv/bin/activate && PYTHONPATH=/limpet python /limpet/tests/package/hour.py"


def pip_settings():
    """How pip of this machine reaches its index, as lines of a pip.conf. The certificates are where tests/package/root puts them."""
    names = {"PIP_INDEX_URL": "index-url", "PIP_EXTRA_INDEX_URL": "extra-index-url", "PIP_TRUSTED_HOST": "trusted-host"}
    lines = [f"{key} = {os.environ[name]}" for name, key in names.items() if name in os.environ]
    return "\n".join(["[global]", "cert = /run/certificates", *lines])


@pytest.mark.long
@pytest.mark.timeout(3600)  # packages, compilers and an index of packages, on whatever machine
def test_the_first_hour(machine):
    quickstart, run = (line.partition("#")[0].strip() for line in next(blocks(ROOT / "README.md")).text.splitlines())
    bare = machine("bookworm", image_of_this_machine())
    copy_tree(bare.directory / "files/home/alice/limpet")
    (bare.directory / "files/etc").mkdir()
    (bare.directory / "files/etc/pip.conf").write_text(pip_settings() + "\n")
    (bare.directory / "files/first.sh").write_text(FIRST.format(quickstart=quickstart, run=run))
    bare.run(
        f"{PREPARE}\n"
        "runuser --login alice --command 'set -eux; . /first.sh'\n"
        f"runuser --login alice --command '{HOUR}'\n"
        "limpet shutdown"  # what would be killed with the machine would leave its control groups to this one
    )
