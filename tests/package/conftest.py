"""Packages as scripts/package makes them, and bare machines to install them on.

LIMPET_PACKAGES names a directory with packages that were made before; otherwise they are made. The roots of the machines
are kept beside what limpet-image keeps to be quick, and go with that.
"""

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STATE = Path(os.environ.get("LIMPET_STATE_DIR", "/var/lib/limpet"))
CACHE = STATE / "images" / ".cache"


def host_release():
    """The code name of the release of this machine: packages of it are installed on it."""
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


@pytest.fixture(scope="session")
def packages():
    """A directory with the packages of this tree, as apt and pip take them."""
    directory = Path(os.environ.get("LIMPET_PACKAGES", ROOT / "build" / "packages"))
    if "LIMPET_PACKAGES" not in os.environ:
        done = subprocess.run([ROOT / "scripts" / "package"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    index = subprocess.run(["dpkg-scanpackages", "."], cwd=directory, capture_output=True, check=True)
    (directory / "Packages").write_bytes(index.stdout)
    return directory


class Machine:
    """A bare Debian of its own: what is installed stays until the test ends, what runs until its command does."""

    def __init__(self, release, directory, binds):
        self.root, self.directory = CACHE / f"bare-{release}", directory
        self.binds = " ".join(f"{source}:{target}" for source, target in binds.items())
        if not self.root.is_dir():
            done = subprocess.run([HERE / "root", "make", release, self.root], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr

    def run(self, script, check=0):
        """Runs lines of sh there, all of which have to succeed; what they print."""
        done = subprocess.run(
            [HERE / "root", "run", self.root, self.directory, "sh", "-euxc", script],
            env={**os.environ, "ROOT_BIND": self.binds},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == check, done.stdout + done.stderr
        return done.stdout

    def install(self, *names):
        """As `apt install` does where these packages are in its sources."""
        self.run(
            "echo 'deb [trusted=yes] file:/packages ./' >/etc/apt/sources.list.d/limpet.list\n"
            "apt-get update\n"
            f"apt-get install --yes --no-install-recommends {' '.join(names)}"
        )


@pytest.fixture
def machine():
    """machine(release, directories of this machine by the path they have there) makes a bare one."""
    if os.geteuid() != 0:
        pytest.skip("root file systems are made by root")
    CACHE.mkdir(parents=True, exist_ok=True)
    directories = []

    def make(release=None, binds=None):
        directories.append(Path(tempfile.mkdtemp(prefix="package-test-", dir=CACHE)))
        return Machine(release or host_release(), directories[-1], binds or {})

    yield make
    for directory in directories:
        shutil.rmtree(directory)


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: builds everything on a bare machine")
