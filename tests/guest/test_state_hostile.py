"""Interpreters and copies that lie about checkpoints, or outnumber whoever ends them: the record stays true."""

import os
import signal

import pytest

from tests.support.wire import BRANCH, CHECKPOINT, NAMESPACE, RESET, ROLLBACK, STOP

from .guest_harness import FAKE, OTHER_UID, REAL, as_process_1, needs_real, needs_root, wait_for

pytestmark = pytest.mark.sanitize

EXIT = "os._exit(1)"


@pytest.fixture
def guest(keep):
    guest = keep(FAKE, "off")
    guest.controller.run("x = 1")
    return guest


@pytest.fixture
def controller(guest):
    return guest.controller


def replace(name, body):
    """Code that replaces what the interpreter does with a message."""
    lines = "\n".join("    " + line for line in body.splitlines())
    return f"def handler(id, body, fds):\n{lines}\nhandlers[{name}] = handler"


# Asked for a checkpoint: what the interpreter does, and what that is called.
REFUSED = {
    "says it cannot": ("send(CHECKPOINTED, {'error': 'no'}, id)", "no"),
    "has no copy": ("os.close(fds[0]); send(CHECKPOINTED, {'error': None}, id)", "ended before it was ready"),
    "speaks for a copy": ("send(FROZEN, {}, 0, socket.socket(fileno=fds[0])); send(CHECKPOINTED, {}, id)", "copy"),
    "a child of its own": (
        "if os.fork() == 0:\n"
        "    send(FROZEN, {}, 0, socket.socket(fileno=fds[0])); time.sleep(60)\n"
        "send(CHECKPOINTED, {}, id)",
        "copy",
    ),
    "junk": ("socket.socket(fileno=fds[0]).sendall(b'\\0\\0\\0\\5hello'); send(CHECKPOINTED, {}, id)", "message"),
    "too much": ("socket.socket(fileno=fds[0]).sendall(b'\\xff' * 9000); send(CHECKPOINTED, {}, id)", "4096"),
    "another message": ("send(READY, {}, 0, socket.socket(fileno=fds[0])); send(CHECKPOINTED, {}, id)", "ready"),
    "a copy that refuses first": (
        "send(CHECKPOINTED, {'error': 'x'}, 0, socket.socket(fileno=fds[0])); send(CHECKPOINTED, {}, id)",
        "before it was frozen",
    ),
    "silence": ("send(CHECKPOINTED, {}, id); keep = socket.socket(fileno=fds[0]); cells['keep'] = keep", "in time"),
}


def test_interpreter_that_ends_when_asked(controller):
    controller.checkpoint(name="a")
    controller.run("x = 2\n" + replace("CHECKPOINT", "os._exit(1)"))
    name, text = controller.ask(CHECKPOINT, branch=0)
    assert name == "CheckpointFailed" and "ended before" in text
    record = controller.run("print(x)")
    assert (record["stdout"], record["state"]) == ("1\n", "rolled_back")


@pytest.mark.parametrize("case", REFUSED)
def test_checkpoint_that_is_none(controller, case):
    body, reason = REFUSED[case]
    controller.run(replace("CHECKPOINT", body))
    name, text = controller.ask(CHECKPOINT, branch=0)
    assert name == "CheckpointFailed" and reason in text, text
    assert controller.checkpoints() == []
    record = controller.run("print(x)")
    assert (record["stdout"], record["state"]) == ("1\n", "kept")
    record = controller.run(EXIT)
    assert (record["state"], record["rolled_back_to"]) == ("lost", None)
    assert "no checkpoint could be taken" in record["error"]["message"]


# What costs the interpreter its life.
FAULTS = {
    "no answer to that": "send(CHECKPOINTED, {}, 0)",
    "junk in it": "send(CHECKPOINTED, {'error': 5}, 0)",
    "too long": "send(CHECKPOINTED, {'error': 'x' * 257}, 0)",
    "unknown field": "send(CHECKPOINTED, {'sorry': 'x'}, 0)",
    "frozen": "send(FROZEN, {}, 0)",
    "restore": "send(RESTORE, {}, 0)",
    "namespace": "send(NAMESPACE, {'names': [], 'more': 0}, 1)",
    "ready": "send(READY, {'peer': 'x', 'not_restored': []}, 0)",
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults(controller, case):
    controller.checkpoint(name="a")
    record = controller.run(f"{FAULTS[case]}; time.sleep(60)")
    assert (record["status"], record["state"], record["error"]["name"]) == ("crashed", "rolled_back", "Crashed")
    assert "broke the protocol" in record["error"]["message"]
    assert controller.run("print(x)")["stdout"] == "1\n"


def test_call_that_ends_before_the_checkpoint(keep):
    """The interpreter makes the checkpoint first, or says why not."""
    controller = keep(FAKE, "always").controller
    controller.run("x = 1")
    controller.run(replace("CHECKPOINT", "pass"))
    record = controller.run("x = 2")
    assert (record["status"], record["state"]) == ("crashed", "rolled_back")
    assert "broke the protocol" in record["error"]["message"]
    assert controller.run("print(x)")["stdout"] == "1\n"


def test_call_on_an_interpreter_that_has_hung_up(controller):
    """The call has not done it: it runs on the next one."""
    controller.checkpoint(name="a")
    record = controller.run(
        "import threading\n"
        "def leave():\n"
        "    while running: time.sleep(0.01)\n"
        "    os.set_inheritable(channel.fileno(), False)\n"
        "    os.execv('/bin/sleep', ['sleep', '60'])\n"
        "threading.Thread(target=leave).start()\n"
        "print(os.getpid())"
    )
    comm = f"/proc/{int(record['stdout'])}/comm"
    wait_for(lambda: open(comm).read() == "sleep\n", "it runs on")
    assert len(controller.checkpoints()) == 1
    record = controller.run("print(x)")
    assert (record["status"], record["stdout"], record["state"]) == ("ok", "1\n", "rolled_back")


def test_answer_twice(controller):
    twice = "mine = os.getpid()\ncheckpoint(id, body, fds)\nif os.getpid() == mine: send(CHECKPOINTED, {}, id)"
    controller.run(replace("CHECKPOINT", twice))
    controller.checkpoint(name="a")
    record = controller.run("print(x)")
    if record["state"] == "kept":  # told by the next one, if it was noticed after the call
        record = controller.run("print(x)")
    assert record["state"] == "rolled_back" and record["rolled_back_to"]["checkpoint"] == "c1"


def test_frozen_twice(controller):
    """A copy that says more than it should is one no more."""
    controller.run(replace("RESTORE", "send(FROZEN, {}, 0)\ntime.sleep(60)"))
    controller.checkpoint(name="a")
    record = controller.run(EXIT)
    assert record["state"] == "lost" and "twice" in record["error"]["message"]
    assert controller.checkpoints() == []


RESTORES = {
    "says ready itself": "c = socket.socket(fileno=fds[0]); send(READY, {}, 0, c); c.detach()",
    "is silent": "time.sleep(60)",
    "closes all": "for fd in fds: os.close(fd)",
    "ends": "os._exit(0)",
    "speaks junk": "socket.socket(fileno=fds[0]).sendall(b'\\0\\0\\0\\1x'); time.sleep(60)",
    "a stranger is ready": (
        "if os.fork() == 0: send(READY, {}, 0, socket.socket(fileno=fds[0])); time.sleep(60)\n"
        "time.sleep(60)"
    ),
    "bad notes": (
        "c = socket.socket(fileno=fds[0])\n"
        "if fork_sibling() == 0: send(READY, {'not_restored': ['x'] * 33}, 0, c); time.sleep(60)\n"
        "time.sleep(60)"
    ),
    "long notes": (
        "c = socket.socket(fileno=fds[0])\n"
        "if fork_sibling() == 0: send(READY, {'not_restored': ['x' * 257]}, 0, c); time.sleep(60)\n"
        "time.sleep(60)"
    ),
    "another message first": (
        "c = socket.socket(fileno=fds[0])\n"
        "if fork_sibling() == 0: send(EXECUTED, {}, 2, c); time.sleep(60)\n"
        "time.sleep(60)"
    ),
}


@pytest.mark.parametrize("case", RESTORES)
def test_restore_that_is_none(guest, controller, case):
    """Then the next older checkpoint serves."""
    controller.checkpoint(name="older")
    controller.run("x = 2\n" + replace("RESTORE", RESTORES[case]))
    controller.checkpoint(name="newer")
    record = controller.run("x = 3; os._exit(1)")
    assert (record["status"], record["state"]) == ("exited", "rolled_back"), record
    assert record["rolled_back_to"] == {"checkpoint": "c1", "execution_count": 1}
    assert record["epoch"] == 2
    assert controller.run("print(x)")["stdout"] == "1\n"
    wait_for(lambda: len(guest.descendants()) <= 3, "a false copy is left")


def test_refusal_without_a_restore(controller):
    controller.run(
        "def freeze(end):\n"
        "    c = socket.socket(fileno=os.dup(end))\n"
        "    send(FROZEN, {}, 0, c); send(CHECKPOINTED, {'error': 'just so'}, 0, c)\n"
        "    time.sleep(60)"
    )
    controller.ask(CHECKPOINT, branch=0, name="a")
    wait_for(lambda: controller.checkpoints() == [], "it is still believed")
    assert controller.run(EXIT)["state"] == "lost"


def test_claims_after_death(controller):
    """A child that holds the ends of the interpreter's channel speaks when that has gone: at most a call that ends
    as it says, never variables that are not there."""
    controller.checkpoint(name="a")
    record = controller.run(
        "if os.fork() == 0:\n"
        "    while os.getppid() != SUPERVISOR: pass\n"
        "    for i in range(1000): send(EXECUTED, {'result': 'mine'}, 2)\n"
        "os._exit(1)"
    )
    if record["state"] == "kept":
        record = controller.run("1")
    assert record["state"] == "rolled_back"
    assert controller.run("print(x)")["stdout"] == "1\n"


def test_told_and_died(keep):
    """A call that had ended when its interpreter died: its end counts, and its variables are gone."""
    controller = keep(FAKE, "always").controller
    controller.run("x = 1")
    for _ in range(20):
        record = controller.run("x += 1; send(EXECUTED, {'result': 'done'}); os._exit(1)")
        assert record["status"] in ("ok", "exited")
        if record["status"] == "ok" and record["state"] == "kept":
            record = controller.run("1")
        assert record["state"] == "rolled_back" and record["rolled_back_to"]["execution_count"] >= 1


def test_namespace_that_is_none(controller):
    for reply in (
        "{'names': [], 'more': -1}",
        "{'names': {}, 'more': 0}",
        "{'names': [{'name': 'x'}], 'more': 0}",
        "{'names': [{'name': 'x', 'type': 't', 'shape': [-1]}], 'more': 0}",
        "{'names': [{'name': 'x', 'type': 't', 'shape': [1] * 65}], 'more': 0}",
        "{'names': [{'name': 'x' * 257, 'type': 't'}], 'more': 0}",
        "{'names': [{'name': 'x', 'type': 't', 'repr': 'r' * 257}], 'more': 0}",
        "{'names': [{'name': 'x', 'type': 't', 'evil': 1}], 'more': 0}",
        "{'names': [{'name': 'x', 'type': 't'}] * 1001, 'more': 0}",
        "{'names': []}",
        "{'names': [], 'more': 0, 'evil': 1}",
    ):
        controller.run("x = 1")
        controller.checkpoint()
        controller.run(replace("NAMESPACE", f"send(26, {reply}, id)"))
        name, text = controller.ask(NAMESPACE, branch=0)
        assert name == "Internal" and "lost" in text
        record = controller.run("print(x)")
        assert (record["stdout"], record["state"]) == ("1\n", "rolled_back")
        controller.send(RESET, {"branch": 0}, 500)
        controller.answer()


def test_namespace_in_silence(controller):
    controller.run("waiting = []\n" + replace("NAMESPACE", "waiting.append(id)"))
    name, text = controller.ask(NAMESPACE, branch=0)
    assert name == "Internal" and "in time" in text
    # The answer that comes too late is nobody's, and no fault.
    record = controller.run("send(NAMESPACE, {'names': [], 'more': 0}, waiting[0]); print(x)")
    assert (record["stdout"], record["state"]) == ("1\n", "kept")
    controller.run("handlers[NAMESPACE] = list_variables")
    assert controller.ask(NAMESPACE, branch=0)["more"] == 0


CHANGED = [
    "[]",
    "{'added': [], 'changed': [], 'deleted': []}",
    "{'added': [], 'changed': [], 'deleted': [], 'more': 0, 'evil': 1}",
    "{'added': [1], 'changed': [], 'deleted': [], 'more': 0}",
    "{'added': [], 'changed': [{'name': 'x'}], 'deleted': [], 'more': 0}",
    "{'added': [], 'changed': [], 'deleted': [1], 'more': 0}",
    "{'added': [], 'changed': [], 'deleted': ['x'] * 65, 'more': 0}",
    "{'added': [], 'changed': [], 'deleted': ['x' * 257], 'more': 0}",
    "{'added': [{'name': 'x', 'type': 't'}] * 65, 'changed': [], 'deleted': [], 'more': 0}",
]


@pytest.mark.parametrize("changed", CHANGED)
def test_changed_that_is_none(controller, changed):
    record = controller.run(f"changed = {changed}")
    assert (record["status"], record["error"]["name"]) == ("crashed", "Crashed")
    assert "broke the protocol" in record["error"]["message"]


def test_interpreter_that_ends_again_and_again(guest, controller):
    """While no call runs: then the next older checkpoint serves."""
    pid = int(controller.run("print(os.getpid())")["stdout"])
    controller.checkpoint(name="older")
    controller.run("x = 2")
    controller.checkpoint(name="newer")
    frozen = set(guest.descendants()) - {pid}
    for _ in range(4):
        assert controller.ask(NAMESPACE, branch=0)["more"] == 0  # it is ready
        (pid,) = set(guest.descendants()) - frozen
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "it was not reaped")
    record = controller.run("print(x)")
    assert (record["status"], record["stdout"]) == ("ok", "1\n")
    assert (record["state"], record["rolled_back_to"]["execution_count"]) == ("rolled_back", 2)


FORK_BOMB = """
import os, resource, time
resource.setrlimit(resource.RLIMIT_NPROC, (MANY, MANY))
r, w = os.pipe()
def bomb(deep):
    os.setsid() if deep % 2 else None
    while True:
        try:
            if os.fork() == 0:
                deep += 1
                os.write(w, b'x')
        except OSError: time.sleep(0.001)
def first():
    # What is left of an earlier bomb may still be on its way out, and counts until then.
    while True:
        try: return os.fork()
        except OSError: time.sleep(0.001)
if first() == 0:
    try: bomb(0)
    finally: os._exit(0)
for i in range(10): os.read(r, 1)
"""


def bomb(many):
    return FORK_BOMB.replace("MANY", str(many))


@pytest.fixture(params=["below", "process-1"])
def bombed(request, keep, root):
    """As an ordinary user, whose processes the kernel counts; as root there would be no limit to the bomb."""
    prefix = as_process_1(root, "root") if request.param == "process-1" else []
    guest = keep(FAKE, "off", "--uid", OTHER_UID, prefix=prefix)
    guest.controller.run("x = 1")
    return guest


@needs_root
def test_fork_bomb_at_a_rollback(bombed):
    controller = bombed.controller
    controller.checkpoint(name="a")
    controller.ask(BRANCH, branch=1, **{"from": 0})
    controller.run("x = 5", branch=1)
    controller.run("x = 2\n" + bomb(64))
    reply = controller.ask(ROLLBACK, branch=0, checkpoint="a")
    assert reply["execution_count"] == 1, reply
    assert any("processes were ended" in note for note in reply["not_restored"]), reply
    assert controller.run("print(x)")["stdout"] == "1\n"
    record = controller.run("print(x)", branch=1)
    assert (record["stdout"], record["epoch"]) == ("5\n", 1)


@needs_root
def test_fork_bomb_at_a_deadline(bombed):
    controller = bombed.controller
    controller.checkpoint(name="a")
    code = "signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + bomb(64) + "time.sleep(600)"
    record = controller.run(code, timeout=1)
    assert (record["status"], record["state"]) == ("timeout", "rolled_back"), record
    assert controller.run("print(x)")["stdout"] == "1\n"


@needs_root
def test_nothing_is_left_behind(bombed):
    controller = bombed.controller
    controller.checkpoint(name="a")
    controller.run(bomb(64))
    controller.ask(ROLLBACK, branch=0, checkpoint="a")
    # The interpreter and its checkpoint; the supervisor and a shell stand between in a namespace of their own.
    count = 2 + (2 if bombed.wrapped else 0)
    wait_for(lambda: len(bombed.descendants()) <= count, "more processes than there should be")
    controller.send(STOP, {})
    assert bombed.process.wait(20) == 0
    assert bombed.descendants() == []


BEAT = """
import threading, ctypes
path = PATH
def beats(): return os.path.exists(path) and os.path.getsize(path) > 0
def beat():
    while True: open(path, 'a').write('x'); time.sleep(0.01)
if os.fork() == 0:
    os.setsid(); threading.Thread(target=beat).start()
    while not beats(): time.sleep(0.01)
    ctypes.CDLL(None).pthread_exit(None)
while not beats(): time.sleep(0.01)
"""


@needs_root
def test_process_whose_first_thread_has_ended(bombed, root):
    """It looks like a zombie and runs on."""
    controller = bombed.controller
    beats = root / "beats"
    beats.mkdir()
    beats.chmod(0o777)
    controller.checkpoint(name="a")
    assert controller.run(BEAT.replace("PATH", repr(str(beats / "beat"))))["status"] == "ok"
    controller.ask(ROLLBACK, branch=0, checkpoint="a")
    controller.run("1")
    size = (beats / "beat").stat().st_size
    controller.run("time.sleep(0.2)")
    assert (beats / "beat").stat().st_size == size > 0


def test_orphans_of_another_branch_live_on(keep):
    """As long as they stay in its session; who leaves that belongs to nobody."""
    controller = keep(FAKE, "off").controller
    controller.ask(BRANCH, branch=1, **{"from": 0})
    record = controller.run(
        "r, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    pid = os.fork()\n"
        "    if pid: os.write(w, b'%d' % pid); os._exit(0)\n"
        "    time.sleep(60)\n"
        "os.wait(); print(os.read(r, 99).decode())",
        branch=1,
    )
    orphan = int(record["stdout"])
    controller.run(EXIT)
    controller.run("1")
    assert controller.run(f"os.kill({orphan}, 0)", branch=1)["status"] == "ok"
    controller.run(EXIT, branch=1)
    wait_for(
        lambda: controller.run(f"os.kill({orphan}, 0)", branch=1)["status"] == "error", "it was not ended"
    )
    assert controller.run("1")["epoch"] == 2


# A process of a call that opens the memory of whoever appears, all the time; it names those that let it.
SPY = """
import os, threading
if os.fork() == 0:
    held = {}
    while True:
        for pid in filter(str.isdigit, os.listdir('/proc')):
            if pid in held: continue
            try: held[pid] = open(f'/proc/{pid}/mem', 'rb', 0)
            except OSError: continue
            with open('seen', 'a') as seen: print(pid, file=seen)
while not os.path.exists('seen'): pass
"""


@needs_root
@needs_real
@pytest.mark.proves("security: changing a checkpoint")
@pytest.mark.parametrize("threads", ["", "threading.Thread(target=threading.Event().wait, daemon=True).start()"], ids=["alone", "threads"])
def test_nobody_reaches_the_memory_of_a_checkpoint(keep, root, threads):
    guest = keep(REAL, "off", "--uid", OTHER_UID, prefix=as_process_1(root, "root"))
    controller = guest.controller
    guest.directory.chmod(0o777)
    controller.run(SPY + threads)
    for number in range(20):
        controller.checkpoint(name=f"n{number}")
    seen = set((guest.directory / "seen").read_text().split())
    living = set(controller.run("print(*filter(str.isdigit, os.listdir('/proc')))")["stdout"].split())
    assert len(living) > 20 and len(seen & living) == 2  # the interpreter and itself
    assert controller.ask(ROLLBACK, branch=0, checkpoint="n3")["epoch"] == 2
    mine = "print(len(open('/proc/self/mem', 'rb', 0).name), open('/proc/self/oom_score_adj').read())"
    assert controller.run(mine)["status"] == "ok"
