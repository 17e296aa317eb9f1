"""Threads of a session where its state is kept, brought back and saved."""

import pytest

from tests.support.wire import CHECKPOINT, LOAD, SAVE

from .guest_harness import REAL, needs_real

pytestmark = needs_real

PLACE = "/session/.limpet-saved-0"

BUSY = """
import ctypes, hashlib, os, threading, time
count = [0]
def work():
    while True: hashlib.pbkdf2_hmac('sha256', b'x', b'y', 20000); count[0] += 1
for _ in range(2): threading.Thread(target=work, daemon=True).start()
"""
GOES_ON = "before = count[0]\nwhile count[0] == before: time.sleep(0.001)\nprint('on')"

# Only a direct call keeps away what the C library keeps for itself.
DEAF = """
import ctypes, os, threading, time
def deaf():
    number = {'x86_64': 14, 'aarch64': 135}[os.uname().machine]
    ctypes.CDLL(None).syscall(number, 2, ctypes.byref(ctypes.c_ulong(2 ** 64 - 1)), None, 8)
    ready.set()
    while True: time.sleep(1000)
ready = threading.Event()
threading.Thread(target=deaf, daemon=True).start(); ready.wait()
"""


@pytest.mark.parametrize("mode", ["auto", "always"])
def test_a_crash_beside_threads(keep, mode):
    controller = keep(REAL, mode).controller
    controller.run(BUSY)
    for _ in range(3):
        assert controller.run(GOES_ON)["stdout"] == "on\n"
        controller.ask(CHECKPOINT, branch=0)
        record = controller.run("os._exit(1)")
        assert (record["state"], record["not_restored"]) == ("rolled_back", [])
    assert controller.run(GOES_ON)["stdout"] == "on\n"


def test_a_thread_that_cannot_be_stopped(keep):
    controller = keep(REAL, "auto").controller
    controller.run(DEAF)
    name, text = controller.ask(CHECKPOINT, branch=0)
    assert name == "CheckpointFailed" and "could not be stopped in time" in text
    protection = controller.run("1")["state_protection"]
    assert protection["level"] == "none" or protection["execution_count"] == 0
    record = controller.run("os._exit(1)")
    assert "could not be stopped in time" in record["error"]["message"]


# As libraries that would wait for their threads, before a fork.
HANDLER = """
called = []
handler = ctypes.CFUNCTYPE(None)(lambda: called.append(1))
getattr(ctypes.CDLL(None), '__register_atfork')(handler, None, None, None)
"""


def test_variables_are_saved_beside_threads(keep):
    controller = keep(REAL, "off").controller
    controller.run(BUSY + HANDLER + "x = [1]")
    assert controller.ask(SAVE, branch=0, path=PLACE) == {}
    assert controller.run("print(called)")["stdout"] == "[]\n"
    assert controller.run(GOES_ON + "\nx = 2")["stdout"] == "on\n"
    assert "missing" in controller.ask(LOAD, branch=0, path=PLACE, execution_count=9)
    assert controller.run("print(x)")["stdout"] == "[1]\n"
