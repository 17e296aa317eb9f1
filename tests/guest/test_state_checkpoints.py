"""Checkpoints by hand, the tree they form, what they may hold, and going back to one."""

import os
import signal
import time

import pytest

from tests.support.wire import (
    CHECKPOINT,
    CHECKPOINTS,
    DROP,
    ERROR,
    EXECUTED,
    INTERRUPT,
    NAMESPACE,
    OUTPUT,
    REPLY,
    RESET,
    ROLLBACK,
)

from .guest_harness import (
    AS_PROCESS_1,
    FAKE,
    MIB,
    OTHER_UID,
    REAL,
    as_process_1,
    needs_plain,
    needs_real,
    needs_root,
    wait_for,
)

MODES = ["auto", "always", "off"]


@pytest.fixture(params=MODES)
def controller(request, keep, interpreter):
    return keep(interpreter, request.param).controller


@pytest.fixture
def orderly(keep):
    """For orders that the supervisor refuses by itself, whatever the interpreter and the mode."""
    return keep(FAKE, "auto").controller


def value(controller, branch=0):
    return controller.run("print(x)", branch=branch)["stdout"].strip()


def test_checkpoint_and_rollback(controller):
    controller.run("x = 1")
    before = time.time()
    kept = controller.checkpoint(name="good")
    assert before - 1 < kept["created"] < time.time() + 1
    assert {key: kept[key] for key in ("name", "branch", "execution_count", "automatic")} == {
        "name": "good",
        "branch": 0,
        "execution_count": 1,
        "automatic": False,
    }
    assert kept in [dict(c, private_bytes=kept["private_bytes"]) for c in controller.checkpoints()]
    controller.run("x = 2")
    for epoch, name in ((2, "good"), (3, kept["id"])):
        reply = controller.ask(ROLLBACK, branch=0, checkpoint=name)
        assert reply == {
            "checkpoint": kept["id"],
            "execution_count": 1,
            "epoch": epoch,
            "not_restored": [],
        }
        assert value(controller) == "1"
    record = controller.run("x = 3")
    assert (record["state"], record["epoch"], record["rolled_back_to"]) == ("kept", 3, None)


def test_forward_and_back_in_the_tree(controller):
    kept = []
    for number in range(4):
        controller.run(f"x = {number}")
        kept.append(controller.checkpoint(name=f"at-{number}"))
    order = [0, 3, 1, 2, 2, 0, 3]
    for epoch, number in enumerate(order, 2):
        assert controller.ask(ROLLBACK, branch=0, checkpoint=f"at-{number}")["epoch"] == epoch
        assert value(controller) == str(number)
    rows = {c["name"]: c for c in controller.checkpoints() if c["name"]}
    assert [rows[f"at-{number}"]["id"] for number in range(4)] == [c["id"] for c in kept]
    # The parent of what is taken now is where the state came from.
    controller.ask(ROLLBACK, branch=0, checkpoint="at-1")
    assert controller.checkpoint()["parent"] == kept[1]["id"]


def test_parents_are_linked_anew(keep, interpreter):
    controller = keep(interpreter, "off").controller
    ids = []
    for _ in range(4):
        controller.run("1")
        ids.append(controller.checkpoint()["id"])
    parents = {c["id"]: c["parent"] for c in controller.checkpoints()}
    assert parents == {ids[0]: None, ids[1]: ids[0], ids[2]: ids[1], ids[3]: ids[2]}
    assert controller.ask(DROP, checkpoint=ids[1]) == {}
    assert controller.ask(DROP, checkpoint=ids[2]) == {}
    assert {c["id"]: c["parent"] for c in controller.checkpoints()} == {ids[0]: None, ids[3]: ids[0]}
    controller.run("x = 5")
    assert controller.ask(DROP, checkpoint=ids[3]) == {}
    record = controller.run("import os; os._exit(1)")
    assert record["rolled_back_to"] == {"checkpoint": ids[0], "execution_count": 1}
    assert "because checkpoints are off" in record["error"]["message"]


def test_drop(controller):
    controller.run("x = 1")
    kept = controller.checkpoint(name="a")
    assert controller.ask(DROP, checkpoint="a") == {}
    for kind, more in ((DROP, {}), (ROLLBACK, {"branch": 0})):
        assert controller.ask(kind, checkpoint=kept["id"], **more)[0] == "NoSuchCheckpoint"
        assert controller.ask(kind, checkpoint="a", **more)[0] == "NoSuchCheckpoint"
    assert controller.checkpoint(name="a")["name"] == "a"
    assert value(controller) == "1"


def test_ids_are_never_used_again(controller):
    seen = set()
    for _ in range(5):
        kept = controller.checkpoint()
        assert kept["id"] not in seen and kept["id"][0] == "c"
        seen.add(kept["id"])
        controller.ask(DROP, checkpoint=kept["id"])


@pytest.mark.parametrize("name", ["", "-a", "a b", "ä", "c7", "x" * 65, "a/b"])
def test_names(orderly, name):
    kind, text = orderly.ask(CHECKPOINT, branch=0, name=name)
    assert kind in ("BadRequest", "TooLarge") and "name" in text
    orderly.checkpoint(name="c7x")
    assert orderly.ask(CHECKPOINT, branch=0, name="c7x")[0] == "BadRequest"


def test_only_one_automatic_is_kept(keep, interpreter):
    controller = keep(interpreter).controller
    for count in range(1, 6):
        controller.run(f"x = {count}")
        controller.protected(count)
        assert [c["execution_count"] for c in controller.checkpoints()] == [count]
        assert [c["automatic"] for c in controller.checkpoints()] == [True]


def test_what_was_gone_back_to_is_dropped(keep, interpreter):
    """The state that came from there is not to be lost with it, however soon the next call comes."""
    controller = keep(interpreter, "auto").controller
    controller.run("x = 1")
    controller.ask(CHECKPOINT, branch=0, name="first")
    controller.run("x = 2")
    controller.ask(CHECKPOINT, branch=0, name="second")
    for _ in range(10):
        controller.ask(ROLLBACK, branch=0, checkpoint="second")
        controller.ask(DROP, checkpoint="second")
        assert controller.run("import os; os._exit(1)")["state"] == "rolled_back"
        assert value(controller) == "2"
        controller.ask(CHECKPOINT, branch=0, name="second")


def test_no_automatic_one_of_a_state_that_is_kept(keep, interpreter):
    """A checkpoint by hand serves as well: the next one is of a later state."""
    controller = keep(interpreter, "always").controller
    controller.run("x = 1")
    pinned = controller.checkpoint(name="a")
    record = controller.run("1")
    assert record["state_protection"]["execution_count"] == 1
    assert [c["id"] for c in controller.checkpoints() if c["execution_count"] == 1] == [pinned["id"]]


def test_orders_while_a_call_runs(controller):
    controller.run("x = 1")
    kept = controller.checkpoint(name="a")
    controller.start("print('in', flush=True)\nimport time; time.sleep(60)", stream=True)
    assert controller.receive()[0] == OUTPUT
    for kind, body in (
        (CHECKPOINT, {"branch": 0}),
        (ROLLBACK, {"branch": 0, "checkpoint": "a"}),
        (DROP, {"checkpoint": "a"}),
        (24, {"branch": 5, "from": 0}),
        (NAMESPACE, {"branch": 0}),
    ):
        assert controller.ask(kind, **body)[0] == "Busy"
    assert kept["id"] in [c["id"] for c in controller.checkpoints()]
    controller.send(INTERRUPT, {})
    assert controller.record()["status"] == "interrupted"
    assert value(controller) == "1"


def test_second_order_is_busy(keep):
    controller = keep(FAKE, "off").controller
    controller.run("def slow(id, body, fds): pass\nhandlers[20] = slow")
    controller.send(CHECKPOINT, {"branch": 0}, 500)
    controller.send(CHECKPOINT, {"branch": 0}, 501)
    assert controller.answer(501)[0] == "Busy"
    controller.start("1", id=5)
    kind, id, body = controller.receive()
    assert (kind, id, body["name"]) == (ERROR, 5, "Busy")
    assert controller.answer(500)[0] == "CheckpointFailed"


@pytest.mark.parametrize(
    "kind, body",
    [
        (CHECKPOINT, {}),
        (CHECKPOINT, {"branch": 0, "nane": "x"}),
        (CHECKPOINT, {"branch": -1}),
        (CHECKPOINT, {"branch": 9}),
        (CHECKPOINTS, {"branch": 0}),
        (ROLLBACK, {"branch": 0}),
        (ROLLBACK, {"branch": 9, "checkpoint": "c1"}),
        (DROP, {}),
        (DROP, {"checkpoint": 7}),
        (NAMESPACE, {}),
        (NAMESPACE, {"branch": 9}),
    ],
)
def test_bad_orders(orderly, kind, body):
    assert orderly.ask(kind, **body)[0] in ("BadRequest", "NoSuchSession")
    assert orderly.run("1")["status"] == "ok"


def test_order_right_after_the_start(keep, interpreter):
    """It waits for the interpreter."""
    controller = keep(interpreter, "off").controller
    assert controller.checkpoint()["execution_count"] == 0
    assert controller.ask(ROLLBACK, branch=0, checkpoint="c1")["epoch"] == 2
    assert controller.ask(NAMESPACE, branch=0)["more"] == 0


def test_orders_with_an_interpreter_that_cannot_start(make_guest, root):
    guest = make_guest(root / "missing")
    controller = guest.controller
    controller.welcome()
    for kind in (CHECKPOINT, NAMESPACE):
        name, text = controller.ask(kind, branch=0)
        assert name == "Internal" and "No such file" in text
    assert controller.checkpoints() == []


# Copies that are gone


def frozen(guest, interpreter_pid):
    return [pid for pid in guest.descendants() if pid != interpreter_pid]


def test_killed_copy_is_not_there(keep, interpreter):
    guest = keep(interpreter, "off")
    controller = guest.controller
    pid = int(controller.run("import os; x = 1; print(os.getpid())")["stdout"])
    controller.checkpoint(name="a")
    (copy,) = frozen(guest, pid)
    os.kill(copy, signal.SIGKILL)
    wait_for(lambda: controller.checkpoints() == [], "it is still listed")
    assert controller.ask(ROLLBACK, branch=0, checkpoint="a")[0] == "NoSuchCheckpoint"
    assert value(controller) == "1"


KILL_COPIES = """
import os, signal
def copies():
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try: parent = int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
        except OSError: continue
        if parent == os.getppid() and int(pid) != os.getpid(): yield int(pid)
"""


def test_cell_that_kills_its_checkpoint_and_itself(keep, interpreter):
    controller = keep(interpreter).controller
    controller.run(KILL_COPIES + "x = 1")
    controller.protected(1)
    record = controller.run("for pid in copies(): os.kill(pid, 9)\nos._exit(1)")
    assert (record["status"], record["state"], record["rolled_back_to"]) == ("exited", "lost", None)
    assert "checkpoint was lost" in record["error"]["message"], record
    assert record["state_protection"]["level"] == "none"
    assert controller.run("print('x' in globals())")["stdout"] == "False\n"


def test_cell_that_kills_the_newest_checkpoint(keep, interpreter):
    """Then the next older one serves, and the record says so."""
    controller = keep(interpreter, "off").controller
    controller.run(KILL_COPIES + "x = 1; old = []")
    controller.checkpoint(name="older")
    controller.run("x = 2; old = list(copies())")
    controller.checkpoint(name="newer")
    record = controller.run("for pid in set(copies()) - set(old): os.kill(pid, 9)\nos._exit(1)")
    assert record["state"] == "rolled_back" and record["rolled_back_to"]["execution_count"] == 1
    assert "because the checkpoint was lost" in record["error"]["message"]
    assert value(controller) == "1"
    assert [c["name"] for c in controller.checkpoints()] == ["older"]


def test_stopped_copy_is_passed_over(keep, interpreter):
    """It is there but does not answer."""
    guest = keep(interpreter, "off")
    controller = guest.controller
    pid = int(controller.run("import os; x = 1; print(os.getpid())")["stdout"])
    controller.checkpoint(name="older")
    older = frozen(guest, pid)
    controller.run("x = 2")
    controller.checkpoint(name="newer")
    (newer,) = set(frozen(guest, pid)) - set(older)
    os.kill(newer, signal.SIGSTOP)
    record = controller.run("import os; os._exit(1)", timeout=3)
    assert (record["status"], record["state"]) == ("exited", "rolled_back")
    assert record["rolled_back_to"]["execution_count"] == 1
    assert "no copy of the checkpoint could be made" in record["error"]["message"]
    assert value(controller) == "1"


# Failing to take one

NO_MORE = (
    "import resource, os\n"
    "limits = resource.getrlimit(resource.RLIMIT_NPROC)\n"
    "resource.setrlimit(resource.RLIMIT_NPROC, (1, limits[1]))\n"
)


@needs_root
@pytest.mark.parametrize("mode", ["always", "auto"])
def test_copies_that_cannot_be_made(keep, interpreter, mode):
    """As with too few pids; the reason is remembered and told, and the calls go on."""
    guest = keep(interpreter, mode, "--uid", OTHER_UID)
    controller = guest.controller
    controller.run(NO_MORE + "x = 1")
    name, text = controller.ask(CHECKPOINT, branch=0)
    assert name == "CheckpointFailed" and "no checkpoint could be taken" in text and "ended" not in text
    record = controller.run("x = 2", on_error="rollback")
    assert (record["status"], record["error"]["name"]) == ("failed", "CheckpointFailed")
    assert (record["state"], value(controller)) == ("kept", "1")
    protection = controller.run("1")["state_protection"]
    count = protection["execution_count"]
    if count is None:
        assert "no checkpoint could be taken" in protection["reason"]
    else:  # taken when the interpreter was ready
        assert count == 0
    record = controller.run("os._exit(1)")
    assert "no checkpoint could be taken" in record["error"]["message"], record["error"]
    assert record["state"] == ("lost" if count is None else "rolled_back")


@needs_real
def test_a_cell_that_closes_its_streams(keep):
    """What the copy is reached over then has one of their numbers."""
    controller = keep(REAL, "off").controller
    controller.run("import os; x = 1; os.close(0); os.close(1); os.close(2)")
    controller.checkpoint(name="closed")
    controller.run("x = 2")
    controller.ask(ROLLBACK, branch=0, checkpoint="closed")
    assert value(controller) == "1"


# Room

# 8 MiB that no allocator gives to something else.
FILL = (
    "import mmap\n"
    "block = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
    "for i in range(0, len(block), 4096): block[i] = 1"
)
REFILL = "for i in range(0, len(block), 4096): block[i] = 2"


def test_budget(keep, interpreter):
    controller = keep(interpreter, "off", checkpoint_budget=20 * MIB).controller
    dropped = []
    for number in range(5):
        controller.run(FILL)
        dropped += controller.ask(CHECKPOINT, branch=0, name=f"n{number}")["dropped"]
    rows = controller.checkpoints()
    # The newest shares its block with the interpreter; two others fit.
    assert [c["name"] for c in rows] == ["n2", "n3", "n4"] and dropped == ["c1", "c2"]
    assert all(8 * MIB < c["private_bytes"] < 11 * MIB for c in rows[:-1])
    assert rows[-1]["private_bytes"] < 3 * MIB


def test_what_two_copies_share_counts(keep, interpreter):
    """The interpreter has changed it: private to neither of the two, and held by both."""
    controller = keep(interpreter, "off", checkpoint_budget=6 * MIB).controller
    controller.run(FILL)
    assert controller.ask(CHECKPOINT, branch=0)["dropped"] == []
    assert controller.ask(CHECKPOINT, branch=0)["dropped"] == []
    controller.run(REFILL)
    assert controller.ask(CHECKPOINT, branch=0)["dropped"] == ["c1", "c2"]


def test_without_a_budget_all_stay(keep, interpreter):
    controller = keep(interpreter, "off").controller
    for _ in range(5):
        controller.run(FILL)
        assert controller.ask(CHECKPOINT, branch=0)["dropped"] == []
    rows = controller.checkpoints()
    assert len(rows) == 5 and all(c["private_bytes"] > 7 * MIB for c in rows[:-1])


@needs_root
@pytest.mark.parametrize("user", AS_PROCESS_1)
def test_memory_of_another_user_is_measured(keep, root, interpreter, user):
    guest = keep(interpreter, "off", "--uid", OTHER_UID, prefix=as_process_1(root, user))
    controller = guest.controller
    controller.run(FILL)
    controller.checkpoint()
    controller.run(REFILL)
    assert controller.checkpoints()[0]["private_bytes"] > 8 * MIB
    # The supervisor is again who it was: it starts and ends processes of that user.
    controller.send(RESET, {"branch": 0}, 9)
    assert controller.receive() == (REPLY, 9, {"epoch": 2})
    assert controller.run("1")["status"] == "ok"


def test_automatic_ones_go_first(keep, interpreter):
    guest = keep(interpreter, "always", checkpoint_budget=12 * MIB)
    controller = guest.controller
    controller.run(FILL)
    controller.checkpoint(name="pinned")
    controller.run(FILL)  # `pinned` holds 8 MiB alone
    controller.run("1")
    controller.start("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n" + FILL)
    controller.protected(3)
    (guest.directory / "go").touch()
    controller.record()  # the automatic one of before holds as much
    (automatic,) = [c["id"] for c in controller.checkpoints() if c["automatic"]]
    reply = controller.ask(CHECKPOINT, branch=0, name="second")
    assert reply["dropped"] == [automatic]
    assert [c["name"] for c in controller.checkpoints()] == ["pinned", "second"]


def test_as_many_as_a_session_may_have(keep):
    controller = keep(FAKE, "off").controller
    for number in range(64):
        assert controller.ask(CHECKPOINT, branch=0, name=f"n{number}")["dropped"] == []
    assert controller.ask(CHECKPOINT, branch=0, name="n64")["dropped"] == ["c1"]
    rows = controller.checkpoints()
    assert len(rows) == 64 and rows[0]["name"] == "n1"


@needs_plain
@needs_real
def test_large_allocation_is_a_memory_error(keep):
    controller = keep(REAL, "off", memory=512 * MIB).controller
    record = controller.run("x = 1\nblock = bytearray(500 << 20)")
    assert (record["status"], record["state"]) == ("error", "kept")
    assert record["error"]["name"] == "MemoryError"
    assert controller.run("block = bytearray(200 << 20); len(block)")["result"] == str(200 << 20)
    assert value(controller) == "1"


@needs_plain
@needs_real
def test_memory_limit_holds_in_copies(keep):
    controller = keep(REAL, "always", memory=512 * MIB).controller
    controller.run("import os; x = 1")
    assert controller.run("os._exit(1)")["state"] == "rolled_back"
    assert controller.run("block = bytearray(500 << 20)")["error"]["name"] == "MemoryError"


# Namespace


def test_namespace(keep, interpreter):
    controller = keep(interpreter, "off").controller
    controller.run("x = 1; y = 'text'; _hidden = 2")
    reply = controller.ask(NAMESPACE, branch=0)
    assert [(v["name"], v["type"]) for v in reply["names"]] == [("x", "int"), ("y", "str")]
    assert reply["more"] == 0
    assert value(controller) == "1"


def test_changed_is_passed_on(keep):
    controller = keep(FAKE, "off").controller
    changed = {
        "added": [{"name": "a", "type": "int", "shape": [2, 3], "dtype": "i8", "bytes": 8, "repr": "1"}],
        "changed": [{"name": "b", "type": "str", "shape": None, "dtype": None, "bytes": None, "repr": None}],
        "deleted": ["c"],
        "more": 5,
    }
    assert controller.run(f"changed = {changed!r}")["changed"] == changed
    assert controller.run("1")["changed"] is None
    record = controller.run(f"changed = {changed!r}; 1/0", on_error="rollback")
    assert (record["state"], record["changed"]) == ("rolled_back", None)


def test_namespace_in_the_middle_of_a_loss(keep):
    controller = keep(FAKE, "always").controller
    controller.run("def die(id, body, fds): os._exit(1)\nhandlers[26] = die")
    controller.run("1")
    name, text = controller.ask(NAMESPACE, branch=0)
    assert name == "Internal" and "lost" in text
    record = controller.run("1")
    assert (record["status"], record["state"]) == ("ok", "rolled_back")


def test_events_of_a_call_are_over_before_an_order(controller):
    controller.run("print('x')", stream=True)
    controller.send(CHECKPOINTS, {}, 7)
    kind, id, _ = controller.receive()
    assert (kind, id) == (2, 7) and kind != EXECUTED


@needs_root
@pytest.mark.parametrize("group", ["1", "0"])
def test_where_one_that_is_out_of_memory_takes_all_along_is_told(keep, interpreter, group):
    """As a kubelet sets it, and with its option singleProcessOOMKill."""
    mounted = f"mount -t tmpfs none /sys/fs/cgroup && echo {group} >/sys/fs/cgroup/memory.oom.group"
    controller = keep(interpreter, "always", prefix=["unshare", "--mount", "--fork", "sh", "-c", f'{mounted} && exec "$@"', "sh"]).controller
    reason = controller.run("x = 1")["state_protection"]["reason"]
    assert (reason is not None) == (group == "1")
    assert reason is None or "memory.oom.group" in reason
