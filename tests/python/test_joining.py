"""A call that asks goes on through lost connections, callers who leave, and interrupts: no tool runs twice."""

import asyncio
import contextvars
import signal
import subprocess
import sys
import threading

import limpet
import pytest
from limpet._calls._workers import LOOP

from tests.support import CLIENT, fake
from tests.support.waiting import until_it_waits

from . import asker, both
from .asker import call

RUN_ID = fake.RUN_ID


@pytest.fixture(params=both.KINDS)
def client(request, controller):
    with both.client(request.param, controller.path, reconnect_timeout=10) as client:
        client.kind = request.param
        yield client


@pytest.fixture
def session(client):
    return client.open("a")


class Counted:
    """A tool that tells when it begins and ends when it may."""

    def __init__(self):
        self.calls = 0
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self, *arguments):
        self.calls += 1
        self.begun.set()
        assert self.go.wait(30)
        return self.calls


def restart(controller):
    controller.stop()
    controller.start()


def beside(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_tool_that_runs_while_the_connection_is_lost(session, controller):
    tool = Counted()
    cell = asker.Cell(controller, call("f"))

    def work():
        assert tool.begun.wait(30)
        restart(controller)
        cell.joined.get(timeout=30)
        cell.joined.get(timeout=30)  # joined again: the question has come again
        tool.go.set()

    thread = beside(work)
    session.run("code", tools={"f": tool})
    thread.join()
    assert cell.value() == 1 and tool.calls == 1
    assert [body["asks"] for body in controller.bodies("run")] == ["pause", "pause"]


def test_an_answer_that_was_lost_is_sent_again(session, controller):
    """The controller dies with an answer that no guest has seen."""
    tool = Counted()
    tool.go.set()
    cell = asker.Cell(controller, call("f"))
    lost = threading.Event()

    def lose(request):
        lost.set()

    controller.on("answer", lose)

    def work():
        assert lost.wait(30)
        controller.on("answer", cell.answer)
        restart(controller)

    thread = beside(work)
    session.run("code", tools={"f": tool})
    thread.join()
    assert cell.value() == 1 and tool.calls == 1


def test_a_tool_that_ends_while_nobody_is_there(session, controller):
    tool = Counted()
    cell = asker.Cell(controller, call("f"))
    done = threading.Event()

    def finished(*arguments):
        tool(*arguments)
        done.set()
        return "x"

    def work():
        assert tool.begun.wait(30)
        controller.stop()
        tool.go.set()
        assert done.wait(30)
        controller.start()

    thread = beside(work)
    session.run("code", tools={"f": finished})
    thread.join()
    assert cell.value() == "x" and tool.calls == 1


def test_only_the_newest_answers_are_kept(session, controller):
    seen = []
    count = 40
    cell = asker.Cell(controller, *[call("f", n) for n in range(count)], ends=False)
    thread = beside(lambda: last(cell, controller, count))
    session.run("code", tools={"f": lambda n: seen.append(n)})
    thread.join()
    assert seen == list(range(count)), "those that were answered last were not asked again"


def last(cell, controller, count):
    for _ in range(count):
        cell.answered.get(timeout=30)
    cell.answers = {number: body for number, body in cell.answers.items() if number <= count - 16}
    cell.ends = True
    restart(controller)


def test_leaving_and_coming_back(session, controller):
    """What LangGraph does: approve leaves, and is asked again at the next run() with the same run_id."""
    calls, decisions = [], []

    def approve(call):
        if not decisions:
            raise limpet.Leave("later")
        return decisions[0]

    def run():
        return session.run("code", run_id=RUN_ID, tools={"f": lambda: calls.append(1)}, approve=approve)

    cell = asker.Cell(controller, call("f"))
    with pytest.raises(limpet.Leave, match="later"):
        run()
    assert controller.bodies("interrupt") == [] and cell.answers == {} and calls == []
    decisions.append(True)
    assert run().status == "ok" and calls == [1]


def test_leaving_asks_nobody_else(session, controller):
    asked = []

    def approve(call):
        asked.append(call.args)
        raise limpet.Leave

    asker.Cell(controller, *[call("f", n) for n in range(5)], at_once=True)
    with pytest.raises(limpet.Leave):
        session.run("code", tools={"f": print}, approve=approve)
    assert asked == [(0,)]


@pytest.mark.parametrize("where", ["tool", "on_input", "on_stdout"])
def test_leaving_from_elsewhere(session, controller, where):
    def leave(*arguments):
        raise limpet.Leave

    question = call("f") if where == "tool" else ("input", "", None)
    asker.Cell(controller, question)
    options = {"tools": {"f": leave}} if where == "tool" else {"on_input": leave}
    if where == "on_stdout":
        controller.on("run", lambda request: request.send("output", {"stream": 1, "data": b"x"}))
        options = {"on_stdout": leave}
    with pytest.raises(limpet.Leave):
        session.run("code", **options)
    assert controller.bodies("interrupt") == []
    controller.on("run", lambda request: request.record())
    assert session.run("more").status == "ok", "the client is still of use"


def test_callers_with_the_same_call(controller):
    """The second one joins while the first one's tool runs: it runs once, and its answer goes to the newest."""
    tool = Counted()
    cell = asker.Cell(controller, call("f"), ends=False)
    with limpet.Client(controller.path) as client:
        session = client.open("a")

        def run():
            session.run("code", run_id=RUN_ID, tools={"f": tool})

        first = beside(run)
        one = cell.joined.get(timeout=30)
        assert tool.begun.wait(30)
        second = beside(run)
        two = cell.joined.get(timeout=30)
        tool.go.set()
        cell.answered.get(timeout=30)
        one.record()
        two.record()
        first.join()
        second.join()
    assert cell.value() == 1 and tool.calls == 1


def test_a_tool_that_hangs_is_left_behind(session, controller):
    tool = Counted()
    cell = asker.Cell(controller, call("f"))

    def work():
        assert tool.begun.wait(30)
        cell.end(status="interrupted", error={"name": "Interrupted", "message": "", "traceback": ""})

    thread = beside(work)
    assert session.run("code", tools={"f": tool}).status == "interrupted"
    thread.join()
    tool.go.set()


def test_a_coroutine_is_cancelled_with_its_call(session, client, controller):
    begun, ended = threading.Event(), threading.Event()

    async def f():
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    cell = asker.Cell(controller, call("f"))

    def work():
        assert begun.wait(30)
        cell.end(status="interrupted", error={"name": "Interrupted", "message": "", "traceback": ""})

    thread = beside(work)
    assert session.run("code", tools={"f": f}).status == "interrupted"
    thread.join()
    if client.kind == "asyncio":
        client.loop.run_until_complete(asyncio.sleep(0))
    assert ended.wait(30)


def test_a_coroutine_that_begins_as_its_call_ends(controller, monkeypatch):
    """The loop runs it, and its call ends before the thread that handed it over has come back from that."""
    begun, over, ended = threading.Event(), threading.Event(), threading.Event()

    class Slow:
        def submit(self, awaitable):
            future = LOOP.submit(awaitable)
            assert over.wait(30)
            return future

    async def f():
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    def work():
        assert begun.wait(30)
        cell.end(status="interrupted", error={"name": "Interrupted", "message": "", "traceback": ""})

    monkeypatch.setattr("limpet._calls._asking.LOOP", Slow())
    cell = asker.Cell(controller, call("f"))
    thread = beside(work)
    with limpet.Client(controller.path) as client:
        assert client.open("a").run("code", tools={"f": f}).status == "interrupted"
    over.set()
    thread.join()
    assert ended.wait(30)


PROGRAM = """
import sys, threading, time
sys.path[:0] = {paths!r}
import limpet
client = limpet.Client({address!r})
def hang():
    print("hangs", flush=True)
    threading.Event().wait()
try:
    client.open("a").run("code", {options})
except KeyboardInterrupt as error:
    print(error.limpet_result.status)
"""


@pytest.mark.parametrize(
    "options, question",
    [
        ("tools={'hang': hang}", call("hang")),
        ("on_input=lambda prompt: hang()", ("input", "", None)),
        ("on_input=lambda prompt: (print('hangs', flush=True), input())", ("input", "", None)),
        ("tools={'f': print}, approve=lambda call: hang()", call("f")),
    ],
)
def test_ctrl_c_while_it_waits(controller, options, question):
    """For a tool in its thread, and for a person in the caller's, where input() notices."""
    cell = asker.Cell(controller, question)
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    record = fake.record(status="interrupted", error={"name": "Interrupted", "message": "", "traceback": ""})
    controller.on("result", lambda request: request.reply(run_id=request.body["run_id"], record=record))
    program = PROGRAM.format(
        paths=[str(CLIENT)], address=controller.path, options=options
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "hangs\n"
    until_it_waits(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupted\n"
    assert process.returncode == 0
    assert controller.bodies("interrupt") == [{"run_id": cell.request.body["run_id"]}]


def test_output_is_delivered_while_a_tool_runs(session, controller):
    tool = Counted()
    cell = asker.Cell(controller, call("f"))
    seen = []

    def on_stdout(text):
        seen.append((text, threading.get_ident()))
        tool.go.set()

    def work():
        assert tool.begun.wait(30)
        controller.do(lambda: cell.request.send("output", {"stream": 1, "data": b"meanwhile"}))

    thread = beside(work)
    session.run("code", tools={"f": tool}, on_stdout=on_stdout)
    thread.join()
    assert seen == [("meanwhile", threading.get_ident())] and cell.value() == 1


VARIABLE = contextvars.ContextVar("variable", default="not set")


def test_the_context_of_the_caller(session, controller):
    async def on_loop():
        return VARIABLE.get()

    VARIABLE.set("set")
    seen = []
    cell = asker.Cell(controller, call("thread"), call("loop"))
    session.run(
        "code", tools={"thread": VARIABLE.get, "loop": on_loop}, approve=lambda call: seen.append(VARIABLE.get()) or True
    )  # fmt: skip
    assert (cell.value(1), cell.value(2), seen) == ("set", "set", ["set", "set"])


@pytest.mark.parametrize(
    "body", [{}, {"ask": "1"}, {"ask": 1, "kind": "tool", "name": "f", "payload": "text"}]
)
def test_questions_that_are_malformed(session, controller, body):
    controller.on("run", lambda request: request.send("ask", body))
    with pytest.raises(limpet.ProtocolMismatch):
        session.run("code", tools={"f": print})


def test_people_are_asked_in_the_callers_thread(controller):
    seen = []

    def note(*arguments):
        seen.append(threading.get_ident())
        return True

    with limpet.Client(controller.path) as client:
        asker.Cell(controller, ("input", "", None), call("f"))
        client.open("a").run("code", tools={"f": note}, approve=note, on_input=lambda prompt: note() and "")
    assert seen[:2] == [threading.get_ident()] * 2 and seen[2] != threading.get_ident()
