"""limpet run: what it asks the controller, what it prints, and how it ends."""

import json
import re
import signal

import pytest

from .fake_controller import FakeController, record, running, streaming

# run: what is asked


def test_run_asks_for_a_container_of_its_own(limpet):
    with running(limpet) as controller:
        assert limpet("run", "-c", "x = 41").returncode == 0
        body = controller.wait("run").body
    assert body["session"] is None
    assert body["code"] == "x = 41"
    assert re.fullmatch("[0-9a-f]{32}", body["run_id"])
    assert body["stream"] is True
    assert body["timeout"] is None
    assert body["options"] is None


def test_hello_comes_first(limpet):
    with running(limpet) as controller:
        limpet("run", "-c", "1")
        hello = controller.requests[0]
    assert hello.kind == "hello"
    assert hello.body == {"protocol": 1, "peer": "limpet-c/0.1.0"}


def test_what_was_written_between_two_calls_is_told_apart(limpet):
    with running(limpet, session="a", stdout="mine\n", between={"stdout": "late", "stderr": "e\n", "dropped": 7}):
        result = limpet("run", "-s", "a", "-c", "1")
    assert result.err == (
        "limpet: stdout since the last call:\nlate\nlimpet: stderr since the last call:\ne\n"
        "limpet: 7 more bytes since the last call were dropped\n"
    )


def test_every_run_has_an_id_of_its_own(limpet):
    with running(limpet) as controller:
        limpet("run", "-c", "1")
        limpet("run", "-c", "1")
        assert controller.wait("run").body["run_id"] != controller.wait("run").body["run_id"]


def test_options_of_an_ephemeral_run(limpet):
    (limpet.directory / "data").mkdir()
    with running(limpet) as controller:
        arguments = ["--memory", "512m", "--cpus", "0.5", "--pids", "9", "--disk", "2g", "--files", "500",
                     "--data", "data", "--env", "A=1", "--env",
                     "B=x=y", "--env", "A=2", "--ttl", "0", "--network", "none", "--image", "i",
                     "--checkpoint", "off", "-t", "2.5"]
        assert limpet("run", *arguments, "-c", "1").returncode == 0
        body = controller.wait("run").body
    assert body["timeout"] == 2.5
    assert body["options"] == {
        "timeout": None, "memory": "512m", "cpus": 0.5, "pids": 9, "disk": "2g", "files": 500,
        "data": str(limpet.directory / "data"), "env": {"A": "2", "B": "x=y"}, "ttl": 0, "network": "none", "image": "i", "checkpoint": "off",
    }


def test_run_in_a_session_opens_it(limpet):
    with running(limpet) as controller:
        assert limpet("run", "-s", "a", "--memory", "1g", "-c", "1").returncode == 0
        opened = controller.wait("open").body
        body = controller.wait("run").body
    assert opened["session"] == "a" and opened["memory"] == "1g" and opened["cpus"] is None
    assert body["session"] == "a" and body["instance"] == "i1" and body["options"] is None


def test_code_from_a_file_and_from_standard_input(limpet):
    (limpet.directory / "script.py").write_text("print('ü')\n")
    with running(limpet) as controller:
        assert limpet("run", "script.py").returncode == 0
        assert controller.wait("run").body["code"] == "print('ü')\n"
        assert limpet("run", "-", input=b"print(1)\n").returncode == 0
        assert controller.wait("run").body["code"] == "print(1)\n"
        assert limpet("run", "-", input=b"").returncode == 0
        assert controller.wait("run").body["code"] == ""


def test_largest_code_arrives_whole(limpet):
    code = b"#" * (4 << 20)
    with running(limpet) as controller:
        assert limpet("run", "-", input=code).returncode == 0
        assert controller.wait("run").body["code"] == code.decode()


# run: bad input


def test_code_over_the_limit(limpet):
    with running(limpet) as controller:
        result = limpet("run", "-", input=b"#" * ((4 << 20) + 1))
        assert not controller.bodies("run")
    assert result.returncode == 125
    assert result.err.startswith("limpet: TooLarge: the code has 4194305 bytes")


def test_code_that_is_not_utf8(limpet):
    with running(limpet) as controller:
        result = limpet("run", "-", input=b"print('\xff')")
        assert not controller.bodies("run")
    assert result.returncode == 125
    assert result.err == "limpet: BadRequest: the code is not valid UTF-8\n"


@pytest.mark.parametrize("arguments, words", [
    (["frobnicate"], "unknown command 'frobnicate'"),
    (["run"], "give the code exactly once"),
    (["run", "-c", "1", "file.py"], "give the code exactly once"),
    (["run", "missing.py"], "missing.py: No such file"),
    (["run", "."], "Is a directory"),
    (["run", "-t", "soon", "-c", "1"], "--timeout cannot be 'soon'; it takes a number of seconds, above 0"),
    (["run", "-t", "0", "-c", "1"], "--timeout cannot be '0'"),
    (["run", "-t", "nan", "-c", "1"], "--timeout cannot be 'nan'"),
    (["run", "--pids", "-3", "-c", "1"], "--pids cannot be '-3'; it takes a whole number, above 0"),
    (["run", "--ttl", "-1", "-c", "1"], "--ttl cannot be '-1'; it takes a number of seconds, at least 0"),
    (["run", "--data", "missing", "-c", "1"], "missing: No such file"),
    (["run", "--colour", "-c", "1"], "there is no option --colour"),
    (["run", "-x", "-c", "1"], "there is no option -x"),
    (["run", "--json=1", "-c", "1"], "--json takes no value"),
    (["run", "-c"], "--code (-c) needs a value: CODE"),
    (["open"], "missing operands"),
    (["open", "a", "b"], "too many operands"),
    (["close"], "missing operands"),
    (["rollback", "a"], "missing operands"),
    (["rollback", "a", "c1", "c2"], "too many operands"),
    (["drop", "a"], "missing operands"),
    (["branch", "a"], "missing operands"),
    (["commit", "a/b"], "missing operands"),
    (["put", "x"], "missing operands"),
    (["get", "a-without-path", "x"], "does not have the form SESSION:PATH"),
    (["put", "missing", "a:x"], "missing: No such file"),
    (["help", "frobnicate"], "unknown command 'frobnicate'"),
])
def test_wrong_command_lines(limpet, arguments, words):
    with FakeController(limpet.socket) as controller:
        result = limpet(*arguments)
        assert controller.requests == []
    assert result.returncode == 2
    assert words in result.err
    assert result.out == ""


def test_env_without_a_value(limpet):
    with running(limpet):
        result = limpet("run", "--env", "A", "-c", "1")
    assert result.returncode == 125
    assert result.err == "limpet: BadRequest: env: 'A' does not have the form NAME=value\n"


# run: what is printed


def test_streams_and_the_result(limpet):
    events = [(1, b"one\n"), (2, b"warning\n"), (1, b"two\n")]
    fields = dict(stdout="one\ntwo\n", stdout_bytes=8, stderr="warning\n", stderr_bytes=8, result="42")
    with FakeController(limpet.socket, run=streaming(*events, **fields)):
        result = limpet("run", "-c", "1")
    assert (result.returncode, result.out, result.err) == (0, "one\ntwo\n42\n", "warning\n")


def test_result_begins_a_line_of_its_own(limpet):
    with FakeController(limpet.socket, run=streaming((1, b"no newline"), stdout="no newline", stdout_bytes=10,
                                                     result="'x'")):
        assert limpet("run", "-c", "1").out == "no newline\n'x'\n"


def test_bytes_are_written_through(limpet):
    with FakeController(limpet.socket, run=streaming((1, b"\xff\x00\xc3"), (1, b"\xbc\n"), stdout="\ufffd\0ü\n",
                                                     stdout_bytes=5)):
        process = limpet.start("run", "-c", "1")
        assert process.communicate(timeout=60)[0] == b"\xff\x00\xc3\xbc\n"


def test_output_comes_while_the_code_runs(limpet):
    pending = []

    def run(request):
        request.send("output", {"stream": 1, "data": b"first\n"})
        pending.append(request)

    def interrupt(request):
        pending[0].reply(**record(stdout="first\n", stdout_bytes=6))

    with FakeController(limpet.socket, run=run, interrupt=interrupt):
        process = limpet.start("run", "-c", "1")
        assert process.stdout.readline() == b"first\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_stored_output_is_printed_when_no_event_came(limpet):
    with running(limpet, stdout="stored\n", stdout_bytes=7, stderr="too\n", stderr_bytes=4):
        result = limpet("run", "-c", "1")
    assert (result.out, result.err) == ("stored\n", "too\n")


def test_credit_comes_back_every_16_events(limpet):
    """The controller holds back what is beyond 64 events, as the real one does."""
    total, state = 200, {"sent": 0, "credit": 64}

    def pump(request):
        while state["credit"] > 0 and state["sent"] < total:
            request.send("output", {"stream": 1, "data": b"%d\n" % state["sent"]})
            state["sent"] += 1
            state["credit"] -= 1
        if state["sent"] == total and not state.get("done"):
            state["done"] = True
            request.reply(**record(stdout_bytes=1))

    def run(request):
        state["request"] = request
        pump(request)

    def credit(request):
        assert request.id == state["request"].id
        assert request.body == {"count": 16}
        state["credit"] += request.body["count"]
        pump(state["request"])

    with FakeController(limpet.socket, run=run, credit=credit):
        result = limpet("run", "-c", "1")
    assert result.out.split() == [str(i) for i in range(total)]


def test_large_output(limpet):
    chunk = b"x" * (64 << 10)
    with FakeController(limpet.socket, run=streaming(*[(1, chunk)] * 60, stdout_bytes=60 * len(chunk))):
        assert limpet("run", "-c", "1").out == "x" * 60 * len(chunk)


def test_standard_output_that_is_full(limpet):
    with running(limpet, result="1"), open("/dev/full", "w") as full:
        result = limpet("run", "-c", "1", stdout=full)
    assert result.returncode == 125
    assert "No space left" in result.err


def test_artifacts_are_listed(limpet):
    artifacts = {"/session/artifacts/a.csv": "/host/a.csv", b"/session/artifacts/\xff\n": "/host/%FF%0A"}
    with running(limpet, artifacts=artifacts, skipped={"/session/artifacts/s": "a symbolic link"}):
        result = limpet("run", "-c", "1")
        quiet = limpet("run", "-q", "-c", "1")
    assert result.err.splitlines() == [
        "/session/artifacts/a.csv → /host/a.csv",
        "/session/artifacts/\udcff\\x0a → /host/%FF%0A",
        "/session/artifacts/s was not published: a symbolic link",
    ]
    assert result.out == quiet.out == quiet.err == ""


def test_warning_is_shown_once(limpet):
    with FakeController(limpet.socket, warning="the engine does not isolate",
                        run=streaming((1, b"out\n"), stdout_bytes=4)):
        result = limpet("run", "-s", "a", "-c", "1")
    assert (result.out, result.err) == ("out\n", "limpet: warning: the engine does not isolate\n")


# run: how it ends


TRACEBACK = 'Traceback (most recent call last):\n  File "<cell 1>", line 1\nZeroDivisionError: division by zero\n'


@pytest.mark.parametrize("fields, status", [
    (dict(status="ok"), 0),
    (dict(status="error"), 1),
    (dict(status="timeout"), 124),
    (dict(status="timeout", state="lost", signal=9), 124),
    (dict(status="interrupted"), 130),
    (dict(status="exited", state="lost", exit_code=3), 137),
    (dict(status="crashed", state="lost", signal=11), 137),
    (dict(status="oom", state="lost", signal=9), 137),
    (dict(status="failed"), 125),
])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_exit_status(limpet, fields, status, options):
    error = None if status == 0 else {"name": "Name", "message": "words", "traceback": TRACEBACK}
    with running(limpet, session="a", error=error, **fields):
        result = limpet("run", *options, "-c", "1")
    assert result.returncode == status


def test_traceback_goes_to_standard_error(limpet):
    error = {"name": "ZeroDivisionError", "message": "division by zero", "traceback": TRACEBACK}
    with running(limpet, status="error", error=error):
        result = limpet("run", "-c", "1 / 0")
    assert (result.out, result.err) == ("", TRACEBACK)


@pytest.mark.parametrize("message, status, said", [
    ("", 0, ""), ("None", 0, ""), ("0", 0, ""), ("3", 3, ""), ("-1", 255, ""), ("no input", 1, "no input\n"),
])
def test_an_exit_of_the_code_is_that_of_a_script(limpet, message, status, said):
    error = {"name": "SystemExit", "message": message, "traceback": TRACEBACK}
    with running(limpet, status="error", stdout="out\n", error=error):
        result = limpet("run", "-c", "import sys; sys.exit()")
    assert (result.returncode, result.out, result.err) == (status, "out\n", said)


@pytest.mark.parametrize("message, line", [
    ("signal 11 ended the interpreter", "limpet: crashed: Crashed: signal 11 ended the interpreter\n"),
    ("", "limpet: crashed: Crashed\n"),
])
def test_lost_interpreter_is_told(limpet, message, line):
    error = {"name": "Crashed", "message": message, "traceback": ""}
    with running(limpet, session="a", status="crashed", state="lost", signal=11, epoch=2, error=error):
        assert limpet("run", "-s", "a", "-c", "1").err == line


def test_timeout_has_a_traceback_and_a_reason(limpet):
    error = {"name": "Timeout", "message": "over 1 s", "traceback": TRACEBACK}
    with running(limpet, status="timeout", error=error):
        assert limpet("run", "-c", "1").err == TRACEBACK + (
            "limpet: timeout: Timeout: over 1 s\nlimpet: the time limit was reached; -t SECONDS sets another\n"
        )


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_ctrl_c_interrupts_the_code(limpet, options):
    pending = []

    def interrupt(request):
        request.reply(interrupted=True)
        error = {"name": "KeyboardInterrupt", "message": "", "traceback": "Traceback\nKeyboardInterrupt\n"}
        pending[0].reply(**record(status="interrupted", error=error))

    with FakeController(limpet.socket, run=pending.append, interrupt=interrupt) as controller:
        process = limpet.start("run", *options, "-c", "while True: pass")
        run_id = controller.wait("run").body["run_id"]
        process.send_signal(signal.SIGINT)
        assert controller.wait("interrupt").body == {"run_id": run_id}
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    if options:
        assert json.loads(out)["status"] == "interrupted" and err == b""
    else:
        assert b"KeyboardInterrupt" in err


def test_second_ctrl_c_ends_the_waiting(limpet):
    with FakeController(limpet.socket, run=lambda request: None, interrupt=lambda request: None) as controller:
        process = limpet.start("run", "-c", "1")
        controller.wait("run")
        process.send_signal(signal.SIGINT)
        controller.wait("interrupt")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
