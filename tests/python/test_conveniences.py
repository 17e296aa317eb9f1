"""What is made of a result, and of an error, for whoever has only a line for it."""

import asyncio
import inspect
import io
import pickle
from typing import get_args, get_type_hints

import limpet
import pytest

from tests.support import fake

from . import both

CHUNK = 1 << 20
ERROR = {"name": "ValueError", "message": "bad", "traceback": "Traceback (most recent call last):\n  …\nValueError: bad\n"}


def result(**fields):
    return limpet.Result.from_record(fake.record(**fields))


def display(is_result=False, **data):
    kinds = {"png": "image/png", "jpeg": "image/jpeg", "svg": "image/svg+xml", "html": "text/html", "text": "text/plain"}
    return {"data": {kinds[name]: value for name, value in data.items()}, "metadata": {}, "display_id": None, "is_result": is_result}


def test_check_returns_what_ended_well():
    good = result(result="1")
    assert good.check() is good


def test_check_raises_what_did_not():
    bad = result(status="error", error=ERROR)
    with pytest.raises(limpet.CallFailed) as caught:
        bad.check()
    assert str(caught.value) == ERROR["traceback"].rstrip() and caught.value.result is bad
    assert (caught.value.name, isinstance(caught.value, limpet.Error)) == ("CallFailed", True)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.result) == (str(caught.value), bad)


def test_check_says_what_became_of_the_variables():
    crashed = result(status="crashed", state="lost", error={"name": "Crashed", "message": "signal 11", "traceback": ""})
    with pytest.raises(limpet.CallFailed, match="^Crashed: signal 11\nthe variables of a are lost"):
        crashed.check()


def test_a_timeout_is_a_timeout():
    late = result(status="timeout", error={"name": "Timeout", "message": "1 s", "traceback": ""})
    with pytest.raises(TimeoutError) as caught:
        late.check()
    assert isinstance(caught.value, limpet.CallTimeout) and caught.value.result is late
    assert "its time limit; timeout= gives a call more" in str(caught.value)


@pytest.mark.parametrize("function, options", [
    (limpet.Client.open, limpet.SessionOptions), (limpet.AsyncClient.open, limpet.SessionOptions), (limpet.open, limpet.SessionOptions),
    (limpet.Client.run, limpet.ContainerOptions), (limpet.AsyncClient.run, limpet.ContainerOptions), (limpet.run, limpet.ContainerOptions),
])
def test_signatures_have_the_options(function, options):
    """Tab and help() show them."""
    names = inspect.signature(function).parameters
    assert names.keys() >= options.__optional_keys__ | {"check"} and "options" not in names


def test_images():
    shown = result(displays=[
        display(png=b"1", text="Figure"), display(text="none"), display(svg="<svg/>"), display(svg="<svg/>", png=b"2"),
        display(jpeg=b"3", is_result=True),
    ])  # fmt: skip
    assert [(image.mime_type, image.data) for image in shown.images] == [
        ("image/png", b"1"), ("image/svg+xml", b"<svg/>"), ("image/png", b"2"), ("image/jpeg", b"3"),
    ]  # fmt: skip
    assert [image._repr_mimebundle_() for image in shown.images[:2]] == [{"image/png": b"1"}, {"image/svg+xml": "<svg/>"}]


def test_html():
    assert result(displays=[display(text="x")]).html is None
    assert result(displays=[display(html="a"), display(html="b")]).html == "b"
    assert result(displays=[display(html="value", is_result=True), display(html="b")]).html == "value"


@pytest.mark.parametrize(
    "error, kind",
    [
        (limpet.BadRequest, ValueError), (limpet.TooLarge, ValueError), (limpet.OptionsDiffer, ValueError),
        (limpet.Denied, PermissionError), (limpet.NoSuchFile, FileNotFoundError), (limpet.NoSuchSession, LookupError),
        (limpet.NoSuchRun, LookupError), (limpet.NoSuchCheckpoint, LookupError), (limpet.Unavailable, ConnectionError),
        (limpet.EngineError, RuntimeError), (limpet.SessionClosed, RuntimeError),
    ],
)  # fmt: skip
def test_errors_are_of_the_kinds_that_people_catch(error, kind):
    raised = error("why")
    assert isinstance(raised, kind) and isinstance(raised, limpet.Error)
    assert (str(raised), raised.message, raised.name) == ("why", "why", error.__name__)
    again = pickle.loads(pickle.dumps(raised))
    assert type(again) is error and again.message == "why"


def test_options_that_differ_survive_a_pickle():
    assert pickle.loads(pickle.dumps(limpet.OptionsDiffer("why", ("memory",)))).options == ("memory",)


@pytest.mark.parametrize("kind", both.KINDS)
def test_what_a_controller_refuses_at_the_handshake_keeps_its_kind(kind, controller):
    """Some of our exceptions are OSErrors, and are not taken for a connection that failed."""
    controller.on("hello", lambda request: request.fail(1004, "Denied", "not you"))
    with both.client(kind, controller.path, reconnect_timeout=0) as client, pytest.raises(limpet.Denied, match="not you"):
        client.open("a")


def test_no_limpetd_to_start_is_said_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for kind in both.KINDS:
        with both.client(kind, tmp_path / "s", autostart=True) as client:
            with pytest.raises(limpet.Unavailable, match="^no controller listens"):
                client.open("a")


def test_closed_sets_are_literals():
    assert set(get_args(limpet.Status)) == {"ok", "error", "timeout", "interrupted", "exited", "crashed", "oom", "failed"}
    assert set(get_args(limpet.State)) == {"kept", "rolled_back", "lost"}
    assert get_type_hints(limpet.Result)["status"] == limpet.Status
    assert get_type_hints(limpet.SessionInfo)["status"] == limpet.SessionStatus


@pytest.fixture(params=both.KINDS)
def client(request, controller):
    with both.client(request.param, controller.path) as client:
        yield client


@pytest.fixture
def file(controller):
    """What a file of the session has."""
    data = bytes(range(256)) * 9000  # 2.2 MiB

    def get(request):
        body = request.body
        assert body["size"] <= CHUNK
        if body["path"] == "none":
            request.fail(1107, "NoSuchFile")
        else:
            request.reply(data=data[body["offset"] : body["offset"] + body["size"]], size=len(data))

    controller.on("get", get)
    return data


def test_get_without_a_place_gives_bytes(client, file, tmp_path):
    session = client.open("a")
    assert session.get("f") == file
    assert session.get("f", tmp_path / "out") is None and (tmp_path / "out").read_bytes() == file
    with pytest.raises(FileNotFoundError):
        session.get("none")


@pytest.mark.parametrize("offset, size", [(0, 10), (5, 0), (CHUNK - 3, 6), (100, 2 * CHUNK), (2_300_000, 100_000), (9_000_000, 5)])
def test_get_gives_parts(client, controller, file, offset, size):
    target = io.BytesIO()
    session = client.open("a")
    assert session.get("f", offset=offset, size=size) == file[offset : offset + size]
    session.get("f", target, offset=offset)
    assert target.getvalue() == file[offset:]


def test_one_call_is_interrupted_by_its_id(client, controller):
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    assert client.interrupt(fake.RUN_ID) is True
    assert controller.bodies("interrupt") == [{"run_id": fake.RUN_ID}]


def test_a_client_tells_how_it_was_made(client, controller):
    assert (client.address, client.autostart, client.reconnect_timeout) == (controller.path, False, 30.0)


@pytest.mark.parametrize("wrong", [{"memroy": "1g"}, {"ttl": 1, "memroy": 2}])
def test_unknown_options_are_named(client, controller, wrong):
    for method in (lambda: client.open("a", **wrong), lambda: client.run("1", **wrong)):
        with pytest.raises(TypeError, match="unknown option memroy|unknown option memroy, ttl"):
            method()
    assert controller.requests == []


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda client, session: client.open("b", pip=5), TypeError, "pip must be"),
        (lambda client, session: client.open("b", packages="numpy"), FileNotFoundError, r"given in a list, as \['numpy'\]"),
        (lambda client, session: session.install("numpy"), FileNotFoundError, r"given in a list, as \['numpy'\]"),
        (lambda client, session: session.run("1", on_stdout=5), TypeError, "on_stdout must be a function, not int"),
        (lambda client, session: client.run("1", on_display="x"), TypeError, "on_display must be a function, not str"),
        (lambda client, session: session.forward(0), ValueError, "from 1 to 65535, not 0"),
        (lambda client, session: session.forward("8000"), ValueError, "from 1 to 65535, not '8000'"),
        (lambda client, session: session.fork(0), ValueError, "one session or more, not 0"),
    ],
)
def test_what_is_given_wrong_is_named(client, controller, call, error, message):
    session = client.open("a")
    before = len(controller.requests)
    with pytest.raises(error, match=message):
        call(client, session)
    assert len(controller.requests) == before


def test_all_but_the_timeout_is_named(client):
    session = client.open("a")
    for method in (session.run, client.run):
        with pytest.raises(TypeError):
            method("1", 2.0, print)


def test_clients_and_sessions_are_pickled_by_reference(controller):
    with limpet.Client(controller.path) as client:
        session = client.open("a", tools={"len": len})
        copy, again = pickle.loads(pickle.dumps((session, client)))
        with again:
            assert copy._client is again and again.address == client.address
            assert session.created and not copy.created  # a block that ends closes what it made
            assert copy.run("1").ok
            assert controller.bodies("run")[-1]["instance"] == session.instance


def test_those_for_asyncio_as_well(controller):
    async def main():
        async with limpet.AsyncClient(controller.path) as client:
            copy, again = pickle.loads(pickle.dumps((await client.open("a"), client)))
            async with again:
                assert copy._client is again and (await copy.run("1")).ok

    asyncio.run(main())


def test_a_remote_client_is_pickled_with_the_names_of_its_keys(tmp_path):
    pair = tmp_path / "limpet.key_secret"
    pair.write_text(f'public-key = "{"p" * 40}"\nsecret-key = "{"s" * 40}"\n')
    client = limpet.Client("tcp://127.0.0.1:1", key=pair, server_key="k" * 40, reconnect_timeout=1)
    assert b"s" * 40 not in pickle.dumps(client)
    for made in (pickle.loads(pickle.dumps(client)), limpet.AsyncClient(**client._arguments())):
        assert made._endpoint.keys == client._endpoint.keys and made.reconnect_timeout == 1
