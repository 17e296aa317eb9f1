"""What is short to type: a default client, checked and echoed calls, sessions entered without await, results that show themselves."""

import asyncio
import json
import os
import pickle

import limpet
import pytest

PNG = b"\x89PNG\r\n\x1a\n picture"
SHOWS = """
class Shown:
    def __init__(self, **data): self.data = data
    def _repr_mimebundle_(self, **ignored): return self.data
"""


@pytest.fixture
def default(limpetd, monkeypatch):
    monkeypatch.setenv("LIMPET_SOCKET", limpetd.socket)
    limpet._default._client.cache_clear()
    yield
    limpet._default._client().close()
    limpet._default._client.cache_clear()


def test_a_default_client(default, name):
    assert limpet.run("6 * 7").result == "42"
    with limpet.open(name) as session:
        assert session.run("1").ok
        assert session.name == name


def test_checked_calls(client, name):
    with client.open(name, check=True) as session:
        with pytest.raises(limpet.CallFailed, match="ZeroDivisionError"):
            session.run("1 / 0")
        assert session.run("1 / 0", check=False).error.name == "ZeroDivisionError"
        with pytest.raises(limpet.CallFailed):
            session.exec("exit 3")
        with pytest.raises(limpet.CallFailed), session.branch("other") as branch:
            branch.run("1 / 0")
        assert [result.ok for result in session.try_each(["1", "1 / 0"])] == [True, False]
        session.set("x", 5)
        assert session.value("x") == 5
    with client.open() as session:
        assert not session.run("1 / 0").ok and not session.exec("false").ok
        with pytest.raises(limpet.CallTimeout):
            session.run("while True: pass", 0.2, check=True)
    with pytest.raises(limpet.CallFailed):
        client.run("1 / 0", check=True)


def test_echo(session, capsys):
    result = session.run("import sys; print('out'); print('err', file=sys.stderr)", echo=True)
    assert capsys.readouterr() == ("out\n", "err\n") == (result.stdout, result.stderr)
    seen = []
    session.exec("echo one; echo two >&2", echo=True, on_stdout=seen.append)
    assert capsys.readouterr() == ("", "two\n") and seen == ["one\n"]


def test_sessions_entered_without_await(limpetd, name):
    async def run():
        async with limpet.AsyncClient(limpetd.socket) as client:
            async with client.open(name) as session, session.branch("b") as branch, session.context("c") as context:
                await session.run("x = 1")
                assert [(await each.run("x = 2; x")).result for each in (branch, context)] == ["2", "2"]
                other = await asyncio.create_task(client.attach(name))
                assert (await other.run("x")).result == "1"
            with pytest.raises(limpet.NoSuchSession):
                await client.attach(name)
            waiting = await asyncio.gather(client.open(), client.open())
            await asyncio.gather(*(session.close() for session in waiting))

    asyncio.run(run())


def test_text_and_json(session):
    session.files.write_text("a.txt", "é")
    assert session.files.read_text("a.txt") == "é" and session.files.read("a.txt") == b"\xc3\xa9"
    session.files.write_text("latin.txt", "é", encoding="latin-1")
    assert session.files.read("latin.txt") == b"\xe9"
    session.files.write_text("a.json", json.dumps({"a": [1, None]}))
    assert session.files.read_json("a.json") == {"a": [1, None]}


def test_the_controller_describes_itself(client, limpetd):
    info = client.info()
    assert (info.engine, info.socket, info.version) == (limpetd.engine, limpetd.socket, limpet.__version__)
    assert "processes" in info.features and info.pid > 1


def test_clients_and_sessions_are_pickled_by_reference(client, session):
    session.run("x = 7")
    again = pickle.loads(pickle.dumps(session))
    assert again.run("x").result == "7" and not again.created
    assert [row.session for row in pickle.loads(pickle.dumps(client)).sessions()].count(session.name) == 1


def test_a_figure_is_saved(session, tmp_path):
    result = session.run(SHOWS + f"Shown(**{{'image/png': {PNG!r}, 'text/plain': 'figure'}})")
    [image] = result.images
    image.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == PNG
    with pytest.raises(ValueError, match="image/png: name the file .png"):
        image.save(tmp_path / "a.svg")


def test_a_result_is_shown_as_text(session, capsys):
    code = f"print('text')\ndisplay(Shown(**{{'image/png': {PNG!r}}}))\nShown(**{{'text/html': '<b>t</b>', 'text/plain': 'a  b\\n1  2'}})"
    session.run(SHOWS).check()
    session.run(code).check().show()
    text, path, *table = capsys.readouterr().out.splitlines()
    assert text == "text" and table == ["a  b", "1  2"]
    with open(path, "rb") as file:
        assert file.read() == PNG and path.endswith(".png")
    os.unlink(path)
    session.run("1 / 0").show()
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_a_result_in_a_notebook(session):
    code = SHOWS + "print('<text>')\nShown(**{'text/html': '<script>harm()</script>', 'application/javascript': 'harm()', 'text/plain': 'p'})"
    result = session.run(code).check()
    shown = result._repr_mimebundle_()
    assert "<pre>&lt;text&gt;\n</pre>" in shown["text/html"] and shown["text/plain"] == repr(result)
    alone = result.displays[0]._repr_mimebundle_()
    assert set(alone) == {"text/plain", "text/html"}
    for page in (shown["text/html"], alone["text/html"]):
        assert "<iframe sandbox " in page and "<script>" not in page
