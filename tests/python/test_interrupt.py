"""Ctrl-C in run(): the code is interrupted, not just the wait."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import limpet
import pytest

from tests.support import ROOT, fake


@pytest.fixture
def script(controller):
    """Starts a client in a process of its own; its output says what it saw."""
    processes = []

    def start(text):
        text = (
            "import limpet, signal, sys\nclient = limpet.Client(sys.argv[1], reconnect_timeout=60)\n"
            + textwrap.dedent(text)
        )
        process = subprocess.Popen(
            [sys.executable, "-c", text, controller.path],
            env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "clients", "python", "src")},
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait(60)
        process.stdout.close()


RUN = """
    session = client.open("a")
    try:
        session.run("loop")
    except KeyboardInterrupt as error:
        print("interrupted", getattr(error, "limpet_result", None))
    print(session.run("next"))
"""


def test_ctrl_c_interrupts_the_code_and_waits_for_its_record(controller, script):
    controller.on("run", lambda request: None)
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    controller.on("result", lambda request: None)
    process = script(RUN)
    run = controller.wait("run")
    process.send_signal(signal.SIGINT)
    assert controller.wait("interrupt").body == {"run_id": run.body["run_id"]}
    asked = controller.wait("result")
    assert asked.body == {"run_id": run.body["run_id"]}
    controller.on("run", lambda request: request.record(result="after"))
    controller.do(lambda: asked.reply(record=fake.record(status="interrupted", error=interrupt_error())))
    assert process.communicate(timeout=20)[0].splitlines() == [
        "interrupted <Result a [1]: interrupted, KeyboardInterrupt: >",
        "<Result a [1]: ok, result='after'>",
    ]


def test_a_second_ctrl_c_waits_no_longer(controller, script):
    controller.on("run", lambda request: None)
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    controller.on("result", lambda request: None)
    process = script(RUN)
    controller.wait("run")
    process.send_signal(signal.SIGINT)
    controller.wait("result")
    controller.on("run", lambda request: request.record(result="after"))
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0].splitlines() == [
        "interrupted None",
        "<Result a [1]: ok, result='after'>",
    ]


def test_ctrl_c_of_a_call_the_controller_does_not_know(controller, script):
    controller.on("run", lambda request: None)
    controller.on("interrupt", lambda request: request.fail(1105, "NoSuchRun"))
    process = script(RUN)
    controller.wait("run")
    controller.on("run", lambda request: request.record(result="after"))
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0].startswith("interrupted None\n")


def test_ctrl_c_without_a_controller(controller, script):
    controller.on("run", lambda request: None)
    process = script(
        """
        try:
            client.run("loop")
        except KeyboardInterrupt as error:
            print("interrupted")
        """
    )
    controller.wait("run")
    controller.stop()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "interrupted\n"


def test_what_another_signal_handler_raises_does_the_same(session, controller):
    controller.on("run", lambda request: os.kill(os.getpid(), signal.SIGALRM))
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    controller.on("result", lambda request: request.reply(record=fake.record(status="interrupted")))

    class Alarm(Exception):
        pass

    def on_alarm(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGALRM, on_alarm)
    try:
        with pytest.raises(Alarm) as caught:
            session.run("loop")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert caught.value.limpet_result.status == "interrupted"


def test_a_handler_that_returns_changes_nothing(session, controller):
    seen = []

    def run(request):
        os.kill(os.getpid(), signal.SIGALRM)
        request.record(result="1")

    controller.on("run", run)
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    try:
        assert session.run("1").result == "1"
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [signal.SIGALRM]


def test_an_outer_call_survives_an_inner_one_that_was_interrupted(session, client, controller):
    """The connection they share is closed then; the outer call asks again with its run_id."""
    other = client.open("b")
    answered = threading.Event()

    def run(request):
        if request.body["code"] == "inner":
            request.send("output", {"stream": 1, "data": b"x"})
        elif "stream" in request.body:
            request.send("output", {"stream": 1, "data": b"one\n"})
        else:
            answered.set()
            request.record(stdout="one\ntwo\n", result="outer")

    controller.on("run", run)
    controller.on("result", lambda request: request.reply(record=fake.record(status="interrupted")))

    def leave(text):
        raise ZeroDivisionError

    def on_stdout(text):
        seen.append(text)
        if text == "one\n":
            with pytest.raises(ZeroDivisionError):
                other.run("inner", on_stdout=leave)

    seen = []
    assert session.run("outer", on_stdout=on_stdout).result == "outer"
    assert answered.is_set() and seen == ["one\n", "two\n"]
    assert len({body["run_id"] for body in controller.bodies("run")}) == 2


def interrupt_error():
    return {"name": "KeyboardInterrupt", "message": "", "traceback": ""}


def test_signals_at_any_moment_lose_no_call(session, controller):
    """A handler that raises at whatever instruction leaves neither a wrong answer nor a stuck client."""
    records = {}

    def run(request):
        records[request.body["run_id"]] = request.body["code"]
        request.record(result=request.body["code"])

    def result(request):
        code = records.get(request.body["run_id"])
        if code is None:
            request.fail(1105, "NoSuchRun")
        else:
            request.reply(record=fake.record(result=code))

    class Alarm(Exception):
        pass

    armed = [False]

    def on_alarm(number, frame):
        if armed[0]:
            armed[0] = False
            raise Alarm

    controller.on("run", run).on("result", result)
    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
    alarms, end = 0, time.monotonic() + 2
    try:
        number = 0
        while time.monotonic() < end or alarms <= 10:
            number += 1
            try:
                armed[0] = True
                answer = session.run(f"code {number}").result
                armed[0] = False
            except Alarm as alarm:
                alarms += 1
                answer = getattr(alarm, "limpet_result", None) and alarm.limpet_result.result
            assert answer in (f"code {number}", None)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert isinstance(session.run("last"), limpet.Result)
