"""What `limpet doctor` says of a machine, a controller, a Python and a gateway."""

import os
import subprocess
import sys

import pytest
from limpet import __version__

from tests.support import fake


@pytest.fixture
def doctor(tmp_path):
    """Runs it with a limpetd that checks nothing, and a gateway's directory of its own."""
    limpetd = tmp_path / "limpetd"
    limpetd.write_text("#!/bin/sh\necho \"engine oci $1\"\nexit ${STATUS:-0}\n")
    limpetd.chmod(0o755)

    def run(socket="none.sock", **environment):
        own = {"LIMPETD": str(limpetd), "LIMPET_SERVE_STATE_DIR": str(tmp_path / "serve"), "LIMPET_SERVE_PORT": "1"}
        command = [sys.executable, "-m", "limpet.doctor", "--address", tmp_path / socket]
        return subprocess.run(command, env={**os.environ, **own, **environment}, capture_output=True, text=True)

    return run


def lines(done):
    """By subject."""
    return {line.split()[1]: line for line in done.stdout.splitlines() if line.startswith("  ") and "→" not in line}


def test_of_a_machine_without_a_controller(doctor, tmp_path):
    done = doctor()
    assert done.returncode == 0 and done.stdout.startswith("engine oci --check\n"), done.stderr
    found = lines(done)
    assert found["controller"].startswith("  warn ") and f"limpet {__version__}" in found["python"]
    assert "this machine alone" in found["keys"] and "nothing answers at http://127.0.0.1:1" in found["gateway"]
    assert os.listdir(tmp_path) == ["limpetd"]  # nothing was started


def test_of_one_with_a_controller(doctor, tmp_path):
    with fake.Controller(tmp_path / "limpet.sock") as controller:
        row = {"pid": 1, "version": "0.0.1", "socket": "s", "engine": "oci", "spares": 0}
        controller.on("sessions", lambda request: request.reply(controller=row, sessions=[]))
        assert f"this package is {__version__}" in lines(doctor("limpet.sock"))["controller"]


def test_what_fails_is_its_status(doctor):
    assert doctor(STATUS="1").returncode == 1
    done = doctor(LIMPET_SERVE_PORT="many")
    assert done.returncode == 1 and "$LIMPET_SERVE_PORT" in lines(done)["settings"]
