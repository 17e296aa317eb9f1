"""The life of limpet-guest: its controllers, its interpreters, its end."""

import os
import signal

from tests.support.wire import ERROR, GUEST_HELLO, GUEST_WELCOME, INTERRUPT, NAMESPACE, OUTPUT, REPLY, RESET, STOP

from .guest_harness import FAKE, REAL, Controller, assert_works, needs_real, wait_for
from .test_state_hostile import replace


def test_hello(guest):
    assert guest.hello == {
        "protocol": 1,
        "session": "a-session",
        "secret": bytes(range(32)),
        "peer": "limpet-guest/0.1.0",
        "branches": [{"branch": 0, "epoch": 1, "execution_count": 0}],
        "running": None,
        "commands": [],
        "waits": True,
        "passes": True,
        "shares": True,
    }


def test_reset_idle(guest):
    guest.controller.run("x = 1")
    guest.controller.send(RESET, {}, 9)
    assert guest.controller.receive() == (REPLY, 9, {"epoch": 2})
    record = guest.controller.run("print('x' in globals())")
    assert (record["stdout"], record["execution_count"], record["epoch"]) == ("False\n", 2, 2)


def test_reset_running(guest):
    guest.controller.start("print('in', flush=True)\nimport time; time.sleep(60)", stream=True)
    assert guest.controller.receive()[0] == OUTPUT
    guest.controller.send(RESET, {}, 9)
    record = guest.controller.record()
    assert (record["status"], record["error"]["name"], record["epoch"]) == (
        "interrupted",
        "InterruptKilled",
        2,
    )
    assert record["stdout"] == "in\n"
    assert guest.controller.receive() == (REPLY, 9, {"epoch": 2})
    assert_works(guest, 2)


def test_resets_one_after_another(guest):
    guest.controller.send(RESET, {}, 8)
    guest.controller.send(RESET, {}, 9)
    assert guest.controller.receive() == (REPLY, 8, {"epoch": 2})
    assert guest.controller.receive() == (REPLY, 9, {"epoch": 3})
    assert_works(guest, 3)


def test_busy(guest):
    guest.controller.start("import time; time.sleep(60)")
    guest.controller.start("print(1)", id=2)
    kind, id, body = guest.controller.receive()
    assert (kind, id, body["name"]) == (ERROR, 2, "Busy")
    guest.controller.send(INTERRUPT, {})
    assert guest.controller.record()["status"] == "interrupted"


def test_bad_execute(guest):
    guest.controller.send(62, {"code": "1", "run_id": "0", "timeout": -1.0}, 5)
    kind, id, body = guest.controller.receive()
    assert (kind, id, body["name"]) == (ERROR, 5, "BadRequest")
    assert_works(guest, 1)


def test_stop_leaves_nothing(guest):
    guest.controller.run("import subprocess; subprocess.Popen(['setsid', 'sleep', '60']); spawned = True")
    below = guest.descendants()
    assert len(below) == 2
    guest.controller.send(STOP, {})
    assert guest.process.wait(20) == 0
    wait_for(lambda: not [pid for pid in below if os.path.exists(f"/proc/{pid}")], "a process is left")


def test_sigterm_stops(guest):
    guest.process.send_signal(signal.SIGTERM)
    assert guest.process.wait(20) == 0


def reconnect(guest):
    guest.controller.close()
    guest.controller = Controller(guest.link)


def test_controller_dies_while_a_cell_runs(guest):
    marker = guest.directory / "go"
    guest.controller.start(
        "import os, time\nprint('one', flush=True)\n"
        f"while not os.path.exists('{marker}'): time.sleep(0.01)\n"
        "print('two')",
        stream=True,
        id=77,
    )
    assert guest.controller.receive()[0] == OUTPUT
    reconnect(guest)
    hello = guest.controller.welcome()
    assert hello["branches"][0]["execution_count"] == 1
    assert hello["running"] == {"id": 77, "branch": 0, "run_id": "0" * 32, "code_hash": 77}
    marker.touch()
    record = guest.controller.record(77)
    assert (record["status"], record["stdout"]) == ("ok", "one\ntwo\n")
    assert_works(guest, 1)


def test_record_made_while_there_is_no_controller(guest):
    marker = guest.directory / "done"
    guest.controller.start(f"import time; time.sleep(0.2); open('{marker}', 'w').close()", id=78)
    guest.controller.close()
    wait_for(marker.exists, "the cell did not go on")
    guest.controller = Controller(guest.link)
    guest.controller.welcome()
    assert guest.controller.record(78)["status"] == "ok"
    assert_works(guest, 1)


def test_record_made_between_hello_and_welcome_comes_once(guest):
    marker = guest.directory / "go"
    guest.controller.start(
        f"import os, time\nwhile not os.path.exists('{marker}'): time.sleep(0.01)\nopen('done', 'w').close()",
        id=79,
    )
    reconnect(guest)
    assert guest.controller.receive()[0] == GUEST_HELLO
    marker.touch()
    wait_for((guest.directory / "done").exists, "the cell did not go on")
    guest.controller.send(GUEST_WELCOME, {})
    assert guest.controller.record(79)["status"] == "ok"
    assert_works(guest, 1)


def test_what_a_dead_controller_asked_for_holds_up_nobody(fake):
    fake.controller.run(replace("NAMESPACE", "open('asked', 'w').close()"))
    fake.controller.send(NAMESPACE, {"branch": 0}, 80)
    wait_for((fake.directory / "asked").exists, "the interpreter was not asked")
    reconnect(fake)
    fake.controller.welcome()
    fake.controller.record()  # again
    assert_works(fake, 1)


@needs_real
def test_a_way_to_the_network_that_only_the_next_controller_tells_of(make_guest):
    guest = make_guest(REAL)
    guest.controller.welcome()
    seen = "import os; print('http_proxy' in os.environ)"
    assert guest.controller.run(seen)["stdout"] == "False\n"
    reconnect(guest)
    guest.controller.welcome(proxied=True)
    guest.controller.record()  # again
    assert guest.controller.run(seen)["stdout"] == "True\n"


def test_orphan_ends(make_guest):
    guest = make_guest(FAKE, "--same-user", "--orphan-timeout", "5")
    guest.controller.welcome()
    guest.controller.run("pass")
    guest.controller.close()
    assert guest.process.wait(20) == 0


def test_interpreter_that_cannot_start(make_guest, root):
    guest = make_guest(root / "missing")
    guest.controller.welcome()
    for count in (1, 2):
        record = guest.controller.run("1")
        assert (record["status"], record["error"]["name"]) == ("failed", "InterpreterFailed")
        assert "No such file" in record["error"]["message"] and record["execution_count"] == count


def test_interpreter_that_dies_before_ready(make_guest, root):
    broken = root / "broken"
    broken.write_text("#!/bin/sh\necho no library >&2\nexit 4\n")
    broken.chmod(0o755)
    guest = make_guest(broken)
    guest.controller.welcome()
    assert "no library" in guest.controller.run("1")["error"]["message"]
    broken.write_text(f"#!/bin/sh\nexec {FAKE}\n")
    assert_works(guest, 1)


def test_reset_of_an_interpreter_that_cannot_start(make_guest, root):
    guest = make_guest(root / "missing")
    guest.controller.welcome()
    guest.controller.send(RESET, {}, 9)
    assert guest.controller.receive() == (REPLY, 9, {"epoch": 2})
    assert guest.controller.run("1")["error"]["name"] == "InterpreterFailed"
