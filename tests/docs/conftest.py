"""A place in which the blocks of one document are run: a clone, as far as they can tell, and no controller yet.

LIMPET_BUILD has the programs. LIMPET_TEST_ENGINES names engines, of which the first that isolates is taken, by default oci;
`scripts/test --without oci` leaves out the documents that speak of containers. Images are those of LIMPET_TEST_IMAGES.
"""

import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from tests.docs.documents import ROOT
from tests.docs.prompt import Prompt
from tests.docs.shell import Shell
from tests.support.needs import WITHOUT

IMAGES = os.environ.get("LIMPET_TEST_IMAGES", "/var/lib/limpet/images")
LEFT_OUT = {".git", "build", ".pytest_cache"}
KEPT = ("LIMPET_NATIVE", "LIMPET_DOCKER_SOCKET")


def engine():
    standard = "local" if "oci" in WITHOUT else "oci"
    named = os.environ.get("LIMPET_TEST_ENGINES", standard).replace(",", " ").split()
    return next((name for name in named if name != "local"), "local")


class Place:
    def __init__(self):
        build = os.environ.get("LIMPET_BUILD", str(ROOT / "build" / "bin"))
        assert os.access(os.path.join(build, "limpetd"), os.X_OK), f"there is no limpetd in {build}"
        self.root = tempfile.mkdtemp(prefix="limpet-docs-", dir="/tmp")
        self.directory = os.path.join(self.root, "clone")
        state = os.path.join(self.root, "state")
        for path in (self.directory, state, os.path.join(self.root, "home")):
            os.mkdir(path)
        os.symlink(IMAGES, os.path.join(state, "images"))
        for name in os.listdir(ROOT):
            if name not in LEFT_OUT:
                os.symlink(ROOT / name, os.path.join(self.directory, name))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("LIMPET_") or name in KEPT},
            "PATH": f"{build}:{os.environ['PATH']}", "HOME": os.path.join(self.root, "home"),
            "PYTHONPATH": f"{ROOT}/clients/python/src:{ROOT}",
            "LIMPET_ENGINE": engine(), "LIMPET_STATE_DIR": state, "LIMPET_POOL": "0",
            "LIMPET_PYTHON": sys.executable, "LIMPET_SERVE_STATE_DIR": os.path.join(self.root, "gateway"),
            "PREFIX": os.path.join(self.root, "prefix"),  # should a block install something, it is not on this machine
            "LIMPET_RUNTIME_DIR": os.path.join(self.root, "run"), "LIMPET_SOCKET": os.path.join(self.root, "limpet.sock"),
        }  # fmt: skip
        self.shell = Shell(self.directory, self.environment)
        self.prompt = Prompt(self.directory, self.environment)

    def close(self):
        self.prompt.close()
        self.shell.close()
        subprocess.run(["limpet", "shutdown"], env=self.environment, capture_output=True, timeout=120)
        shutil.rmtree(self.root, onerror=self.missing)

    @staticmethod
    def missing(_function, _path, failure):
        """A controller that is about to have ended removes its socket itself: what is gone already is no failure."""
        if not issubclass(failure[0], FileNotFoundError):
            raise failure[1]


@pytest.fixture
def place():
    place = Place()
    yield place
    place.close()
