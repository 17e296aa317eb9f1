"""A controller that is newer than liblimpet and the command: what it says besides is passed over."""

import json

from .fake_controller import FakeController, record
from .test_library import DISPLAY, RUN_ID, VARIABLES, ZERO, I, X, output, program  # noqa: F401

CHECKPOINT = dict(id="c2", name="n", session="a", execution_count=7, created=1.5, automatic=False, files=True,
                  private_bytes=4096, parent="c1")
CHANGED = {"added": [X], "changed": [I], "deleted": ["d"], "more": 2}
ROW = dict(session="a", engine="local", container=None, status="idle", created=1.0, idle=2.0, execution_count=3,
           epoch=1, memory=4096)
CONTROLLER = dict(pid=7, version="9.9.9", socket="/s", engine="local", spares=0)


def newer(path, **replies):
    handlers = {kind: body if callable(body) else lambda request, body=body: request.reply(**body)
                for kind, body in replies.items()}
    return FakeController(path, newer=True, **handlers)


def test_the_library(program, tmp_path):  # noqa: F811
    replies = dict(
        checkpoint=dict(checkpoint=CHECKPOINT, dropped=["c0"]), checkpoints=dict(checkpoints=[CHECKPOINT]),
        rollback=dict(checkpoint="c2", execution_count=7, epoch=2, files="restored", not_restored=[]),
        drop={}, branch=dict(session="a/b", instance="i", created=True, engine="local", options={}),
        context=dict(session="a/js", instance="i", created=True, engine="local", options={}, language="javascript"),
        commit=dict(execution_count=9, epoch=3), namespace=dict(names=[X, ZERO, I], more=5),
        run=record(session="a", status="error", state="rolled_back", result="1", changed=CHANGED,
                   rolled_back_to={"checkpoint": "c2", "execution_count": 7},
                   state_protection={"level": "checkpoint", "execution_count": 7, "reason": None},
                   error={"name": "E", "message": "m", "traceback": "t"}))
    with newer(tmp_path / "s", **replies):
        lines = output(program, tmp_path / "s", "state")
    assert lines[:2] == ["c2 n a 7 1.5 0 1 4096 c1", "dropped c0"]
    assert lines[-5:-2] == [f"changed {VARIABLES[2]}", "deleted d", "more 2"]


def test_a_record_and_its_events(program, tmp_path):  # noqa: F811
    pending = []

    def run(request):
        request.send("output", {"stream": 1, "data": b"x"})
        request.send("display", DISPLAY)
        pending.append(request)

    def interrupt(request):
        request.reply(interrupted=True)
        pending[0].reply(**record(
            run_id=RUN_ID, stdout="x", stdout_bytes=1, displays=[DISPLAY], artifacts={"/a": "/h/a"},
            artifact_info={"/a": {"size": 3, "mime_type": "x/y", "sha256": "ff"}}))

    with newer(tmp_path / "s", run=run, interrupt=interrupt):
        lines = output(program, tmp_path / "s", "run")
    assert lines[0] == "context: output 1 x" and "/a -> /h/a 3 x/y ff" in lines


def test_errors(program, tmp_path):  # noqa: F811
    with newer(tmp_path / "s", result=lambda request: request.fail(1105, "NoSuchRun", "what run?")):
        assert output(program, tmp_path / "s", "result") == ["1105 NoSuchRun: what run?"]


def test_features(program, tmp_path):  # noqa: F811
    with newer(tmp_path / "s"):
        assert output(program, tmp_path / "s", "features") == ["feature asks", "feature of-the-future"]
    with FakeController(tmp_path / "s", hello=lambda request: request.reply(
            protocol=1, peer="limpetd/0", pid=1, engine="local")):
        assert output(program, tmp_path / "s", "features") == []


def test_the_command(limpet):
    def run(request):
        request.send("output", {"stream": 1, "data": b"out\n"})
        request.reply(**record(stdout="out\n", stdout_bytes=4))

    with newer(limpet.socket, run=run, sessions=dict(controller=CONTROLLER, sessions=[ROW]),
               checkpoints=dict(checkpoints=[CHECKPOINT]), namespace=dict(names=[X], more=0)):
        ran = limpet("run", "-c", "1")
        assert (ran.returncode, ran.out, ran.err) == (0, "out\n", "")
        rows = json.loads(limpet("ls", "--json").out)["sessions"]
        assert rows[0].items() >= ROW.items()
        for command in ("checkpoints", "vars"):
            shown = limpet(command, "a")
            assert (shown.returncode, shown.err) == (0, ""), shown.err


def test_questions(limpet):
    """input() in a cell, asked by a controller that says more."""
    pending = []

    def run(request):
        pending.append(request)
        request.send("ask", {"ask": 1, "kind": "input", "name": "? ", "payload": None})

    def answer(request):
        assert "payload" in request.body, request.body
        pending[0].reply(**record())

    with newer(limpet.socket, run=run, answer=answer):
        ran = limpet("run", "-c", "input()", input=b"line\n")
        assert (ran.returncode, ran.err) == (0, ""), ran.err
