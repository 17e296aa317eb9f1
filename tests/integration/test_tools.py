"""Host functions and input() of real cells: answered by the client that runs them, through all that can happen."""

import asyncio
import os
import subprocess
import sys
import threading

import limpet
import pytest

from tests.support import CLIENT


def run_id():
    return os.urandom(16).hex()


def search(text: str, count: int = 3, *, exact: bool = False) -> dict:
    """Finds things.

    All of them.
    """
    return {"text": text, "count": count, "exact": exact, "bytes": b"\0\xff", "none": None, "half": 0.5}


def value(result):
    assert result.status == "ok", result.error
    return eval(result.result)


def use(code):
    return f"import limpet_tools\n{code}"


def test_arguments_and_results(session):
    got = value(session.run(use("limpet_tools.search('ä', exact=True)"), tools={"search": search}))
    assert got == {"text": "ä", "count": 3, "exact": True, "bytes": b"\0\xff", "none": None, "half": 0.5}
    same = use(
        "x = [1, -1, 2**64 - 1, -2**63, 1.5, True, None, 'text', b'bytes', {'a': {}}]; limpet_tools.same(*x) == x"
    )
    assert value(session.run(same, tools={"same": lambda *values: values})) is True


def test_help_shows_what_the_host_has(session):
    text = session.run(use("help(limpet_tools.search)"), tools=[search]).stdout
    assert "search(text: str, count: int = 3, *, exact: bool = False) -> dict" in text
    assert "Finds things." in text and "All of them." in text
    assert value(
        session.run(use("[name for name in dir(limpet_tools) if name.islower()]"), tools=[search])
    ) == ["search"]


def test_functions_are_those_of_the_call(session):
    assert value(session.run(use("f = limpet_tools.f; f()"), tools={"f": lambda: 1})) == 1
    assert value(session.run("f()", tools={"f": lambda: 2})) == 2
    for result in (session.run("f()"), session.run(use("limpet_tools.f()"))):
        assert result.status == "error" and "tools" in result.error.message
    result = session.run("f()", tools={"g": lambda: 3})
    assert (result.error.name, result.error.message) == ("AttributeError", "the host has no function 'f'")


def test_exceptions_come_back(session):
    class OutOfShells(Exception):
        pass

    def fail(kind):
        raise {"lookup": LookupError, "own": OutOfShells}[kind](f"no {kind}")

    code = use(
        "try:\n    limpet_tools.fail('lookup')\nexcept LookupError as error:\n    text = str(error)\ntext"
    )
    assert session.run(code, tools={"fail": fail}).result == "'no lookup'"
    result = session.run(use("limpet_tools.fail('own')"), tools={"fail": fail})
    assert (
        result.status == "error"
        and "OutOfShells" in result.error.message
        and "no own" in result.error.message
    )
    assert __file__ not in result.error.traceback


def test_what_cannot_be_handed_over(session):
    tools = {"big": lambda: b"x" * (2 << 20), "odd": object, "take": len}
    for code in ("limpet_tools.big()", "limpet_tools.odd()"):
        result = session.run(use(code), tools=tools)
        assert result.status == "error" and "session.put()" in result.error.message
    for code in (
        "limpet_tools.take(b'x' * (2 << 20))",
        "limpet_tools.take(object())",
        "limpet_tools.take({1: 2})",
    ):
        result = session.run(use(code), tools=tools)
        assert result.status == "error" and result.state == "kept"
    assert value(session.run(use("limpet_tools.take('x' * 1000000)"), tools=tools)) == 1000000


def test_files_for_what_is_too_large(session):
    def fetch():
        session.put(b"x" * (2 << 20), "fetched")
        return "fetched"

    assert value(session.run(use("len(open(limpet_tools.fetch(), 'rb').read())"), tools=[fetch])) == 2 << 20


def test_approval(session):
    def approve(call):
        assert (call.session, call.tool) == (session.name, "buy")
        return {"a": True, "b": "too dear", "c": call.with_arguments("d")}[call.args[0]]

    code = use(
        "got = []\nfor x in 'abc':\n    try:\n        got.append(limpet_tools.buy(x))\n    except PermissionError as error:\n        got.append(str(error))\ngot"
    )
    got = value(session.run(code, tools={"buy": lambda item: f"bought {item}"}, approve=approve))
    assert got == ["bought a", "the call of buy() was not allowed: too dear", "bought d"]


def test_threads_ask_at_once(session):
    """Each waits for all the others."""
    meeting = threading.Barrier(16, timeout=60)
    code = use(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(16) as pool:\n    got = list(pool.map(limpet_tools.meet, range(16)))\ngot"
    )
    tools = {"meet": lambda n: (meeting.wait(), n)[1]}
    assert value(session.run(code, tools=tools)) == list(range(16))


def test_input(session):
    asked = []

    def on_input(prompt, password=False):
        asked.append((prompt, password))
        return f"line {len(asked)}"

    code = "import getpass\n[input('? '), getpass.getpass('Secret: '), input()]"
    assert value(session.run(code, on_input=on_input)) == ["line 1", "line 2", "line 3"]
    assert asked == [("? ", False), ("Secret: ", True), ("", False)]


def test_the_end_of_input(session):
    for on_input in (None, lambda prompt: None):
        result = session.run("input()", on_input=on_input)
        assert (result.error.name, result.state) == ("EOFError", "kept")


def test_output_comes_before_the_question(session):
    seen = []
    session.run(
        "print('first'); input('then')",
        on_stdout=seen.append,
        on_input=lambda prompt: seen.append(prompt) or "",
    )
    assert "".join(seen).startswith("first\n") and "then" in seen[1]


def test_a_container_of_its_own(client):
    result = client.run(
        use("limpet_tools.f(20) + len(input())"),
        tools={"f": lambda n: n + 1},
        on_input=lambda prompt: "x" * 21,
    )
    assert value(result) == 42


def test_a_branch(client, name):
    with client.open(name, tools={"f": lambda: 42}) as session:
        branch = session.branch("try")
        assert value(branch.run(use("limpet_tools.f()"))) == 42
        assert [value(result) for result in session.try_each([use("limpet_tools.f()")] * 2)] == [42, 42]
        session.commit(None)


def test_asyncio(limpetd, name):
    """Coroutines of the caller's loop, functions in threads, and a callback, side by side."""

    async def work():
        other = asyncio.Event()

        async def first():
            await other.wait()
            return "first"

        async def second():
            other.set()
            return "second"

        async def on_input(prompt):
            return prompt.upper()

        code = use(
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(2) as pool:\n"
            "    one, two = pool.submit(limpet_tools.first), pool.submit(limpet_tools.second)\n"
            "one.result(), two.result(), limpet_tools.plain(), input('line')"
        )
        async with limpet.AsyncClient(limpetd.socket) as client, await client.open(name) as session:
            return await session.run(
                code, tools={"first": first, "second": second, "plain": lambda: 3}, on_input=on_input
            )

    assert value(asyncio.run(work())) == ("first", "second", 3, "LINE")


@pytest.mark.long
def test_time_that_a_tool_takes(session):
    """It does not count, unless it is said to."""
    over = threading.Event()

    def slow():
        over.wait(7)

    assert session.run(use("limpet_tools.slow()\n1"), timeout=5, tools=[slow]).status == "ok"
    result = session.run(use("limpet_tools.slow()"), timeout=1, tools=[slow], tool_time="count")
    assert (result.status, result.state) == ("timeout", "kept")
    result = session.run(use("limpet_tools.slow()\nwhile True: pass"), timeout=1, tools=[slow])
    over.set()
    assert (result.status, result.state) == ("timeout", "kept")


def test_an_interrupt_while_a_tool_hangs(session):
    begun, go = threading.Event(), threading.Event()

    def hang():
        begun.set()
        go.wait()

    def interrupt():
        assert begun.wait(60)
        session.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = session.run(use("limpet_tools.hang()"), tools=[hang])
    thread.join()
    go.set()
    assert (result.status, result.state) == ("interrupted", "kept")
    assert value(session.run(use("limpet_tools.f()"), tools={"f": lambda: 1})) == 1


def test_a_reset_while_a_question_waits(session):
    result = session.run("input()", on_input=lambda prompt: session.reset() or "")
    assert (result.status, result.state) == ("interrupted", "lost")
    assert value(session.run(use("limpet_tools.f()"), tools={"f": lambda: 1})) == 1


def test_a_close_while_a_question_waits(client, name):
    session = client.open(name)
    result = session.run("input()", on_input=lambda prompt: session.close())
    assert result.status == "failed"


def test_a_checkpoint_is_not_disturbed(session):
    """What asked before it was taken asks again in the copy."""
    tools = {"f": lambda: 1}
    session.run(use("limpet_tools.f()"), tools=tools)
    kept = session.checkpoint()
    session.run(use("limpet_tools.f()\nx = 1"), tools=tools)
    session.rollback(kept)
    assert value(session.run("limpet_tools.f(), 'x' in globals()", tools=tools)) == (1, False)


def test_a_call_that_crashes_after_asking(session):
    result = session.run(use("limpet_tools.f()\nimport os; os.abort()"), tools={"f": lambda: 1})
    assert result.status == "crashed"
    assert value(session.run(use("limpet_tools.f()"), tools={"f": lambda: 2})) == 2


def test_many_questions(session):
    code = use("sum(limpet_tools.f(n) for n in range(2000))")
    assert value(session.run(code, tools={"f": lambda n: n}, timeout=60)) == sum(range(2000))


LEAVING = """
import sys
sys.path[:0] = {paths!r}
import limpet, os
session = limpet.Client({socket!r}).open({name!r})
session.run({code!r}, run_id={run_id!r}, tools={{"f": lambda: os._exit(3)}})
"""


def test_another_process_answers(limpetd, session):
    """The client dies in its tool: the cell waits for one that joins."""
    code, id = use("x = limpet_tools.f()\nx"), run_id()
    paths = [str(CLIENT)]
    program = LEAVING.format(paths=paths, socket=limpetd.socket, name=session.name, code=code, run_id=id)
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=120).returncode == 3
    assert session._client.result(id, timeout=0) is None
    assert value(session.run(code, run_id=id, tools={"f": lambda: 42})) == 42
    assert value(session._client.result(id)) == 42


def test_leaving_and_coming_back(session):
    code, id = use("print('once')\nlimpet_tools.f(), limpet_tools.f()"), run_id()
    answers = [limpet.Leave(), 1, limpet.Leave(), 2]

    def f():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    for _ in range(2):
        with pytest.raises(limpet.Leave):
            session.run(code, run_id=id, tools={"f": f})
    result = session.run(code, run_id=id, tools={"f": f})
    assert value(result) == (1, 2) and result.stdout == "once\n"


def test_the_controller_dies_while_a_question_waits(own_limpetd, name):
    """kill -9, twice: before an answer, and with one on its way. The tool runs once."""
    own_limpetd.start()
    calls = []

    def f():
        calls.append(1)
        own_limpetd.kill()
        own_limpetd.start()
        return len(calls)

    with own_limpetd.client() as client:
        session = client.open(name)
        code = use("x = 41\ngot = [limpet_tools.f()]\ngot.append(limpet_tools.f())\ngot, x")
        assert value(session.run(code, tools={"f": f})) == ([1, 2], 41)
        assert len(calls) == 2 and session.run("x").result == "41"
        session.close()


def test_a_new_client_after_the_controller_has_died(own_limpetd, name):
    own_limpetd.start()
    code, id = use("limpet_tools.f() + 1"), run_id()

    def leave():
        raise limpet.Leave

    with own_limpetd.client() as client:
        with pytest.raises(limpet.Leave):
            client.open(name).run(code, run_id=id, tools={"f": leave})
    own_limpetd.kill()
    own_limpetd.start()
    with own_limpetd.client() as client:
        session = client.open(name)
        assert client.result(id, timeout=0) is None
        assert value(session.run(code, run_id=id, tools={"f": lambda: 41})) == 42
        session.close()
