"""liblimpet as another program has it: the shared library and its one header, in strict C99."""

import pathlib
import shutil
import subprocess

import pytest
from conftest import BUILD
from fake_controller import FakeController, record

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
        assert controller.wait_for("run").body["code"] == "1\0two"
        assert controller.wait_for("interrupt").body == {"run_id": RUN_ID}
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
        assert controller.wait_for("result").body == {"run_id": "run", "timeout": None}


def test_result_of_a_call_that_runs(program, tmp_path):
    with FakeController(tmp_path / "s", result=lambda request: request.reply(run_id="run", record=None)):
        assert output(program, tmp_path / "s", "result") == ["still running"]


def test_errors_have_number_name_and_message(program, tmp_path):
    with FakeController(tmp_path / "s", result=lambda request: request.error(1105, "NoSuchRun", "what run?")):
        assert output(program, tmp_path / "s", "result") == ["1105 NoSuchRun: what run?"]
    assert output(program, tmp_path / "s", "result") == [
        f"1203 Unavailable: no controller listens at {tmp_path}/s"]
    assert output(program, tmp_path / "s", "unconnected") == ["1001 BadRequest: the client was never connected"]


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
