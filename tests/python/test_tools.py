"""Host functions, their approval, and input(), as a cell of a fake controller asks for them."""

import asyncio
import functools
import logging

import limpet
import pytest

from . import asker, both
from .asker import call


@pytest.fixture(params=both.KINDS)
def client(request, controller):
    with both.client(request.param, controller.path, reconnect_timeout=5) as client:
        yield client


@pytest.fixture
def session(client):
    return client.open("a")


def run(session, controller, *questions, at_once=False, **options):
    cell = asker.Cell(controller, *questions, at_once=at_once)
    session.run("code", **options)
    return cell


def test_without_tools_nothing_is_asked(session, controller):
    cell = run(session, controller)
    assert "asks" not in cell.request.body and "stream" not in cell.request.body


def test_coroutine_functions(session, controller):
    async def slow(value):
        await asyncio.sleep(0)
        return value + 1

    cell = run(
        session,
        controller,
        call("slow", 41),
        call("part", 1),
        tools={"slow": slow, "part": functools.partial(slow, value=1)},
    )
    assert cell.value(1) == 42
    assert cell.error(2)[0] == "TypeError"


def test_bound_methods_and_lists(session, controller):
    class Store:
        def __init__(self):
            self.rows = []

        def add(self, row: str) -> int:
            """Adds a row.

            And tells how many there are.
            """
            self.rows.append(row)
            return len(self.rows)

    store = Store()
    cell = run(session, controller, ("tools", "", None), call("add", "x"), tools=[store.add])
    assert cell.value(1) == [
        {
            "name": "add",
            "signature": "(row: str) -> int",
            "doc": "Adds a row.\n\nAnd tells how many there are.",
        }
    ]
    assert cell.value(2) == 1 and store.rows == ["x"]


@pytest.mark.parametrize(
    "tools, error",
    [
        ({"a-b": print}, ValueError),
        ({"class": print}, ValueError),
        ({"_hidden": print}, ValueError),
        ({"ﬁ": print}, ValueError),
        ({"": print}, ValueError),
        ({1: print}, TypeError),
        ({"a": 1}, TypeError),
        ([lambda: 1], ValueError),
        ([functools.partial(print)], ValueError),
        ([print, print], ValueError),
        (print, TypeError),
        ("print", TypeError),
    ],
)
def test_what_is_no_tool(client, session, controller, tools, error):
    asker.Cell(controller)
    for attempt in (session.run, client.run, client.open):
        with pytest.raises(error):
            attempt("b", tools=tools)
    assert len(controller.bodies("open")) == 1
    assert controller.bodies("run") == []


def test_wrong_options(session, controller):
    cell = asker.Cell(controller)
    for options in (
        {"approve": print},
        {"tool_time": "count"},
        {"tools": {}, "approve": print},
        {"tools": {"f": print}, "tool_time": "never"},
    ):
        with pytest.raises(ValueError):
            session.run("code", **options)
    for options in ({"on_input": "x"}, {"tools": {"f": print}, "approve": 1}):
        with pytest.raises(TypeError):
            session.run("code", **options)
    assert cell.request is None
    session.close()
    with pytest.raises(limpet.SessionClosed):
        session.run("code", tools={"f": print})


def test_options_of_the_session(client, controller):
    session = client.open(
        "b", tools={"f": lambda: "session"}, on_input=lambda prompt: "line", tool_time="count"
    )
    cell = run(session, controller, call("f"), ("input", "? ", None))
    assert (cell.value(1), cell.value(2)) == ("session", "line")
    assert cell.request.body["asks"] == "count"
    assert controller.bodies("open") == [{"session": "b"}]
    cell = run(session, controller, call("f"), call("g"), ("input", "? ", None), tools={"g": lambda: "call"})
    assert cell.error(1) == ("AttributeError", "the host has no function 'f'")
    assert (cell.value(2), cell.value(3)) == ("call", "line")
    cell = run(session.branch("try"), controller, call("f"))
    assert cell.value() == "session"


def test_a_container_of_its_own(client, controller):
    cell = asker.Cell(controller, call("f", 2))
    seen = []
    client.run(
        "code", tools={"f": lambda n: n * 2}, approve=lambda call: seen.append(call) or True, memory="64m"
    )
    assert cell.value() == 4
    assert seen == [limpet.ToolCall("f", (2,), {}, cell.request.body["run_id"], None, 1)]


def test_exceptions_have_no_traceback(session, controller, caplog):
    class NoSuchShell(LookupError):
        pass

    def search(text):
        raise NoSuchShell(f"no {text} here \udc80")

    cell = run(session, controller, call("search", "limpet"), tools={"search": search})
    assert cell.error() == ("NoSuchShell", "no limpet here \\udc80")
    assert any(record.exc_info and record.name == "limpet.tools" for record in caplog.records)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_exceptions_that_end_things_elsewhere(session, controller, error):
    def f():
        raise error

    cell = run(session, controller, call("f"), tools={"f": f})
    assert cell.error()[0] == type(error).__name__


def test_results_that_cannot_be_handed_over(session, controller):
    deep = None
    for _ in range(40):
        deep = [deep]
    values = {
        "object": object(),
        "set": {1},
        "keys": {1: 2},
        "big": b"x" * (1 << 20),
        "int": 1 << 70,
        "deep": deep,
        "text": "\udc80",
    }
    tools = {f"f_{name}": functools.partial(lambda value: value, value) for name, value in values.items()}
    cell = run(session, controller, *[call(name) for name in tools], tools=tools)
    for number, name in enumerate(tools, 1):
        kind, message = cell.error(number)
        assert kind == ("TypeError" if name in ("f_object", "f_set", "f_keys") else "ValueError")
        assert message.startswith(f"{name}() returned") and "session.put()" in message


HOSTILE = [
    b"", b"\xc1", b"\x92\x90", b"\x92\x90\x80\x00", b"\x92\x80\x80", b"\x92\x90\x81\x01\x02", b"\x90", b"\xc0",
    b"\x92\x91\xd4\x01\x00\x80", b"\x92\x91\xd7\xff" + bytes(8) + b"\x80", b"\xdd\xff\xff\xff\xff" * 20,
    b"\x92" + b"\x91" * 100 + b"\xc0\x80", b"\x91" * 1000000, b"\x92\x91\xa1\xff\x80",
    b"\x92\xdc\xff\xff" + b"\x94\xc0\xc0\xc0\xc0" * 65535 + b"\x80",
]  # fmt: skip


def test_hostile_arguments(session, controller):
    called = []
    questions = [("tool", "f", value) for value in HOSTILE]
    cell = run(
        session,
        controller,
        *questions,
        call("f"),
        ("other", "f", None),
        tools={"f": lambda *a, **k: called.append(a)},
    )
    assert {cell.error(number)[0] for number in range(1, len(HOSTILE) + 1)} == {"ValueError"}
    assert cell.value(len(HOSTILE) + 1) is None and called == [()]
    assert cell.error(len(HOSTILE) + 2)[0] == "ValueError"


def test_arguments_that_do_not_fit(session, controller):
    asked = []
    cell = run(
        session, controller, call("f", 1, 2), call("g", x=1),
        tools={"f": lambda x: x, "g": lambda: 1}, approve=lambda call: asked.append(call) or True,
    )  # fmt: skip
    assert cell.error(1) == ("TypeError", "f(x): too many positional arguments")
    assert cell.error(2)[0] == "TypeError" and asked == []


DECISIONS = [
    (True, "did x", None),
    (False, None, "the call of act() was not allowed"),
    ("too dear", None, "the call of act() was not allowed: too dear"),
    (None, None, "the call of act() was not allowed"),
    (1, None, "the call of act() was not allowed"),
]


@pytest.mark.parametrize("decision, value, message", DECISIONS)
def test_approval(session, controller, decision, value, message):
    asked = []

    def approve(call):
        asked.append((call.tool, call.args, call.kwargs, call.session))
        return decision

    cell = run(
        session,
        controller,
        call("act", "x", fast=True),
        tools={"act": lambda what, fast: f"did {what}"},
        approve=approve,
    )
    assert asked == [("act", ("x",), {"fast": True}, "a")]
    assert cell.value() == value if message is None else cell.error() == ("PermissionError", message)


def test_approval_of_other_arguments(session, controller):
    cell = run(
        session, controller, call("act", "x"),
        tools={"act": lambda what, times=1: [what] * times}, approve=lambda call: call.with_arguments("y", times=2),
    )  # fmt: skip
    assert cell.value() == ["y", "y"]
    cell = run(
        session,
        controller,
        call("act"),
        tools={"act": lambda: 1},
        approve=lambda call: call.with_arguments("y"),
    )
    assert cell.error()[0] == "TypeError"


def test_approval_that_fails_denies(session, controller):
    def approve(call):
        raise RuntimeError("secret of the host")

    cell = run(session, controller, call("act"), tools={"act": lambda: 1}, approve=approve)
    assert cell.error() == ("PermissionError", "the call of act() could not be approved")


def test_approval_by_a_coroutine(session, controller):
    async def approve(call):
        await asyncio.sleep(0)
        return call.args != ("no",)

    cell = run(
        session,
        controller,
        call("act", "yes"),
        call("act", "no"),
        tools={"act": lambda what: what},
        approve=approve,
    )
    assert cell.value(1) == "yes" and cell.error(2)[0] == "PermissionError"


def test_people_are_asked_one_thing_at_a_time_and_in_order(session, controller):
    asking, order = [], []

    def note(what):
        asking.append(what)
        assert len(asking) == 1
        order.append(what)
        asking.pop()
        return True

    questions = [
        ("input", "first", None),
        call("f", 1),
        ("input", "second", None),
        call("f", 2),
        call("f", 3),
    ]
    run(
        session, controller, *questions, at_once=True, tools={"f": lambda n: n},
        on_input=lambda prompt: note(prompt) and "", approve=lambda call: note(call.args[0]),
    )  # fmt: skip
    assert order == ["first", 1, "second", 2, 3]


def test_input(session, controller):
    prompts = []

    def on_input(prompt):
        prompts.append(prompt)
        if prompt == "end":
            raise EOFError
        return {"none": None, "line": "text\n", "bad": 3}.get(prompt, "ä")

    cell = run(
        session, controller, ("input", "? ", None), ("input", "line", None), ("input", "none", None),
        ("input", "end", None), ("input", "bad", None), ("secret", "pass", None), ("tools", "", None), on_input=on_input,
    )  # fmt: skip
    assert [cell.value(n) for n in (1, 2, 3, 4, 6, 7)] == ["ä", "text", None, None, "ä", []]
    assert cell.error(5) == ("TypeError", "on_input must return text or None, not int")
    assert prompts == ["? ", "line", "none", "end", "bad", "pass"]


def test_input_that_is_not_to_be_shown(session, controller):
    asked = []

    async def on_input(prompt, password=False):
        asked.append((prompt, password))
        return "x"

    run(session, controller, ("input", "a", None), ("secret", "b", None), on_input=on_input)
    assert asked == [("a", False), ("b", True)]


def test_input_without_on_input_ends(session, controller):
    cell = run(session, controller, ("input", "? ", None), tools={"f": print})
    assert cell.value() is None


def test_logging_is_quiet_when_nothing_fails(session, controller, caplog):
    with caplog.at_level(logging.DEBUG, "limpet"):
        run(session, controller, call("f"), tools={"f": lambda: 1}, approve=lambda call: True)
    assert caplog.records == []
