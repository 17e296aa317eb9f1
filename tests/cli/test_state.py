"""Checkpoints, branches and variables: what the commands ask for and what they print."""

import json
import time

import pytest

from .fake_controller import FakeController, record, running


def answering(limpet, **replies):
    """A controller that answers each kind of request with one body."""
    return FakeController(limpet.socket, **{
        kind: lambda request, body=body: request.reply(**body) for kind, body in replies.items()})


def checkpoint(id, **changes):
    return dict(id=id, name=None, session="a", execution_count=3, created=time.time() - 75, automatic=False,
                files=False, private_bytes=3 << 19, parent=None) | changes


# checkpoints


def test_checkpoint(limpet):
    with answering(limpet, checkpoint=dict(checkpoint=checkpoint("c3"), dropped=[])) as controller:
        result = limpet("checkpoint", "a")
        assert controller.wait("checkpoint").body == {"session": "a", "name": None, "files": False}
    assert (result.returncode, result.out, result.err) == (0, "c3, after call 3\n", "")


def test_checkpoint_with_a_name_and_files_that_drops_others(limpet):
    taken = dict(checkpoint=checkpoint("c3", name="clean", files=True), dropped=["c1", "c2"])
    with answering(limpet, checkpoint=taken) as controller:
        result = limpet("checkpoint", "--name", "clean", "--files", "a")
        assert controller.wait("checkpoint").body == {"session": "a", "name": "clean", "files": True}
        assert json.loads(limpet("checkpoint", "--json", "a").out) == taken
    assert result.out == "c3 'clean', after call 3, with /session\n"
    assert result.err == ("limpet: dropped to make room: c1\nlimpet: dropped to make room: c2\n")


def test_checkpoints_are_shown_below_their_parents(limpet):
    listed = dict(checkpoints=[
        checkpoint("c1", automatic=True, private_bytes=0),
        checkpoint("c2", parent="gone"),
        checkpoint("c3", parent="c1", session="a/b", name="clean", files=True),
        checkpoint("c4", parent="c2"),
        checkpoint("c5", parent="c3", execution_count=12),
        checkpoint("c6", parent="c7"),
        checkpoint("c7", parent="c6"),
    ])
    with answering(limpet, checkpoints=listed) as controller:
        result = limpet("checkpoints", "a")
        assert controller.wait("checkpoints").body == {"session": "a"}
        assert json.loads(limpet("checkpoints", "--json", "a").out) == listed
    lines = result.out.splitlines()
    assert lines[0].split() == ["CHECKPOINT", "NAME", "SESSION", "RUNS", "MEMORY", "AGE", "TAKEN"]
    assert [line[:10].rstrip() for line in lines[1:]] == ["c1", "  c3", "    c5", "c2", "  c4", "c6", "  c7"]
    assert lines[2].split()[:5] == ["c3", "clean", "a/b", "3", "1.5M"]
    assert lines[1].endswith("automatic") and lines[2].endswith("manual, with /session")
    assert lines[2].split()[5].startswith("1m1")
    assert len({line.index(word) for line, word in zip(lines[1:3], ["automatic", "manual"])}) == 1


def test_rollback(limpet):
    done = dict(checkpoint="c3", execution_count=3, epoch=2, files="kept", not_restored=[])
    with answering(limpet, rollback=done) as controller:
        result = limpet("rollback", "a", "clean")
        assert controller.wait("rollback").body == {"session": "a", "checkpoint": "clean"}
        assert json.loads(limpet("rollback", "--json", "a", "c3").out) == done
    assert (result.out, result.err) == ("a is as after call 3; epoch 2\n", "")


def test_rollback_of_files_and_what_it_does_not_restore(limpet):
    done = dict(checkpoint="c3", execution_count=3, epoch=2, files="restored", not_restored=["thread 'x\x1b[1m\x9b'"])
    with answering(limpet, rollback=done):
        result = limpet("rollback", "a", "clean")
    assert result.out == "a is as after call 3, /session too; epoch 2\n"
    assert result.err == "limpet: not restored: thread 'x\\x1b[1m\\x9b'\n"


def test_drop_goes_on_after_a_failure(limpet):
    def drop(request):
        if request.body["checkpoint"] == "c1":
            request.fail(1106, "NoSuchCheckpoint", "the session keeps no checkpoint 'c1'")
        else:
            request.reply()

    with FakeController(limpet.socket, drop=drop) as controller:
        result = limpet("drop", "a", "c1", "c2")
        assert [body["checkpoint"] for body in controller.bodies("drop")] == ["c1", "c2"]
    assert (result.returncode, result.out) == (125, "")
    assert result.err == "limpet: NoSuchCheckpoint: the session keeps no checkpoint 'c1'\n"


# branches


def test_branch(limpet):
    opened = dict(session="a/try", instance='i"', created=True, engine="oci", options={})
    with answering(limpet, branch=opened) as controller:
        result = limpet("branch", "a", "try")
        assert controller.wait("branch").body == {"session": "a", "name": "try", "checkpoint": None}
        text = limpet("branch", "--json", "--at", "c3", "a", "try").out
        assert controller.wait("branch").body == {"session": "a", "name": "try", "checkpoint": "c3"}
    assert (result.returncode, result.out, result.err) == (0, "opened a/try (oci)\n", "")
    assert json.loads(text) == {name: opened[name] for name in ("session", "instance", "created", "engine")}


def test_fork(limpet):
    opened = [dict(session=name, instance="i", created=True, engine="oci", options={}) for name in ("b", "c")]
    with answering(limpet, fork=dict(sessions=opened)) as controller:
        result = limpet("fork", "a", "b", "c")
        assert controller.wait("fork").body == {"session": "a", "names": ["b", "c"]}
        lines = limpet("fork", "--json", "a", "b", "c").out.splitlines()
        few = limpet("fork", "a", "b")
    assert (result.returncode, result.out, result.err) == (0, "opened b (oci)\nopened c (oci)\n", "")
    assert [json.loads(line)["session"] for line in lines] == ["b", "c"]
    assert few.returncode == 125 and "another number of sessions" in few.err


def test_sleep(limpet):
    with answering(limpet, sleep={}) as controller:
        result = limpet("sleep", "a", "b")
        assert [body["session"] for body in controller.bodies("sleep")] == ["a", "b"]
    assert (result.returncode, result.out, result.err) == (0, "", "")


def test_commit(limpet):
    with answering(limpet, commit=dict(execution_count=9, epoch=2)) as controller:
        result = limpet("commit", "a", "a/try")
        assert controller.wait("commit").body == {"session": "a", "branch": "a/try"}
        assert json.loads(limpet("commit", "--json", "a", "try").out) == {"execution_count": 9, "epoch": 2}
    assert (result.returncode, result.out) == (0, "a is as after call 9 of the branch; epoch 2\n")


def test_a_request_about_state_is_not_repeated(limpet):
    with FakeController(limpet.socket, rollback=lambda request: request.controller.vanish()):
        result = limpet("rollback", "a", "c1")
    assert result.returncode == 125
    assert result.err == f"limpet: Unavailable: the controller at {limpet.socket} went away before it answered\n"


# variables


def variable(name, type, **more):
    return dict(name=name, type=type, shape=None, dtype=None, bytes=None, repr=None) | more


def test_namespace(limpet):
    names = dict(more=3, names=[
        variable("np", "module"),
        variable("table", "pandas.core.frame.DataFrame", shape=[344, 7], bytes=19392),
        variable("zero", "numpy.ndarray", shape=[], dtype="int64", bytes=8),
        variable("größe", "float", repr="1.5"),
        variable("\x1b[31m", "str", shape=[2], repr="'\\n\n'"),
    ])
    with answering(limpet, namespace=names) as controller:
        result = limpet("namespace", "a/b")
        assert controller.wait("namespace").body == {"session": "a/b"}
        assert json.loads(limpet("namespace", "--json", "a/b").out) == names
    assert result.out.splitlines() == [
        "NAME      TYPE                         SHAPE  DTYPE   SIZE  VALUE",
        "np        module                       -      -          -  -",
        "table     pandas.core.frame.DataFrame  344x7  -      18.9K  -",
        "zero      numpy.ndarray                -      int64     8B  -",
        "größe     float                        -      -          -  1.5",
        "\\x1b[31m  str                          2      -          -  '\\n\\x0a'",
        "and 3 more",
    ]


def test_namespace_that_is_empty(limpet):
    with answering(limpet, namespace=dict(names=[], more=0)):
        assert limpet("namespace", "a").out == "NAME  TYPE  SHAPE  DTYPE  SIZE  VALUE\n"


def reply(**body):
    return lambda request: request.reply(**body)


@pytest.mark.parametrize("command, handlers", [
    (["checkpoint", "a"], {"checkpoint": reply()}),
    (["checkpoint", "a"], {"checkpoint": reply(checkpoint={"id": "c"}, dropped=[])}),
    (["checkpoint", "a"], {"checkpoint": reply(checkpoint=checkpoint("c"), dropped=[1])}),
    (["checkpoints", "a"], {"checkpoints": reply(checkpoints=[1])}),
    (["rollback", "a", "c"], {"rollback": reply(checkpoint="c")}),
    (["branch", "a", "b"], {"branch": reply(session="a/b")}),
    (["branch", "a", "b"], {"branch": reply(session="b" * 200, instance="i", created=True, engine="oci")}),
    (["commit", "a", "b"], {"commit": reply(epoch=-1, execution_count=1)}),
    (["namespace", "a"], {"namespace": reply(names=["x"], more=0)}),
    (["namespace", "a"], {"namespace": reply(names=[{"name": "x"}], more=0)}),
])
def test_garbage_instead_of_an_answer(limpet, command, handlers):
    with FakeController(limpet.socket, **handlers):
        result = limpet(*command)
    assert (result.returncode, result.out) == (125, "")
    assert result.err.startswith("limpet: ProtocolMismatch: ")


# what a call says about the state


def test_on_error(limpet):
    with running(limpet) as controller:
        limpet("run", "--on-error", "rollback", "-s", "a", "-c", "1")
        assert controller.wait("run").body["on_error"] == "rollback"
        limpet("run", "-s", "a", "-c", "1")
        assert controller.wait("run").body["on_error"] is None


ERROR = {"name": "ValueError", "message": "m", "traceback": "Traceback\nValueError: m\n"}
BACK = dict(state="rolled_back", rolled_back_to={"checkpoint": "c", "execution_count": 7})


@pytest.mark.parametrize("fields, lines", [
    (dict(BACK, status="error", error=ERROR),
     ["Traceback", "ValueError: m", "limpet: rolled back: the variables are as they were after call 7"]),
    (dict(BACK, status="error", error=ERROR, not_restored=["thread 'x'", "subprocess 5"]),
     ["Traceback", "ValueError: m", "limpet: rolled back: the variables are as they were after call 7",
      "limpet: not restored: thread 'x'", "limpet: not restored: subprocess 5"]),
    (dict(BACK, status="crashed", signal=11, error=dict(name="Crashed", message="told", traceback="")),
     ["limpet: crashed: Crashed: told"]),
    (dict(BACK, status="exited", exit_code=0, error=dict(name="Exited", message="told", traceback="")),
     ["limpet: exited: Exited: told"]),
    (dict(BACK, status="timeout", error=dict(name="TimeoutKilled", message="told", traceback="")),
     ["limpet: timeout: TimeoutKilled: told", "limpet: the time limit was reached; -t SECONDS sets another"]),
    (dict(BACK, status="timeout", error=dict(name="Timeout", message="m", traceback="Traceback\n")),
     ["Traceback", "limpet: timeout: Timeout: m", "limpet: the time limit was reached; -t SECONDS sets another",
      "limpet: rolled back: the variables are as they were after call 7"]),
    (dict(state="lost", status="error", error=ERROR),
     ["Traceback", "ValueError: m", "limpet: lost: the variables are gone; a new interpreter was started"]),
    (dict(state="lost", status="failed", error=dict(name="SessionClosed", message="told", traceback="")),
     ["limpet: failed: SessionClosed: told"]),
])
def test_a_state_that_is_not_kept_is_told(limpet, fields, lines):
    with running(limpet, session="a", **fields):
        assert limpet("run", "-q", "-s", "a", "-c", "1").err.splitlines() == lines


def test_the_state_of_a_container_of_its_own_is_nobodys(limpet):
    with running(limpet, session=None, status="error", state="lost", error=ERROR):
        assert limpet("run", "-c", "1").err == ERROR["traceback"]


def test_a_state_that_is_kept_is_not_told(limpet):
    with running(limpet, session="a", result=record()["result"]):
        assert limpet("run", "-s", "a", "-c", "1").err == ""
