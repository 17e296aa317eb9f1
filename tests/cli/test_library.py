"""liblimpet as another program has it: the shared library and its one header, in strict C99."""

import contextlib
import errno
import pathlib
import shutil
import socket
import subprocess

import pytest

from .conftest import BUILD
from .fake_controller import FakeController, record

HERE = pathlib.Path(__file__).parent
HEADER = HERE.parents[1] / "clients/c/limpet.h"
LIBRARY = BUILD.parent / "lib"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused-parameter"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    program = tmp_path_factory.mktemp("library") / "library"
    sanitized = b"__asan_init" in (LIBRARY / "liblimpet.so").read_bytes()
    subprocess.run(["cc", "-std=c99", *WARNINGS, *["-fsanitize=address,undefined"] * sanitized, "-I", HEADER.parent,
                    HERE / "library.c", "-L", LIBRARY, f"-Wl,-rpath,{LIBRARY}", "-llimpet", "-o", program], check=True)
    return program


def output(program, socket, what):
    result = subprocess.run([program, socket, what], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                            text=True, env={"LIMPET_AUTOSTART": "0"})
    assert result.stderr == ""
    return result.stdout.splitlines()


RUN_ID = "0123456789abcdef0123456789abcdef"
DISPLAY = {"data": {"text/plain": "t", "image/png": b"PNG", "application/json": [1.5, None]},
           "metadata": {"w": 3}, "display_id": "d", "is_result": False}
VALUES = " text/plain=0:t image/png=1:PNG application/json=2:[1.5, null] metadata={\"w\": 3} id=d"


def test_run(program, tmp_path):
    pending = []

    def run(request):
        request.send("output", {"stream": 2, "data": b"x"})
        request.send("display", DISPLAY)
        request.send("display", DISPLAY | {"update": True})
        pending.append(request)

    def interrupt(request):
        request.reply(interrupted=True)
        pending[0].reply(**record(
            run_id=RUN_ID, stderr="x", stderr_bytes=1, stdout="later\n", result="3", displays=[DISPLAY],
            artifacts={"/a": "/h/a"}, artifact_info={"/a": {"size": 3, "mime_type": "x/y", "sha256": "ff"}},
            status="crashed", state="lost", error={"name": "Crashed", "message": "m", "traceback": ""}, signal=11))

    with FakeController(tmp_path / "s", run=run, interrupt=interrupt) as controller:
        lines = output(program, tmp_path / "s", "run")
        assert controller.wait("run").body["code"] == "1\0two"
        assert controller.wait("interrupt").body == {"run_id": RUN_ID}
    assert lines == [
        "context: output 2 x",
        "context: display update=0" + VALUES,
        "context: display update=1" + VALUES,
        "context: output 1 later", "",
        f"{RUN_ID} crashed 5/2 count=1",
        "stdout=later", " result=3",
        "display" + VALUES,
        "/a -> /h/a 3 x/y ff",
        "signal 11",
    ]


def test_result(program, tmp_path):
    with FakeController(tmp_path / "s", result=lambda request: request.reply(
            run_id="run", record=record(run_id="run", stdout="o", exit_code=3, status="exited", state="lost",
                                        error={"name": "Exited", "message": "m", "traceback": ""}))) as controller:
        assert output(program, tmp_path / "s", "result") == [
            "run exited 4/2 count=1", "stdout=o result=none", "exit code 3"]
        assert controller.wait("result").body == {"run_id": "run", "timeout": None}


def test_result_of_a_call_that_runs(program, tmp_path):
    with FakeController(tmp_path / "s", result=lambda request: request.reply(run_id="run", record=None)):
        assert output(program, tmp_path / "s", "result") == ["still running"]


def test_attach(program, tmp_path):
    with FakeController(tmp_path / "s", open=lambda request: request.reply(
            session="a", instance="i1", created=False, engine="local", options={})) as controller:
        assert output(program, tmp_path / "s", "attach") == ["a i1 created=0"]
        body = controller.wait("open").body
        assert {name: value for name, value in body.items() if value is not None} == {"session": "a", "attach": True}
    with FakeController(tmp_path / "s", open=lambda request: request.fail(1101, "NoSuchSession", "none")):
        assert output(program, tmp_path / "s", "attach") == ["1101 NoSuchSession: none"]


def test_errors_have_number_name_and_message(program, tmp_path):
    with FakeController(tmp_path / "s", result=lambda request: request.fail(1105, "NoSuchRun", "what run?")):
        assert output(program, tmp_path / "s", "result") == ["1105 NoSuchRun: what run?"]
    assert output(program, tmp_path / "s", "result") == [
        f"1203 Unavailable: no controller listens at {tmp_path}/s"]
    assert output(program, tmp_path / "s", "unconnected") == ["1001 BadRequest: the client is not connected; call limpet_connect() first"]


X = {"name": "x", "type": "numpy.ndarray", "shape": [3, 2], "dtype": "int64", "bytes": 48, "repr": None}
ZERO = {"name": "z", "type": "numpy.ndarray", "shape": [], "dtype": "int64", "bytes": 8, "repr": None}
I = {"name": "i", "type": "int", "shape": None, "dtype": None, "bytes": None, "repr": "41"}
VARIABLES = ["x numpy.ndarray shape 3 2 int64 bytes none", "z numpy.ndarray shape int64 bytes none",
             "i int none none 41"]


def test_state(program, tmp_path):
    checkpoint = dict(id="c2", name="n", session="a", execution_count=7, created=1.5, automatic=False, files=True,
                      private_bytes=4096, parent="c1")
    first = checkpoint | dict(id="c1", name=None, automatic=True, files=False, parent=None)
    replies = dict(
        checkpoint=dict(checkpoint=checkpoint, dropped=["c0", "c00"]), checkpoints=dict(checkpoints=[first]),
        rollback=dict(checkpoint="c2", execution_count=7, epoch=2, files="restored", not_restored=["thread 't'"]),
        drop={}, branch=dict(session="a/b", instance="i", created=True, engine="local", options={}),
        fork=dict(sessions=[dict(session=name, instance="i", created=True, engine="local", options={}) for name in ("c", "d")]),
        sleep={},
        context=dict(session="a/js", instance="i", created=True, engine="local", options={}, language="javascript"),
        commit=dict(execution_count=9, epoch=3), namespace=dict(names=[X, ZERO, I], more=5),
        run=record(session="a", status="error", state="rolled_back", not_restored=["thread 't'"],
                   rolled_back_to={"checkpoint": "c2", "execution_count": 7}, result="1",
                   state_protection={"level": "checkpoint", "execution_count": 7, "reason": None},
                   changed={"added": [X], "changed": [I], "deleted": ["d"], "more": 2},
                   error={"name": "E", "message": "m", "traceback": "t"}))
    handlers = {kind: lambda request, body=body: request.reply(**body) for kind, body in replies.items()}
    with FakeController(tmp_path / "s", **handlers) as controller:
        lines = output(program, tmp_path / "s", "state")
        sent = {request.kind: request.body for request in controller.requests}
    assert lines[:-2] == [
        "c2 n a 7 1.5 0 1 4096 c1", "dropped c0", "dropped c00",
        "1 checkpoint", "c1 none a 7 1.5 1 0 4096 none",
        "c2 7 2 1", "not restored thread 't'",
        "a/b i 1", "9 3", "forks c d",
        *[f"variable {line}" for line in VARIABLES], "more 5",
        "back to c2 after 7, protected 1 after 7, no reason", "not restored thread 't'",
        f"added {VARIABLES[0]}", f"changed {VARIABLES[2]}", "deleted d", "more 2",
    ]
    assert sent["checkpoint"] == {"session": "a", "name": "n", "files": True}
    assert sent["rollback"] == sent["drop"] == {"session": "a", "checkpoint": "n"}
    assert sent["branch"] == {"session": "a", "name": "b", "checkpoint": None}
    assert sent["context"] == {"session": "a", "name": "js", "language": "javascript"}
    assert sent["fork"] == {"session": "a", "names": ["c", "d"]}
    assert sent["sleep"] == {"session": "a"}
    assert sent["commit"] == {"session": "a", "branch": "b"}
    assert sent["checkpoints"] == sent["namespace"] == {"session": "a"}
    assert sent["run"]["on_error"] == "rollback"


def test_a_controller_that_accepts_nobody(program, tmp_path):
    """A stopped one: its backlog fills up, and connect() would wait for ever."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(tmp_path / "s"))
        listener.listen(0)
        while True:
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            if waiting.connect_ex(str(tmp_path / "s")) == errno.EAGAIN:
                break
        assert output(program, tmp_path / "s", "impatient") == [
            f"1203 Unavailable: the process that listens at {tmp_path}/s does not answer"]


def test_a_controller_that_does_not_come_back(program, tmp_path):
    with FakeController(tmp_path / "s", run=lambda request: request.controller.vanish()):
        assert output(program, tmp_path / "s", "forsaken") == [
            f"1203 Unavailable: no controller listens at {tmp_path}/s"]


def test_only_the_public_names_are_exported():
    names = subprocess.run(["nm", "-D", "--defined-only", LIBRARY / "liblimpet.so"], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split("\n")
    exported = {line.split()[-1] for line in names if line and "asan" not in line}
    assert exported and all(name.startswith("limpet_") for name in exported), exported


def test_header_in_cxx():
    if not shutil.which("c++"):
        pytest.skip("no C++ compiler")
    subprocess.run(["c++", "-std=c++11", *WARNINGS, "-fsyntax-only", "-x", "c++", "-"], check=True, text=True,
                   input=f'#include "{HEADER}"\nint main() {{ limpet_free(limpet_new()); }}\n')
