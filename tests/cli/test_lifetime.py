"""A controller that is started, that dies in the middle of a call, and that comes back."""

import fcntl
import os
import pathlib
import shutil
import signal
import sys
import time

import pytest

from .fake_controller import FakeController, record, streaming

HERE = pathlib.Path(__file__).parent


# the controller goes away


def test_a_controller_that_comes_back_is_asked_again(limpet):
    """The same run_id, no output twice, none lost."""

    def start(request):
        request.send("output", {"stream": 1, "data": b"one\n"})

    with FakeController(limpet.socket, run=start) as first:
        process = limpet.start("run", "-c", "1")
        run_id = first.wait("run").body["run_id"]
        assert process.stdout.readline() == b"one\n"
    events = [(1, b"one\n"), (1, b"two\n")]
    with FakeController(limpet.socket, run=streaming(*events, stdout="one\ntwo\n", stdout_bytes=8)) as second:
        out, err = process.communicate(timeout=60)
        assert second.wait("run").body["run_id"] == run_id
    assert (process.returncode, out, err) == (0, b"two\n", b"")


def test_ctrl_c_survives_the_controller(limpet):
    """An interrupt that was sent to a controller that died is sent to the next one too."""
    with FakeController(limpet.socket, run=lambda request: None,
                        interrupt=lambda request: request.controller.vanish()) as first:
        process = limpet.start("run", "-c", "1")
        first.wait("run")
        process.send_signal(signal.SIGINT)
        first.wait("interrupt")
    pending = []
    error = {"name": "KeyboardInterrupt", "message": "", "traceback": ""}
    with FakeController(limpet.socket, run=pending.append, interrupt=lambda request: pending[0].reply(
            **record(status="interrupted", error=error))):
        process.communicate(timeout=60)
    assert process.returncode == 130


def test_a_request_that_may_not_happen_twice_is_not_repeated(limpet):
    with FakeController(limpet.socket, reset=lambda request: request.controller.vanish()):
        result = limpet("reset", "a")
    assert result.returncode == 125
    assert result.err == f"limpet: Unavailable: the controller at {limpet.socket} went away before it answered\n"


# starting a controller


@pytest.fixture
def limpetd(limpet, tmp_path):
    """A limpetd that works, and is ended with the test."""
    program = tmp_path / "limpetd"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {HERE}/fake_controller.py \"$@\"\n")
    program.chmod(0o755)
    yield program
    limpet("shutdown")
    assert ends(f"{limpet.socket}.lock"), "the controller lives on"


def ends(lock):
    """Whether the lock that a controller holds becomes free."""
    end = time.monotonic() + 20
    with open(lock) as file:
        while time.monotonic() < end:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                time.sleep(0.01)
    return False


def test_autostart(limpet, limpetd):
    autostart = {"LIMPET_AUTOSTART": "1", "LIMPETD": str(limpetd)}
    for _ in range(2):
        result = limpet("run", "-c", "1", environment=autostart)
        assert (result.returncode, result.out, result.err) == (0, "autostarted\n", "")
    assert pathlib.Path(f"{limpet.socket}.started").read_text() == "started\n"


def test_autostart_finds_limpetd_in_path(limpet, limpetd):
    environment = {"LIMPET_AUTOSTART": "1", "PATH": f"{limpetd.parent}:{os.environ['PATH']}"}
    copy = limpet.directory / "bin"
    copy.mkdir()
    limpet.program = shutil.copy(limpet.program, copy)
    assert limpet("run", "-c", "1", environment=environment).out == "autostarted\n"


def test_several_clients_start_one_controller(limpet, limpetd):
    autostart = {"LIMPET_AUTOSTART": "1", "LIMPETD": str(limpetd)}
    processes = [limpet.start("run", "-c", "1", environment=autostart) for _ in range(8)]
    results = [process.communicate(timeout=60) + (process.returncode,) for process in processes]
    assert results == [(b"autostarted\n", b"", 0)] * 8


def test_autostart_after_the_controller_died_in_mid_call(limpet, limpetd):
    with FakeController(limpet.socket, run=lambda request: request.controller.vanish()) as first:
        result = limpet("run", "-c", "1", environment={"LIMPET_AUTOSTART": "1", "LIMPETD": str(limpetd)})
        first.wait("run")
    assert (result.returncode, result.out) == (0, "autostarted\n")


def test_the_words_of_a_limpetd_that_fails(limpet):
    program = limpet.directory / "limpetd"
    program.write_text("#!/bin/sh\necho 'no engine: install runc' >&2\nexit 1\n")
    program.chmod(0o755)
    result = limpet("ls", environment={"LIMPET_AUTOSTART": "1", "LIMPETD": str(program)})
    assert (result.returncode, result.err) == (
        125, "limpet: Unavailable: cannot start the controller: no engine: install runc\n")


def test_a_limpetd_that_leaves_its_standard_error_open(limpet):
    """What it leaves behind holds the pipe; the wait is for limpetd itself."""
    program = limpet.directory / "limpetd"
    program.write_text("#!/bin/sh\nsleep 1000 & echo $! >pid\necho 'bad news' >&2\nexit 1\n")
    program.chmod(0o755)
    try:
        result = limpet("ls", environment={"LIMPET_AUTOSTART": "1", "LIMPETD": str(program)})
    finally:
        os.kill(int((limpet.directory / "pid").read_text()), signal.SIGKILL)
    assert "bad news" in result.err


def test_limpetd_that_is_not_there(limpet):
    result = limpet("ls", environment={"LIMPET_AUTOSTART": "1", "LIMPETD": "/nowhere/limpetd"})
    assert (result.returncode, result.err) == (
        125, "limpet: Unavailable: /nowhere/limpetd: No such file or directory\n")
