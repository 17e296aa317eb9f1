"""What a call gets from limpet-guest, however its code ends."""

import os
import signal

import pytest

from tests.support.wire import INTERRUPT, OUTPUT

from .guest_harness import MIB, REAL, assert_works, needs_real, wait_for

RECORD_FIELDS = {
    "run_id",
    "code_hash",
    "branch",
    "status",
    "state",
    "rolled_back_to",
    "not_restored",
    "state_protection",
    "changed",
    "epoch",
    "execution_count",
    "stdout",
    "stderr",
    "stdout_bytes",
    "stderr_bytes",
    "truncated",
    "stdout_file",
    "stderr_file",
    "result",
    "displays",
    "error",
    "signal",
    "exit_code",
    "duration",
    "usage",
}


def test_ok_and_state(run):
    first = run("x = 41; print('out'); import sys; print('err', file=sys.stderr)")
    assert set(first) == RECORD_FIELDS
    assert (first["status"], first["state"], first["epoch"], first["execution_count"]) == ("ok", "kept", 1, 1)
    assert (first["stdout"], first["stderr"]) == ("out\n", "err\n")
    assert (first["stdout_bytes"], first["stderr_bytes"], first["truncated"]) == (4, 4, False)
    assert first["error"] is first["signal"] is first["exit_code"] is first["stdout_file"] is None
    assert first["displays"] == [] and first["duration"] > 0 and first["usage"]["peak_memory"] > MIB
    assert run("print(x + 1)")["stdout"] == "42\n"


def test_error_keeps_state(run):
    record = run("x = 1\n1/0")
    assert (record["status"], record["state"]) == ("error", "kept")
    assert record["error"]["name"] == "ZeroDivisionError" and "1/0" in record["error"]["traceback"] + "1/0"
    assert run("print(x)")["stdout"] == "1\n"


def test_timeout_stoppable(run):
    record = run("x = 7\nwhile True: pass", timeout=1)
    assert (record["status"], record["state"], record["error"]["name"]) == (
        "timeout",
        "kept",
        "KeyboardInterrupt",
    )
    assert run("print(x)")["stdout"] == "7\n"


def test_timeout_caught(run):
    record = run("import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('caught')", timeout=2)
    assert (record["status"], record["state"], record["error"]["name"]) == ("timeout", "kept", "Timeout")
    assert record["stdout"] == "caught\n"


@pytest.mark.parametrize(
    "code",
    [
        "sum(range(10**12))",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nimport time; time.sleep(60)",
    ],
)
def test_timeout_unstoppable(guest, code):
    record = guest.controller.run("print('before', flush=True)\n" + code, timeout=1)
    assert (record["status"], record["state"], record["error"]["name"]) == (
        "timeout",
        "lost",
        "TimeoutKilled",
    )
    assert "variables are lost" in record["error"]["message"] and record["stdout"] == "before\n"
    assert record["epoch"] == 2 and record["exit_code"] is None
    assert_works(guest, 2)


def test_interrupt(guest):
    guest.controller.start("print('in', flush=True)\nimport time; time.sleep(60)", stream=True)
    assert guest.controller.receive()[0] == OUTPUT
    guest.controller.send(INTERRUPT, {})
    record = guest.controller.record()
    assert (record["status"], record["state"], record["error"]["name"]) == (
        "interrupted",
        "kept",
        "KeyboardInterrupt",
    )


def test_interrupt_kills(guest):
    guest.controller.start(
        "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "print('in', flush=True)\ntime.sleep(60)",
        stream=True,
    )
    assert guest.controller.receive()[0] == OUTPUT
    guest.controller.send(INTERRUPT, {})
    record = guest.controller.record()
    assert (record["status"], record["state"], record["error"]["name"]) == (
        "interrupted",
        "lost",
        "InterruptKilled",
    )
    assert_works(guest, 2)


def test_interrupt_idle(guest):
    guest.controller.run("x = 1")
    guest.controller.send(INTERRUPT, {})
    assert guest.controller.run("print(x)")["stdout"] == "1\n"


def test_exit(guest):
    record = guest.controller.run("import os; os.write(1, b'last words'); os._exit(3)")
    assert (record["status"], record["state"], record["exit_code"]) == ("exited", "lost", 3)
    assert (record["signal"], record["error"]["name"], record["stdout"]) == (None, "Exited", "last words")
    assert_works(guest, 2)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_crash(guest, number):
    record = guest.controller.run(f"import os; os.write(2, b'x'); os.kill(os.getpid(), {int(number)})")
    assert (record["status"], record["state"], record["signal"]) == ("crashed", "lost", number)
    assert record["error"]["name"] == "Crashed" and record["stderr"].startswith("x")
    assert number.name in record["error"]["message"]
    assert_works(guest, 2)


def test_exec_replaces_interpreter(guest):
    record = guest.controller.run("import os; os.execv('/bin/sh', ['sh', '-c', 'exit 5'])")
    assert (record["status"], record["exit_code"], record["state"]) == ("exited", 5, "lost")
    assert_works(guest, 2)


def test_code_that_runs_on_after_it_had_ended_its_call_by_words(fake):
    """The next call hears whose fault it is."""
    first = fake.controller.run(
        "send(EXECUTED, {'spawned': False, 'cpu': 0.0, 'peak_memory': 0})\nimport select\nselect.select([channel], [], [])"
    )
    assert first["status"] == "ok"
    record = fake.controller.run("print('mine')")
    assert record["status"] == "crashed"
    assert "call 1 ran on after it had said that it was over" in record["error"]["message"]
    assert_works(fake, 2)


def test_death_while_idle_is_told(guest):
    record = guest.controller.run(
        "import os, threading, time\n"
        "r, w = os.pipe()\n"
        "threading.Thread(target=lambda: (os.read(r, 1), os._exit(1)), daemon=True).start()\n"
        "pid = os.getpid(); print(pid)"
    )
    os.kill(int(record["stdout"]), signal.SIGKILL)
    wait_for(
        lambda: not os.path.exists(f"/proc/{record['stdout'].strip()}"), "the interpreter was not reaped"
    )
    assert_works(guest, 2)


@needs_real
@pytest.mark.parametrize("daemon, status", [(False, "timeout"), (True, "ok")])
def test_a_script_waits_for_its_threads_within_its_time_limit(make_guest, daemon, status):
    controller = make_guest(REAL).controller
    controller.welcome()
    record = controller.run(
        "import threading\nfile = open('left', 'w'); file.write('text')\n"
        f"threading.Thread(target=threading.Event().wait, daemon={daemon}).start()\nprint('begun')",
        script=True,
        timeout=2,
    )
    assert (record["status"], record["state"], record["stdout"]) == (status, "kept", "begun\n")
