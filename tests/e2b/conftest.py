"""limpet serve on real controllers, used by the unmodified clients of E2B.

Needs e2b and e2b-code-interpreter beside limpet[serve]. LIMPET_TEST_ENGINES names the engines, by default local.
"""

import contextlib
import os
import select
import subprocess
import sys
import time

import pytest

from tests.support import ROOT
from tests.support.controllers import limpetd, name, own_limpetd, quiet  # noqa: F401
from tests.support.limpetd import end_with_parent

START = 120  # seconds


def environment():
    """That of the gateway: no controller is started but by a test."""
    return {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "clients" / "python" / "src"),
        "LIMPET_NATIVE": os.environ.get("LIMPET_NATIVE", "0"), "LIMPET_AUTOSTART": "0", "PYTHONDONTWRITEBYTECODE": "1",
        "RATE_LIMIT_MAX": "0", "LC_ALL": "C.UTF-8",
    }  # fmt: skip


class Gateway:
    """limpet serve, with a key for each of two people."""

    def __init__(self, controller, directory, **settings):
        self.controller, self.directory, self.settings = controller, directory, settings
        self.options = ["--address", controller.socket, "--state-dir", str(directory)]
        self.process = None
        self.port = 0

    def key(self, who):
        command = [sys.executable, "-m", "limpet.serve", "key", "create", who, "--state-dir", str(self.directory)]
        return subprocess.run(command, env=environment(), check=True, capture_output=True, text=True).stdout.strip()

    def start(self, *more):
        """Until it listens; at the same port when it is started again."""
        self.log = open(self.directory / "log", "ab")
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "limpet.serve", "--port", str(self.port), *self.options, *more],
            env=environment() | self.settings, stdout=subprocess.PIPE, stderr=self.log, text=True,
            preexec_fn=end_with_parent,
        )  # fmt: skip
        ready, _, _ = select.select([self.process.stdout], [], [], START)
        line = self.process.stdout.readline() if ready else ""
        assert "listening on" in line, (self.directory / "log").read_text()
        self.port = int(line.rstrip().rpartition(":")[2])

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def stop(self):
        self.process.terminate()
        self.process.wait(START)
        self.process.stdout.close()
        self.log.close()

    def kill(self):
        self.process.kill()
        self.stop()


@pytest.fixture(scope="package")
def gateway(limpetd, tmp_path_factory):  # noqa: F811
    gateway = Gateway(limpetd, tmp_path_factory.mktemp("serve"))
    gateway.ada, gateway.bob = gateway.key("ada"), gateway.key("bob")
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()


def options(gateway, key=None):
    """How a client of E2B is pointed at it."""
    return {"api_key": key or gateway.ada, "api_url": gateway.url, "sandbox_url": gateway.url}


@pytest.fixture
def where(gateway):
    return options(gateway)


@contextlib.contextmanager
def made(cls, where, **more):
    """A sandbox, which is ended."""
    sandbox = cls.create(**where, **more)
    try:
        yield sandbox
    finally:
        sandbox.kill(**where)


@pytest.fixture
def sandbox(where):
    """A sandbox of the code interpreter, for one test."""
    from e2b_code_interpreter import Sandbox

    with made(Sandbox, where) as sandbox:
        yield sandbox


@pytest.fixture(scope="package")
def shared(gateway):
    """A sandbox for tests that leave nothing behind that matters."""
    from e2b_code_interpreter import Sandbox

    with made(Sandbox, options(gateway)) as sandbox:
        yield sandbox


@pytest.fixture
def isolates(limpetd):  # noqa: F811
    return limpetd.isolates


def until(condition, seconds=60):
    """Waits for something to become true, and returns it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found
