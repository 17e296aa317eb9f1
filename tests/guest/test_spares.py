"""Guests that wait for a session: their imports, the checkpoint of their birth, the claim, and what a reset is then."""

import os
import signal

import pytest

from tests.support.wire import (
    BRANCH,
    CHECKPOINT,
    CLAIM,
    DROP,
    ERROR,
    EXECUTE,
    GUEST_WELCOME,
    INTERRUPT,
    OUTPUT,
    PREPARED,
    REPLY,
    RESET,
    ROLLBACK,
)

from .guest_harness import (
    AS_PROCESS_1,
    FAKE,
    OTHER_UID,
    REAL,
    Controller,
    as_process_1,
    assert_works,
    changed_fake,
    needs_real,
    needs_root,
    wait_for,
)

MODULE = "colorsys"  # that nobody imports by chance
LOADED = f"import sys; print({MODULE!r} in sys.modules)"
ENV = {"GREETING": "hello"}
GREET = "import os; print(os.environ['GREETING'])"


@pytest.fixture
def spare(make_guest):
    """A guest that waits for its session: spare(interpreter, *arguments)."""

    def make(interpreter, *arguments, imports=(MODULE,), **fields):
        guest = make_guest(interpreter, *arguments)
        guest.hello = guest.controller.welcome(imports=list(imports), **fields)
        return guest

    return make


@pytest.fixture
def claim(spare, interpreter):
    """The same, claimed: claim(mode, env)."""

    def make(mode="auto", env=ENV):
        guest = spare(interpreter)
        guest.controller.prepared()
        guest.controller.send(CLAIM, {"env": env, "checkpoint": mode})
        return guest

    return make


def reset(controller, epoch, branch=0):
    assert controller.ask(RESET, branch=branch) == {"epoch": epoch}


def test_claim(spare, interpreter):
    guest = spare(interpreter, imports=[MODULE, "no_such_module"])
    (failed,) = guest.controller.prepared()
    assert failed.startswith("no_such_module")
    assert guest.hello["branches"] == [{"branch": 0, "epoch": 1, "execution_count": 0}]
    controller = guest.controller
    controller.send(CLAIM, {"env": ENV, "checkpoint": "always"})
    record = controller.run(f"{GREET}; {LOADED}")
    assert (record["status"], record["stdout"]) == ("ok", "hello\nTrue\n"), record["error"]
    assert (record["state"], record["epoch"], record["execution_count"]) == ("kept", 1, 1)
    assert record["state_protection"] == {"level": "checkpoint", "execution_count": 0, "reason": None}
    assert controller.checkpoints() == []


def test_first_call_goes_back_to_the_birth(claim):
    controller = claim("auto").controller
    record = controller.run("x = 1; import os; os._exit(1)")
    assert (record["status"], record["state"], record["epoch"]) == ("exited", "rolled_back", 2)
    assert record["rolled_back_to"] == {"checkpoint": "c0", "execution_count": 0}
    assert "as they were before the first call" in record["error"]["message"]
    record = controller.run(f"print('x' in globals()); {GREET}; {LOADED}")
    assert (record["stdout"], record["state"]) == ("False\nhello\nTrue\n", "kept")


def test_without_checkpoints_it_is_lost(claim):
    controller = claim("off").controller
    record = controller.run("x = 1; import os; os._exit(1)")
    assert (record["status"], record["state"], record["rolled_back_to"]) == ("exited", "lost", None)
    assert record["state_protection"]["level"] == "none"
    assert "checkpoints are off" in record["error"]["message"]
    record = controller.run(f"print('x' in globals()); {GREET}; {LOADED}")
    assert (record["stdout"], record["state"], record["epoch"]) == ("False\nhello\nTrue\n", "kept", 2)


@pytest.mark.parametrize("mode", ["auto", "always", "off"])
def test_reset_is_a_copy_of_the_birth(claim, mode):
    controller = claim(mode).controller
    pids = {controller.run("x = 1; import os; print(os.getpid())")["stdout"]}
    for epoch in (2, 3, 4):
        reset(controller, epoch)
        record = controller.run(f"print('x' in globals()); {GREET}; {LOADED}")
        assert (record["stdout"], record["state"]) == ("False\nhello\nTrue\n", "kept")
        assert (record["epoch"], record["execution_count"]) == (epoch, 2 * epoch - 2)
        pids.add(controller.run("x = 1; print(os.getpid())")["stdout"])
    assert len(pids) == 4


@needs_real
def test_random_numbers_do_not_repeat(spare):
    controller = spare(REAL, imports=["random", "uuid", "secrets"]).controller
    assert controller.prepared() == []
    controller.send(CLAIM, {"checkpoint": "off"})
    draws = "import random, uuid, secrets; print(random.random(), uuid.uuid4(), secrets.token_hex())"
    seen = set()
    for epoch in range(2, 6):
        seen.update(controller.run(draws)["stdout"].split())
        reset(controller, epoch)
    assert len(seen) == 12


def test_reset_while_a_call_runs(claim):
    controller = claim("auto").controller
    controller.start("print('in', flush=True)\nimport time; time.sleep(60)", stream=True)
    assert controller.receive()[0] == OUTPUT
    controller.send(RESET, {}, 9)
    record = controller.record()
    assert (record["status"], record["state"], record["epoch"]) == ("interrupted", "lost", 2)
    assert controller.receive() == (REPLY, 9, {"epoch": 2})
    record = controller.run(LOADED)
    assert (record["stdout"], record["state"], record["epoch"]) == ("True\n", "kept", 2)


def test_resets_one_after_another(claim):
    controller = claim("auto").controller
    for id in (8, 9):
        controller.send(RESET, {}, id)
    assert controller.receive() == (REPLY, 8, {"epoch": 2})
    assert controller.receive() == (REPLY, 9, {"epoch": 3})
    record = controller.run(f"{GREET}; {LOADED}")
    assert (record["stdout"], record["state"], record["epoch"]) == ("hello\nTrue\n", "kept", 3)


def test_undo_of_the_first_call(claim):
    controller = claim("auto").controller
    record = controller.run("x = 1; 1/0", on_error="rollback")
    assert (record["status"], record["state"]) == ("error", "rolled_back")
    assert record["rolled_back_to"]["execution_count"] == 0
    assert controller.run(f"print('x' in globals()); {GREET}")["stdout"] == "False\nhello\n"


@pytest.mark.parametrize("env", [{"PYTHONHASHSEED": "7"}, {"LANG": "C"}, {"OMP_NUM_THREADS": "7"}])
def test_environment_that_python_reads_when_it_starts(claim, env):
    guest = claim("always", {**ENV, **env})
    record = guest.controller.run(f"{GREET}; {LOADED}; print(os.environ[{next(iter(env))!r}], os.getpid())")
    assert record["stdout"].split()[:3] == ["hello", "False", *env.values()], record
    assert (record["epoch"], record["state"], record["execution_count"]) == (1, "kept", 1)
    # Its own automatic checkpoint, and none of a birth that was another one.
    assert record["state_protection"]["execution_count"] == 0
    wait_for(lambda: len(guest.children()) == 2, "the one that was replaced is left")
    reset(guest.controller, 2)
    assert guest.controller.run(f"{GREET}; {LOADED}")["stdout"] == "hello\nFalse\n"


def test_environment_that_is_as_it_was(claim):
    """Not that it is set counts, but that it differs."""
    guest = claim("off", {**ENV, "LANG": "C.UTF-8", "TZ": "Asia/Tokyo"})
    record = guest.controller.run(f"{GREET}; {LOADED}; import time; time.tzset(); print(time.tzname[0])")
    assert record["stdout"] == "hello\nTrue\nJST\n"


def test_birth_is_in_no_list(claim):
    controller = claim("off").controller
    assert controller.checkpoints() == []
    for kind, more in ((DROP, {}), (ROLLBACK, {"branch": 0}), (BRANCH, {"branch": 1, "from": 0})):
        assert controller.ask(kind, checkpoint="c0", **more)[0] == "NoSuchCheckpoint"
    kept = controller.checkpoint(name="mine")
    assert (kept["id"], kept["parent"], kept["execution_count"]) == ("c1", None, 0)
    assert [c["id"] for c in controller.checkpoints()] == ["c1"]


def test_birth_survives_what_evicts_others(spare, interpreter):
    controller = spare(interpreter, checkpoint_budget=1).controller
    controller.prepared()
    controller.send(CLAIM, {"env": ENV, "checkpoint": "off"})
    for number in range(3):
        controller.run(f"x{number} = bytearray(b'x' * 2**20)")
        controller.checkpoint()
    assert len(controller.checkpoints()) == 1
    controller.ask(DROP, checkpoint=controller.checkpoints()[0]["id"])
    reset(controller, 2)
    assert controller.run(LOADED)["stdout"] == "True\n"


def test_branches_of_the_birth(claim):
    controller = claim("auto").controller
    reply = controller.ask(BRANCH, branch=1, **{"from": 0})
    assert (reply["execution_count"], reply["epoch"]) == (0, 1) and reply["checkpoint"] != "c0"
    assert controller.run(f"{GREET}; {LOADED}; x = 1", branch=1)["stdout"] == "hello\nTrue\n"
    reset(controller, 2, branch=1)
    record = controller.run(f"print('x' in globals()); {GREET}; {LOADED}", branch=1)
    assert (record["stdout"], record["state"]) == ("False\nhello\nTrue\n", "kept")


def frozen_pid(guest):
    """Of the birth checkpoint, where nothing but that and the interpreter exists."""
    pid = int(guest.controller.run("import os; print(os.getpid())")["stdout"])
    (frozen,) = set(guest.children()) - {pid}
    return frozen


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "it was not reaped")


def test_birth_whose_process_ends(claim):
    guest = claim("off")
    controller = guest.controller
    kill(frozen_pid(guest))
    reset(controller, 2)
    assert controller.run(f"{GREET}; {LOADED}")["stdout"] == "hello\nFalse\n"
    record = controller.run("os._exit(1)")
    assert (record["state"], record["epoch"]) == ("lost", 3)
    assert controller.run("import os; print(1)")["stdout"] == "1\n"


def test_birth_that_makes_no_copy(claim):
    """Stopped from outside: a new interpreter is started instead."""
    guest = claim("off")
    os.kill(frozen_pid(guest), signal.SIGSTOP)
    reset(guest.controller, 2)
    assert guest.controller.run(f"{GREET}; {LOADED}")["stdout"] == "hello\nFalse\n"


def test_interpreter_of_a_spare_ends(spare, interpreter):
    """What happened before the claim is nobody's business."""
    guest = spare(interpreter)
    guest.controller.prepared()
    before = set(guest.children())
    first, second = sorted(before)
    kill(first)
    wait_for(lambda: set(guest.children()) - {second}, "it did not go on")
    guest.controller.send(CLAIM, {"env": ENV, "checkpoint": "off"})
    record = guest.controller.run(f"{GREET}; {LOADED}")
    assert (record["stdout"], record["state"], record["epoch"]) == ("hello\nTrue\n", "kept", 1)


def test_import_that_ends_the_interpreter(make_guest, interpreter):
    guest = make_guest(interpreter)
    (guest.directory / "deadly.py").write_text("import os; os._exit(3)")
    env = {"PYTHONPATH": str(guest.directory)}
    guest.controller.welcome(imports=[MODULE, "deadly"], env=env)
    assert guest.controller.prepared() == [MODULE, "deadly"]
    guest.controller.send(CLAIM, {"env": env})
    assert_works(guest, 1)


def test_claim_before_it_is_prepared(spare, interpreter):
    controller = spare(interpreter).controller
    controller.send(CLAIM, {"env": ENV, "checkpoint": "always"})
    record = controller.run(GREET)
    assert (record["stdout"], record["state"], record["epoch"]) == ("hello\n", "kept", 1)
    reset(controller, 2)
    assert controller.run(GREET)["stdout"] == "hello\n"


NO_ROOM = """
def checkpoint(id, body, fds):
    os.close(fds[0])
    send(CHECKPOINTED, {"error": "no room"}, id)

handlers = {"""


def test_no_room_for_a_birth(spare, root):
    script = root / "interpreter"
    script.write_text(changed_fake("handlers = {", NO_ROOM))
    script.chmod(0o755)
    guest = spare(script)
    assert guest.controller.prepared() == []
    guest.controller.send(CLAIM, {"env": ENV})
    record = guest.controller.run(f"{GREET}; {LOADED}")
    assert (record["stdout"], record["epoch"]) == ("hello\nTrue\n", 1)
    assert record["state_protection"]["reason"] == "no checkpoint could be taken: no room"
    reset(guest.controller, 2)
    assert guest.controller.run(f"{GREET}; {LOADED}")["stdout"] == "hello\nFalse\n"


DEADLY = """
def deadly(id, body, fds):
    if set(body) == {FIELDS!r}:
        os._exit(3)
    prepare(id, body, fds)

handlers = {"""


@pytest.fixture
def deadly(spare, root):
    """A spare whose interpreter ends when it gets a `prepare` with just these fields."""

    def make(*fields):
        script = root / "interpreter"
        text = changed_fake("handlers = {", DEADLY.replace("{FIELDS!r}", repr(set(fields))))
        script.write_text(text.replace("PREPARE: prepare", "PREPARE: deadly"))
        script.chmod(0o755)
        return spare(script).controller

    return make


def test_first_use_that_ends_the_interpreter(deadly):
    """A copy of the birth checkpoint takes its place."""
    controller = deadly("env", "imports")
    assert controller.prepared() == []
    controller.send(CLAIM, {"env": ENV})
    record = controller.run(f"{GREET}; {LOADED}")
    assert (record["stdout"], record["epoch"]) == ("hello\nTrue\n", 1)


def test_environment_that_stays_is_not_told(deadly):
    controller = deadly("env")
    assert controller.prepared() == []
    controller.send(CLAIM, {})
    for epoch in (1, 2):
        record = controller.run(f"{LOADED}; x = 1")
        assert (record["stdout"], record["epoch"]) == ("True\n", epoch)
        reset(controller, epoch + 1)


def reconnect(guest):
    guest.controller.close()
    guest.controller = Controller(guest.link)


def test_another_controller_before_the_claim(spare, interpreter):
    guest = spare(interpreter, imports=["no_such_module"])
    (failed,) = guest.controller.prepared()
    reconnect(guest)
    guest.controller.welcome(imports=["no_such_module"])
    assert guest.controller.prepared() == [failed]
    guest.controller.send(CLAIM, {"env": ENV})
    assert guest.controller.run(GREET)["stdout"] == "hello\n"


def test_another_controller_after_the_claim(claim):
    guest = claim("auto")
    guest.controller.run("x = 5")
    reconnect(guest)
    guest.controller.welcome(env=ENV, checkpoint="auto")
    assert guest.controller.record()["status"] == "ok"
    assert guest.controller.run(f"print(x); {GREET}")["stdout"] == "5\nhello\n"
    reset(guest.controller, 2)
    assert guest.controller.run(f"{GREET}; {LOADED}")["stdout"] == "hello\nTrue\n"


def test_claim_that_was_lost_with_its_connection(spare, interpreter):
    """Whoever welcomes a spare without imports means a session."""
    guest = spare(interpreter)
    guest.controller.prepared()
    reconnect(guest)
    guest.controller.welcome(env=ENV, checkpoint="auto")
    record = guest.controller.run(f"{GREET}; {LOADED}")
    assert (record["stdout"], record["epoch"]) == ("hello\nTrue\n", 1)


def refusal(controller, kind, body):
    controller.send(kind, body, 9)
    answered, id, error = controller.receive()
    assert (answered, id) == (ERROR, 9)
    return error["name"], error["message"]


def test_what_a_spare_refuses(spare, interpreter):
    controller = spare(interpreter).controller
    controller.prepared()
    body = {"code": "1", "timeout": 1.0, "run_id": "0" * 32}
    for kind, fields in ((EXECUTE, body), (RESET, {}), (CHECKPOINT, {"branch": 0}), (INTERRUPT, {})):
        name, text = refusal(controller, kind, fields)
        assert name == "BadRequest" and "before claim" in text
    for fields in ({"env": []}, {"checkpoint": "never"}, {"env": {"": "x"}}, {"session": "x"}):
        assert refusal(controller, CLAIM, fields)[0] == "BadRequest"
    controller.send(CLAIM, {})
    assert controller.run("print(1)")["stdout"] == "1\n"
    assert refusal(controller, CLAIM, {}) == ("BadRequest", "it is a session already")
    assert controller.run("print(1)")["stdout"] == "1\n"


@pytest.mark.parametrize("imports", [["x"] * 65, [1], ["x" * 257]])
def test_imports_that_are_none(make_guest, imports):
    controller = make_guest(FAKE).controller
    controller.receive()
    assert refusal(controller, GUEST_WELCOME, {"imports": imports})[0] in ("BadRequest", "TooLarge")
    controller.send(GUEST_WELCOME, {"imports": []})
    assert controller.prepared() == []


PREPARES = {
    "twice": "send(PREPARED, {'failed': []}, id); send(PREPARED, {'failed': []}, id)",
    "another": "send(PREPARED, {'failed': []}, id + 1)",
    "no text": "send(PREPARED, {'failed': [1]}, id)",
    "too many": "send(PREPARED, {'failed': ['x'] * 65}, id)",
    "too long": "send(PREPARED, {'failed': ['x' * 257]}, id)",
    "unknown field": "send(PREPARED, {'sorry': 1}, id)",
}


@pytest.mark.parametrize("case", PREPARES)
def test_prepared_that_is_none(spare, root, case):
    """It costs that interpreter its life; the next one is not asked to import anything."""
    script, marker = root / "interpreter", root / "marker"
    body = (
        f"if os.path.exists({str(marker)!r}): return prepare(id, body, fds)\n"
        f"    open({str(marker)!r}, 'w')\n    {PREPARES[case]}"
    )
    text = changed_fake("handlers = {", f"def bad(id, body, fds):\n    {body}\n\nhandlers = {{")
    script.write_text(text.replace("PREPARE: prepare", "PREPARE: bad"))
    script.chmod(0o755)
    guest = spare(script)
    assert guest.controller.prepared() in ([MODULE], [])
    guest.controller.send(CLAIM, {"env": ENV})
    assert guest.controller.run(GREET)["stdout"] == "hello\n"


def test_orphan_ends(spare, interpreter):
    guest = spare(interpreter, orphan_timeout=0.3)
    guest.controller.prepared()
    guest.controller.close()
    assert guest.process.wait(20) == 0


def test_spare_that_cannot_start_ends(spare, root):
    guest = spare(root / "missing")
    assert guest.process.wait(20) == 1


def test_spare_tells_nothing_more(claim):
    guest = claim("off")
    guest.controller.run("1")
    reset(guest.controller, 2)
    guest.controller.send(EXECUTE, {"code": "1", "timeout": 5.0, "run_id": "0" * 32}, 3)
    assert guest.controller.receive()[0] not in (PREPARED, ERROR)


@needs_root
@pytest.mark.parametrize("user", AS_PROCESS_1)
def test_as_in_a_container(make_guest, interpreter, root, user):
    guest = make_guest(interpreter, "--uid", OTHER_UID, prefix=as_process_1(root, user))
    controller = guest.controller
    controller.welcome(imports=[MODULE])
    assert controller.prepared() == []
    controller.send(CLAIM, {"env": ENV})
    assert controller.run(f"{GREET}; {LOADED}")["stdout"] == "hello\nTrue\n"
    for epoch in (2, 3):
        reset(controller, epoch)
        record = controller.run(f"{GREET}; {LOADED}")
        assert (record["stdout"], record["epoch"]) == ("hello\nTrue\n", epoch)


def test_resets_of_two_branches_at_once(claim):
    """Two copies of the birth in the making: each branch gets its own."""
    controller = claim("auto").controller
    controller.ask(BRANCH, branch=1, **{"from": 0})
    for _ in range(5):
        controller.send(RESET, {"branch": 0}, 8)
        controller.send(RESET, {"branch": 1}, 9)
        answers = {controller.receive()[:2] for _ in range(2)}
        assert answers == {(REPLY, 8), (REPLY, 9)}
        for branch in (0, 1):
            record = controller.run(f"print('x' in globals()); {GREET}; {LOADED}; x = 1", branch=branch)
            assert (record["stdout"], record["state"]) == ("False\nhello\nTrue\n", "kept")
