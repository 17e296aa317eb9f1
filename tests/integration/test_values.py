"""set() and value() with real sessions. Arrays, tables and frames: tests/adapters/test_values.py."""

import asyncio

import limpet
import pytest


@pytest.mark.parametrize("value", [None, [1, 2.5, "ü", (1, {2})], {"rows": [{"a": b"\0\xff"}] * 1000}, "x" * 300_000, b"y" * 3_000_000], ids=lambda value: repr(value)[:20])
def test_there_and_back(session, value):
    session.set("v", value)
    assert session.run("type(v).__name__, len(repr(v))").result == repr((type(value).__name__, len(repr(value))))
    assert session.value("v") == value


def test_it_leaves_nothing_behind(session):
    session.set("big", b"x" * 1_000_000)
    session.set("small", 1)
    assert len(session.value("big")) == 1_000_000
    assert {variable.name for variable in session.namespace()} == {"big", "small"}
    left = session.value("[name for name in __import__('os').listdir() if name.startswith('.value')]")
    assert left == []


def test_it_imports_nothing_large(session):
    """The call's time limit is that of the code."""
    session.set("v", 1)
    assert session.value("v, 'IPython' in __import__('sys').modules") == (1, False)
    assert session.value("'IPython' in __import__('sys').modules") is False


def test_an_expression_is_evaluated_in_the_session(session):
    session.run("import math\nrows = [{'n': n} for n in range(3)]")
    assert session.value("sum(row['n'] for row in rows), math.pi > 3  # a comment") == (3, True)
    assert session.run("[name for name in dir() if 'codec' in name or 'value' in name]").result == "[]"


def test_what_the_expression_raises(session):
    with pytest.raises(limpet.CallFailed, match="ZeroDivisionError: division by zero") as caught:
        session.value("1 / 0")
    assert caught.value.result.status == "error" and "limpet" not in caught.value.result.error.traceback
    with pytest.raises(limpet.CallFailed, match="SyntaxError"):
        session.value("1 +")
    with pytest.raises(limpet.CallTimeout):
        session.value("__import__('time').sleep(60)", timeout=0.2)


def test_what_cannot_be_sent(session):
    with pytest.raises(limpet.CallFailed, match="^TypeError: builtin_function_or_method is no plain data"):
        session.value("print")
    with pytest.raises(TypeError):
        session.set("x", print)
    for name in ("a b", "class", "a.b", ""):
        with pytest.raises(ValueError):
            session.set(name, 1)
    assert session.value("'x' in globals()") is False


def test_a_value_has_a_limit(session):
    with pytest.raises(limpet.TooLarge, match="3000"):
        session.value("b'x' * 3_000_000", limit=1_000_000)
    assert not [name for name in session.value("__import__('os').listdir()") if name.startswith(".value")]


LIE = """
import pickle, sys
sys.modules["limpet_runtime.values"].dump = lambda value: [value]
class Evil:
    def __reduce__(self): return print, ("never printed here",)
"""


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_sandbox_that_lies_runs_nothing_here(session, size, capfd):
    assert session.value("1") == 1
    session.run(LIE).check()
    with pytest.raises(limpet.CallFailed, match="an invalid value"):
        session.value(f"pickle.dumps([Evil(), 'x' * {size}])")
    session.run("sys.modules['limpet_runtime.values']._display = lambda *a: None")
    with pytest.raises(limpet.CallFailed, match="sent no value"):
        session.value("b'x'")
    assert "never printed here" not in capfd.readouterr().out


def test_with_asyncio(limpetd, name):
    async def main():
        async with limpetd_client(limpetd) as client, await client.open(name) as session:
            await session.set("x", [1, b"y" * 600_000])
            return await session.value("x[0], len(x[1])"), len((await session.value("x"))[1])

    assert asyncio.run(main()) == ((1, 600_000), 600_000)


def limpetd_client(limpetd):
    return limpet.AsyncClient(limpetd.socket, autostart=False)
