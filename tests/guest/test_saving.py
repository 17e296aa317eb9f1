"""save and load, as the supervisor does them: with an interpreter that says what it likes, and with the real one."""

import json
import os

import pytest

from tests.support.wire import EXEC, LOAD, SAVE

from .guest_harness import FAKE, REAL, SANITIZED, needs_real, wait_for
from .test_state_hostile import replace

PLACE = "/session/.limpet-saved-0"


@pytest.fixture
def controller(keep):
    controller = keep(FAKE, "off").controller
    controller.run("x = 1")
    return controller


def test_what_is_passed_on(controller):
    controller.run(replace("SAVE", "global asked; asked = body['path']; send(SAVE, {'error': None}, id)"))
    assert controller.ask(SAVE, branch=0, path=PLACE) == {}
    directory = controller.run("print(os.getcwd())")["stdout"].strip()
    assert controller.run("print(asked)")["stdout"].strip() == f"{directory}/.limpet-saved-0"
    controller.run(replace("LOAD", "send(LOAD, {'error': None, 'missing': ['a: gone']}, id)"))
    loaded = controller.ask(LOAD, branch=0, path="/elsewhere", execution_count=40)
    assert loaded == {"missing": ["a: gone"], "execution_count": 40}
    first, second = controller.run("print(x)"), controller.run("print(x)")
    assert (first["restored"], first["execution_count"], first["state"]) == (["a: gone"], 41, "kept")
    assert second.get("restored") is None and second["execution_count"] == 42
    assert controller.ask(LOAD, branch=0, path="/elsewhere", execution_count=1)["execution_count"] == 42


def test_what_cannot_be_done(controller):
    for kind, name in ((SAVE, "SaveFailed"), (LOAD, "RestoreFailed")):
        controller.run(replace("SAVE" if kind == SAVE else "LOAD", f"send({kind}, {{'error': 'no room'}}, id)"))
        assert controller.ask(kind, branch=0, path=PLACE) == (name, "no room")
        record = controller.run("print(x)")
        assert (record["stdout"], record["state"], record.get("restored")) == ("1\n", "kept", None)
        assert controller.ask(kind, branch=9, path=PLACE)[0] == "NoSuchSession"
        assert controller.ask(kind, branch=0)[0] == "BadRequest"
        assert controller.ask(kind, branch=0, path=PLACE, evil=1)[0] == "BadRequest"


FAULTS = {
    "nobody asked": "send(SAVE, {'error': None}, 1)",
    "nobody asked for that": "send(LOAD, {'error': None, 'missing': []}, 1)",
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults(controller, case):
    controller.checkpoint(name="a")
    record = controller.run(f"{FAULTS[case]}; time.sleep(60)")
    assert (record["status"], record["state"]) == ("crashed", "rolled_back")
    assert "broke the protocol" in record["error"]["message"]


ANSWERS = [
    "{'error': 5}",
    "{'error': 'x' * 257}",
    "{'error': None, 'missing': 1}",
    "{'error': None, 'missing': ['x'] * 101}",
    "{'error': None, 'missing': ['x' * 257]}",
    "{'error': None, 'evil': 1}",
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_that_are_none(controller, answer):
    controller.checkpoint()
    controller.run(replace("LOAD", f"send(LOAD, {answer}, id)"))
    name, text = controller.ask(LOAD, branch=0, path=PLACE)
    assert name == "RestoreFailed" and "lost" in text
    record = controller.run("print(x)")
    assert (record["stdout"], record["state"], record.get("restored")) == ("1\n", "rolled_back", None)


def test_an_interpreter_that_ends(controller):
    controller.checkpoint()
    controller.run(replace("SAVE", "os._exit(1)"))
    name, text = controller.ask(SAVE, branch=0, path=PLACE)
    assert name == "SaveFailed" and "lost" in text
    assert controller.run("print(x)")["state"] == "rolled_back"


def test_asked_again_while_it_is_under_way(controller):
    """By a controller that knows nothing of the first, whether or not that has been answered meanwhile."""
    controller.run(replace("SAVE", "time.sleep(0.2); send(SAVE, {'error': None}, id)"))
    for id in (700, 701, 702):
        controller.send(SAVE, {"branch": 0, "path": PLACE}, id)
    answers = {id: body for _, id, body in (controller.receive() for _ in range(3))}
    assert answers[702] == {}
    assert all(answers[id] == {} or "again" in answers[id]["message"] for id in (700, 701))
    assert controller.run("print(x)")["stdout"] == "1\n"


@needs_real
def test_there_and_back(keep):
    controller = keep(REAL, "always").controller
    controller.run("import threading; x, lock = [1], threading.Lock()")
    assert controller.ask(SAVE, branch=0, path=PLACE) == {}
    directory = controller.run("import os; print(os.getcwd())")["stdout"].strip()
    with open(os.path.join(directory, ".limpet-saved-0", "variables.json")) as file:
        index = json.load(file)
    assert [(row["name"], "why" in row) for row in index["variables"]] == [("threading", False), ("x", False), ("lock", True)]
    controller.run("x = 'other'; del lock")
    loaded = controller.ask(LOAD, branch=0, path=PLACE, execution_count=9)
    assert loaded["execution_count"] == 9 and [note.partition(":")[0] for note in loaded["missing"]] == ["lock"]
    record = controller.run("x.append(2); print(x); os._exit(1)")
    assert (record["stdout"], record["state"], record["rolled_back_to"]["execution_count"]) == ("[1, 2]\n", "rolled_back", 9)
    assert controller.run("print(x)")["stdout"] == "[1]\n"


@needs_real
def test_no_such_directory(keep):
    controller = keep(REAL, "always").controller
    controller.run("x = 1")
    name, text = controller.ask(LOAD, branch=0, path="/session/none")
    assert name == "RestoreFailed" and "FileNotFoundError" in text
    name, text = controller.ask(SAVE, branch=0, path="/none/at/all")
    assert name == "SaveFailed" and "No such file" in text
    assert controller.run("print(x)")["stdout"] == "1\n"


# ---- of a session that goes on in another container ----


def test_a_state_that_goes_on(controller):
    controller.run(replace("LOAD", "send(LOAD, {'error': None, 'missing': []}, id)"))
    assert controller.ask(LOAD, branch=0, path=PLACE, execution_count=40, epoch=7) == {"missing": [], "execution_count": 40}
    record = controller.run("print(x)")
    assert (record["state"], record["epoch"], record["execution_count"], record["restored"]) == ("kept", 7, 41, [])


LOSSES = {
    "it cannot": "send(LOAD, {'error': 'no such file'}, id)",
    "it ends": "os._exit(1)",
    "it is hostile": "send(LOAD, {'evil': 1}, id)",
}


@pytest.mark.parametrize("case", LOSSES)
def test_a_state_that_cannot_go_on(controller, case):
    controller.run(replace("LOAD", LOSSES[case]))
    answer = controller.ask(LOAD, branch=0, path=PLACE, execution_count=40, epoch=7)
    assert answer["execution_count"] == 40 and answer["missing"][0].startswith("all variables: ")
    record = controller.run("print('x' in globals())")
    assert (record["stdout"], record["state"], record["epoch"], record["execution_count"]) == ("False\n", "lost", 8, 41)
    assert record["restored"] == answer["missing"]
    assert controller.run("print(1)")["state"] == "kept"


def test_a_sandbox_in_use_does_not_end(controller):
    controller.run(replace("SAVE", "global asked; asked = body.get('whole'); send(SAVE, {'error': None}, id)") + "\n" + replace("CHECKPOINT", "send(CHECKPOINTED, {'error': 'no'}, id)"))
    assert controller.ask(SAVE, branch=0, path=PLACE, ends=True) == {}
    assert controller.run("print(asked)")["stdout"] == "True\n"
    program = {"argv": ["sleep", "600"]}
    controller.send(EXEC, {"branch": 0, "run_id": "1" * 32, "code_hash": 5, "timeout": 600.0, "stream": False, "program": program}, 9)
    assert controller.ask(SAVE, branch=0, path=PLACE, ends=True) == ("Busy", "commands or processes run")
    assert controller.ask(SAVE, branch=0, path=PLACE) == {}


FULL = """
class Full:
    def __reduce__(self):
        raise OSError(28, "No space left on device")
full, x = Full(), 1
"""


@needs_real
def test_what_there_is_no_room_for(keep):
    controller = keep(REAL, "off").controller
    controller.run(f"{FULL}import mmap; shared = mmap.mmap(-1, 65 << 20)")  # so that the memory cannot be written
    assert controller.ask(SAVE, branch=0, path=PLACE) == {}
    assert controller.ask(SAVE, branch=0, path=PLACE, ends=True) == ("SaveFailed", "full: there is no room for it on the disk of the session")
    name = "n" * 300
    controller.run(f"{name} = full; del full")
    assert controller.ask(SAVE, branch=0, path=PLACE, ends=True)[0] == "SaveFailed"
    controller.run(f"del {name}; import threading; lock = threading.Lock()")
    assert controller.ask(SAVE, branch=0, path=PLACE, ends=True) == {}
    assert controller.run("print(x)")["state"] == "kept"


@needs_real
@pytest.mark.skipif(not os.path.exists(f"{REAL}-loader"), reason="there is no loader here")
def test_variables_are_added_to_memory_that_is_there(keep):
    controller = keep(REAL, "off").controller
    controller.run(FULL)
    assert controller.ask(SAVE, branch=0, path=PLACE, adds=True) == ("BadRequest", "this sandbox has not written its memory")
    assert controller.ask(SAVE, branch=0, path=PLACE, ends=True) == {"memory": True}
    assert controller.ask(SAVE, branch=0, path=PLACE, adds=True) == {}
    assert controller.run("import os; print(*sorted(os.listdir('.limpet-saved-0')))")["stdout"] == "memory variables variables.json\n"


# ---- its memory ----

FREEZE = """
os.makedirs(".limpet-saved-0", exist_ok=True)
def freeze(end):
    global channel
    channel.close()
    channel = socket.socket(fileno=end)
    send(FROZEN, {}, 0)
    (_, kind, id, body), fds = receive()
    assert (kind, body) == (SAVE, {}) and os.readlink(f"/proc/self/fd/{fds[0]}").endswith("/.limpet-saved-0")
"""

COPIES = {
    "it is kept": "send(SAVE, {'error': None}, id)",
    "it is not": "send(SAVE, {'error': 'no room'}, id)",
    "the copy ends": "os._exit(0)",
    "it says so twice": "send(SAVE, {'error': None}, id); send(SAVE, {'error': None}, id)",
    "it is hostile": "send(SAVE, {'error': 5}, id)",
    "it is something else": "send(FROZEN, {}, 0)",
}


@pytest.mark.parametrize("case", COPIES)
def test_what_becomes_of_the_memory_costs_no_variable(controller, case):
    controller.run(replace("SAVE", "send(SAVE, {'error': None}, id)") + FREEZE + f"    {COPIES[case]}\n    time.sleep(60)")
    assert controller.ask(SAVE, branch=0, path=PLACE, ends=True) in ({}, {"memory": True})
    record = controller.run("print(x)")
    assert (record["stdout"], record["state"]) == ("1\n", "kept")


def test_an_interpreter_of_which_there_is_no_copy_is_saved(controller):
    controller.run(replace("SAVE", "send(SAVE, {'error': None}, id)") + "\n" + replace("CHECKPOINT", "send(CHECKPOINTED, {'error': 'no'}, id)"))
    assert controller.ask(SAVE, branch=0, path=PLACE, ends=True) == {}
    assert controller.run("print(x)")["stdout"] == "1\n"


@needs_real
@pytest.mark.skipif(not os.path.exists(f"{REAL}-loader"), reason="there is no loader here")
def test_a_state_that_goes_on_with_its_memory(keep):
    """As it was, whatever there is by now."""
    controller = keep(REAL, "off").controller
    controller.run("numbers = (n for n in range(9)); next(numbers)")
    assert controller.ask(SAVE, branch=0, path=PLACE, ends=True) == {"memory": True}
    controller.run("next(numbers); del numbers")
    assert controller.ask(LOAD, branch=0, path=PLACE, execution_count=40, epoch=7) == {"missing": [], "execution_count": 40, "memory": True}
    record = controller.run("next(numbers)")
    assert (record["result"], record["state"], record["epoch"], record["execution_count"]) == ("1", "kept", 7, 41)
    assert record["restored"] == [] and controller.checkpoints() == []


TICKING = """
import os, threading, time
ticks = 0
def tick():
    global ticks
    while True:
        ticks += 1
        with open("ticks", "a") as file: file.write(".")
        time.sleep(0.001)
threading.Thread(target=tick, daemon=True).start()
print(os.getcwd())
"""


@needs_real
@pytest.mark.skipif(not os.path.exists(f"{REAL}-loader"), reason="there is no loader here")
def test_what_threads_did_after_the_last_call_is_there(keep):
    """A checkpoint of the last call is not enough."""
    controller = keep(REAL, "auto").controller
    ticks = os.path.join(controller.run(TICKING)["stdout"].strip(), "ticks")
    wait_for(lambda: os.path.exists(ticks) and os.path.getsize(ticks) > 100, "the thread does not go on")
    assert controller.ask(SAVE, branch=0, path=PLACE, ends=True) == {"memory": True}
    assert controller.ask(LOAD, branch=0, path=PLACE, execution_count=40, epoch=7)["missing"] == []
    assert int(controller.run("ticks")["result"]) >= 100


# ---- in a sandbox that begins with it ----


@pytest.fixture
def begun(make_guest, root):
    """A guest that is told that a `load` follows, with that interpreter."""

    def begin(interpreter):
        (root / "second").mkdir()
        guest = make_guest(interpreter, root=root / "second")
        assert guest.controller.welcome(loads=True)["waits"]
        return guest.controller

    return begin


@needs_real
@pytest.mark.skipif(not os.path.exists(f"{REAL}-loader"), reason="there is no loader here")
def test_memory_that_fits_needs_no_other_interpreter(keep, begun, root):
    """None that could be started is there."""
    controller = keep(REAL, "off").controller
    place = controller.run("import os; numbers = (n for n in range(9)); next(numbers); print(os.getcwd())")["stdout"].strip() + "/saved"
    assert controller.ask(SAVE, branch=0, path=place, ends=True) == {"memory": True}
    (root / "none-loader").symlink_to(f"{REAL}-loader")
    second = begun(root / "none")
    assert second.ask(LOAD, branch=0, path=place, execution_count=40, epoch=7)["missing"] == []
    record = second.run("next(numbers)")
    assert (record["result"], record["state"], record["restored"]) == ("1", "kept", [])


@needs_real
def test_variables_are_loaded_where_there_is_no_memory(keep, begun):
    controller = keep(REAL, "off").controller
    place = controller.run("import os; n = 41; print(os.getcwd())")["stdout"].strip() + "/saved"
    assert controller.ask(SAVE, branch=0, path=place) == {}
    second = begun(REAL)
    assert second.ask(LOAD, branch=0, path=place, execution_count=40, epoch=7) == {"missing": [], "execution_count": 40}
    assert second.run("n")["result"] == "41"


@needs_real
def test_code_that_comes_instead_runs(begun):
    assert begun(REAL).run("1 + 1")["result"] == "2"
