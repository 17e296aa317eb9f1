"""What serves the kernel in these tests: a real controller, and Jupyter's directories."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

import limpet
import pytest

SOURCES = os.path.dirname(os.path.dirname(os.path.abspath(limpet.__file__)))
START = STOP = 120  # seconds
IMAGES = os.environ.get("LIMPET_TEST_IMAGES", "/var/lib/limpet/images")  # built by `limpet image build`


class Limpetd:
    """A controller in a directory of its own, whose name is short: socket paths are limited."""

    def __init__(self, engine="local"):
        program = os.environ.get("LIMPETD") or shutil.which("limpetd", path=os.environ.get("LIMPET_BUILD"))
        if not program:
            pytest.fail("limpetd is not in PATH; set LIMPETD to its path")
        self.directory = tempfile.mkdtemp(prefix="limpet-")
        self.socket = os.path.join(self.directory, "limpet.sock")
        os.mkdir(os.path.join(self.directory, "state"), 0o700)
        os.symlink(IMAGES, os.path.join(self.directory, "state", "images"))
        command = [
            program, "--engine", engine, "--state-dir", os.path.join(self.directory, "state"),
            "--runtime-dir", os.path.join(self.directory, "run"), "--socket", self.socket,
        ]  # fmt: skip
        environment = {"LIMPET_POOL": "0"} | os.environ
        with open(os.path.join(self.directory, "log"), "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        self._wait()

    def _wait(self):
        end = time.monotonic() + START
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.sessions()
                return
            except limpet.Unavailable:
                time.sleep(0.05)
        self.stop()
        pytest.fail("limpetd did not start")

    def client(self):
        return limpet.Client(self.socket, autostart=False)

    def sessions(self):
        with warnings.catch_warnings(), self.client() as client:
            warnings.simplefilter("ignore")
            return {row.session: row for row in client.sessions()}

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP)
        finally:
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def jupyter_in(home):
    """Jupyter's directories are there, and what it starts finds the client of this tree."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_PATH", "JUPYTER_PREFER_ENV_PATH", "LIMPET_SOCKET"):
            patch.delenv(name, raising=False)
        for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(home / name.lower()))
        patch.setenv("JUPYTER_NO_CONFIG", "1")
        patch.setenv("LIMPET_AUTOSTART", "0")
        patch.setenv("PYTHONPATH", SOURCES)
        patch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        yield home


def install_kernel(name, address, *options):
    """Installs a kernel and returns its name."""
    command = [sys.executable, "-m", "limpet.jupyter", "install", "--user", "--name", name]
    subprocess.run([*command, "--address", address, *options], check=True, capture_output=True)
    return name
