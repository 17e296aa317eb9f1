"""Whatever ends the interpreter, the variables go back to a checkpoint, and the record says to which."""

import os
import signal

import pytest

from tests.support.wire import GUEST_WELCOME, INTERRUPT, OUTPUT, REPLY, RESET

from .guest_harness import Controller, wait_for

IGNORE = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"

# How a call ends its interpreter: code, options, status, error.name.
ENDS = {
    "exit": ("import os; os._exit(3)", {}, "exited", "Exited"),
    "exec": ("import os; os.execv('/bin/true', ['true'])", {}, "exited", "Exited"),
    "segfault": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", {}, "crashed", "Crashed"),
    "abort": ("import os; os.abort()", {}, "crashed", "Crashed"),
    "stopped": ("import os; os.kill(os.getpid(), 19)", {"timeout": 0.3}, "timeout", "TimeoutKilled"),
}


def assert_rolled_back(record, count):
    assert (record["state"], record["rolled_back_to"]["execution_count"]) == ("rolled_back", count), record
    assert record["state_protection"] == {"level": "checkpoint", "execution_count": count, "reason": None}
    assert record["changed"] is None


@pytest.mark.parametrize("mode", ["auto", "always", "off"])
@pytest.mark.parametrize("end", ENDS)
def test_fatal_end(keep, interpreter, mode, end):
    code, options, status, name = ENDS[end]
    controller = keep(interpreter, mode).controller
    assert controller.run("x = [1]")["status"] == "ok"
    if mode == "auto":
        controller.protected(1)
    record = controller.run("x.append(2)\n" + code, **options)
    assert (record["status"], record["error"]["name"], record["epoch"]) == (status, name, 2)
    after = controller.run("print(globals().get('x'))")
    assert (after["state"], after["epoch"], after["execution_count"]) == ("kept", 2, 3)
    if mode == "off":
        assert (record["state"], record["rolled_back_to"]) == ("lost", None)
        assert record["state_protection"] == {
            "level": "none",
            "execution_count": None,
            "reason": "checkpoints are off",
        }
        assert "checkpoints are off" in record["error"]["message"]
        assert after["stdout"] == "None\n"
    else:
        assert_rolled_back(record, 1)
        assert "as they were after call 1 (the call before this one)" in record["error"]["message"]
        assert after["stdout"] == "[1]\n"


def test_interrupt_that_has_to_kill(keep, interpreter):
    controller = keep(interpreter, "always").controller
    controller.run("x = 1")
    controller.start(IGNORE + "print('in', flush=True)\nimport time; time.sleep(60)", stream=True)
    assert controller.receive()[0] == OUTPUT
    controller.send(INTERRUPT, {})
    record = controller.record()
    assert (record["status"], record["error"]["name"]) == ("interrupted", "InterruptKilled")
    assert_rolled_back(record, 1)
    assert controller.run("print(x)")["stdout"] == "1\n"


def test_end_again_and_again(keep, interpreter):
    """The same checkpoint serves any number of times."""
    controller = keep(interpreter).controller
    controller.run("x = 1")
    controller.protected(1)
    identities = set()
    for epoch in range(2, 12):
        record = controller.run("x += 1; import os; os._exit(1)")
        assert_rolled_back(record, 1)
        assert record["epoch"] == epoch
        identities.add(record["rolled_back_to"]["checkpoint"])
    assert len(identities) == 1
    assert controller.run("print(x)")["stdout"] == "1\n"


@pytest.mark.parametrize("calls", [1, 2, 5])
def test_calls_without_a_pause(keep, interpreter, calls):
    """Sent before the answers are read: no time for a checkpoint between them."""
    controller = keep(interpreter).controller
    controller.run("x = 0")
    controller.protected(1)
    for _ in range(calls):
        controller.run("x += 1")
    record = controller.run("import os; os._exit(1)")
    assert record["state"] == "rolled_back"
    count = record["rolled_back_to"]["execution_count"]
    assert controller.run("print(x)")["stdout"] == f"{count - 1}\n"
    lost = calls + 1 - count
    if lost == 0:
        assert "(the call before this one)" in record["error"]["message"]
    elif lost == 1:
        assert "the next call followed too soon" in record["error"]["message"]
    else:
        assert f"the {lost} calls after it followed each other too closely" in record["error"]["message"]


def test_the_first_call_is_kept_though_the_next_follows_at_once(keep, interpreter):
    controller = keep(interpreter).controller
    controller.run("x = 1")
    assert_rolled_back(controller.run("import os; os._exit(1)"), 1)
    assert controller.run("print(x)")["stdout"] == "1\n"


def test_busy_calls_are_kept_now_and_then(keep, interpreter):
    """Forty times what a checkpoint costs has passed in calls: one is taken although there is no pause."""
    guest = keep(interpreter)
    controller = guest.controller
    controller.run("import time; x = 0")
    controller.protected(1)
    first = controller.checkpoints()[0]["id"]
    for number in range(40):
        controller.start("x += 1; time.sleep(0.05)", id=number + 1)
        record = controller.record(number + 1)
        assert record["status"] == "ok"
        if record["state_protection"]["execution_count"] > 1:
            break
    assert record["state_protection"]["execution_count"] > 1
    assert first not in [c["id"] for c in controller.checkpoints()]


def test_first_call_goes_back_to_the_beginning(keep, interpreter):
    controller = keep(interpreter, "always").controller
    record = controller.run("x = 1; import os; os._exit(1)")
    assert_rolled_back(record, 0)
    assert "as they were before the first call" in record["error"]["message"]
    assert controller.run("print('x' in globals())")["stdout"] == "False\n"


def test_loss_while_idle_is_told_by_the_next_record(keep, interpreter):
    controller = keep(interpreter).controller
    pid = int(controller.run("import os; x = 1; print(os.getpid())")["stdout"])
    controller.protected(1)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the interpreter was not reaped")
    record = controller.run("x += 1; print(x)")
    assert (record["status"], record["stdout"], record["epoch"]) == ("ok", "2\n", 2)
    assert (record["state"], record["rolled_back_to"]["execution_count"]) == ("rolled_back", 1)
    assert controller.run("print(x)")["state"] == "kept"


def test_loss_while_idle_without_checkpoints(guest):
    controller = guest.controller
    pid = int(controller.run("import os; x = 1; print(os.getpid())")["stdout"])
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the interpreter was not reaped")
    record = controller.run("print('x' in globals())")
    assert (record["status"], record["state"], record["stdout"]) == ("ok", "lost", "False\n")
    assert controller.run("1")["state"] == "kept"


def test_checkpoint_under_way_at_the_crash(keep, interpreter):
    """In `always` the copy is asked for together with the call that ends at once."""
    controller = keep(interpreter, "always").controller
    for number in range(1, 20):
        record = controller.run("import os; x = globals().get('x', 0) + 1; os.abort()")
        assert record["status"] == "crashed"
        assert_rolled_back(record, 0)
        assert record["execution_count"] == number


def test_subprocesses_end_with_the_interpreter(keep, interpreter):
    guest = keep(interpreter)
    controller = guest.controller
    controller.run("import subprocess, os; x = 1")
    controller.protected(1)
    record = controller.run(
        "spawned = True\n"
        "subprocess.Popen(['setsid', 'sleep', '600'])\n"
        "subprocess.Popen(['sleep', '600'])\n"
        "os.kill(os.getpid(), 9)"
    )
    assert_rolled_back(record, 1)
    assert "2 processes were ended" in record["not_restored"]
    wait_for(lambda: len(guest.descendants()) == 2, "what was killed did not end")
    record = controller.run("os.kill(os.getpid(), 9)")
    assert record["not_restored"] == []


def test_usage_and_output_of_a_call_that_was_killed(keep, interpreter):
    controller = keep(interpreter, "always").controller
    controller.run("import os, time")
    code = "os.write(1, b'said'); end = time.process_time() + 0.2\nwhile time.process_time() < end: pass\nos.kill(os.getpid(), 9)"
    record = controller.run(code)
    assert record["stdout"] == "said" and record["state"] == "rolled_back"
    assert 0.1 < record["usage"]["cpu"] < 10 and record["usage"]["peak_memory"] > 1 << 20


def test_reset_forgets_the_line(keep, interpreter):
    controller = keep(interpreter).controller
    controller.run("x = 1")
    controller.protected(1)
    controller.send(RESET, {"branch": 0}, 9)
    assert controller.receive() == (REPLY, 9, {"epoch": 2})
    assert all(c["execution_count"] == 0 for c in controller.checkpoints())
    record = controller.run("print('x' in globals()); import os, sys; sys.stdout.flush(); os._exit(1)")
    assert record["stdout"] == "False\n" and record["state"] in ("lost", "rolled_back")
    if record["state"] == "rolled_back":
        assert record["rolled_back_to"]["execution_count"] == 0
    assert controller.run("print('x' in globals())")["stdout"] == "False\n"


def test_reset_of_a_call_that_runs(keep, interpreter):
    controller = keep(interpreter, "always").controller
    controller.run("x = 1")
    controller.start("print('in', flush=True)\nimport time; time.sleep(60)", stream=True)
    assert controller.receive()[0] == OUTPUT
    controller.send(RESET, {"branch": 0}, 9)
    record = controller.record()
    assert (record["status"], record["state"], record["epoch"]) == ("interrupted", "lost", 2)
    assert "the session was reset" in record["error"]["message"]
    assert controller.receive() == (REPLY, 9, {"epoch": 2})
    assert controller.run("print('x' in globals())")["stdout"] == "False\n"


# on_error


@pytest.mark.parametrize("mode", ["auto", "always", "off"])
@pytest.mark.parametrize(
    "code, options, status",
    [
        ("1/0", {}, "error"),
        ("import time; time.sleep(60)", {"timeout": 0.2}, "timeout"),
        ("import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: pass", {"timeout": 0.2}, "timeout"),
        ("import os; os._exit(1)", {}, "exited"),
    ],
)
def test_on_error_rollback(keep, interpreter, mode, code, options, status):
    controller = keep(interpreter, mode).controller
    controller.run("x = [1]")
    record = controller.run("print('said', flush=True); x.append(2)\n" + code, on_error="rollback", **options)
    assert (record["status"], record["stdout"], record["epoch"]) == (status, "said\n", 2)
    assert_rolled_back(record, 1)
    after = controller.run("print(x)", on_error="rollback")
    assert (after["status"], after["state"], after["stdout"]) == ("ok", "kept", "[1]\n")
    if mode == "off":
        assert controller.checkpoints() == []


def test_on_error_rollback_of_an_interrupt(keep, interpreter):
    controller = keep(interpreter).controller
    controller.run("x = 1")
    controller.start(
        "x = 2; print('in', flush=True)\nimport time; time.sleep(60)", stream=True, on_error="rollback"
    )
    assert controller.receive()[0] == OUTPUT
    controller.send(INTERRUPT, {})
    record = controller.record()
    assert (record["status"], record["error"]["name"]) == ("interrupted", "KeyboardInterrupt")
    assert_rolled_back(record, 1)
    assert controller.run("print(x)")["stdout"] == "1\n"


def test_on_error_keep_is_the_default(keep, interpreter):
    controller = keep(interpreter, "always").controller
    record = controller.run("x = 1\n1/0")
    assert (record["status"], record["state"]) == ("error", "kept")
    assert controller.run("print(x)")["stdout"] == "1\n"


def test_on_error_is_checked(keep, interpreter):
    controller = keep(interpreter).controller
    controller.start("1", on_error="sometimes", id=5)
    kind, id, body = controller.receive()
    assert (id, body["name"]) == (5, "BadRequest") and "on_error" in body["message"]


# Controllers


def test_running_call_of_a_branch_in_hello_and_credit_resumes(keep, interpreter):
    guest = keep(interpreter, "always")
    marker = guest.directory / "go"
    code = (
        "import os, time\nprint('one', flush=True)\n"
        f"while not os.path.exists('{marker}'): time.sleep(0.01)\n"
        "print('two', flush=True); time.sleep(0.1)\nprint('three')"
    )
    guest.controller.start(code, stream=True, id=77)
    assert guest.controller.receive()[0] == OUTPUT
    guest.controller.close()
    guest.controller = Controller(guest.link)
    hello = guest.controller.welcome(checkpoint="always")
    assert hello["running"]["id"] == 77 and hello["running"]["code_hash"] == 77
    guest.controller.send(42, {"count": 64}, 77)
    # The reply to an order shows that the credit, sent before it, has arrived.
    guest.controller.protected(0)
    marker.touch()
    record = guest.controller.record(77)
    assert (record["status"], record["stdout"]) == ("ok", "one\ntwo\nthree\n")
    streamed = b"".join(body["data"] for kind, body in guest.controller.events if kind == OUTPUT)
    assert streamed == b"two\nthree\n"


def test_without_credit_nothing_is_streamed_after_a_reconnection(keep, interpreter):
    guest = keep(interpreter)
    marker = guest.directory / "go"
    guest.controller.start(
        f"import os, time\nprint('one', flush=True)\nwhile not os.path.exists('{marker}'): time.sleep(0.01)\n"
        "print('two')",
        stream=True,
        id=77,
    )
    assert guest.controller.receive()[0] == OUTPUT
    guest.controller.close()
    guest.controller = Controller(guest.link)
    guest.controller.welcome()
    marker.touch()
    assert guest.controller.record(77)["stdout"] == "one\ntwo\n"
    assert guest.controller.events == []


def test_orphan_timeout_of_the_welcome(keep, interpreter):
    guest = keep(interpreter, "auto", "--same-user", "--orphan-timeout", "3600", orphan_timeout=0.2)
    guest.controller.run("1")
    guest.controller.close()
    assert guest.process.wait(20) == 0


@pytest.mark.parametrize(
    "fields", [{"checkpoint": "often"}, {"orphan_timeout": 0.0}, {"orphan_timeout": -1}, {"setup_timeout": 0.0}, {"memory": -1}]
)
def test_welcome_is_checked(make_guest, interpreter, fields):
    guest = make_guest(interpreter)
    guest.controller.receive()
    guest.controller.send(GUEST_WELCOME, fields, 3)
    kind, id, body = guest.controller.receive()
    assert (id, body["name"]) == (3, "BadRequest") and list(fields)[0] in body["message"]
