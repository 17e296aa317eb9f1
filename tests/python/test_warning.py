"""What the controller wants a person to know is said of the line that they wrote."""

import asyncio
import pickle
import sys
import warnings

import limpet
import pytest

from tests.support import fake


@pytest.fixture
def controller(tmp_path):
    controller = fake.Controller(tmp_path / "limpet.sock")
    controller.warning = "it does not isolate"
    controller.start()
    yield controller
    controller.stop()


def said(make):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        make()
    ours = [one for one in seen if one.category is limpet.LimpetWarning]
    return [(str(one.message), one.filename) for one in ours]


ONCE = [("it does not isolate", __file__)]


@pytest.mark.parametrize(
    "use",
    [
        lambda client: client.open("a"),
        lambda client: client.run("1"),
        lambda client: client.sessions(),
        lambda client: client.open("a").run("1"),
    ],
)
def test_of_the_blocking_client(controller, use):
    controller.on("sessions", lambda request: request.reply(controller={}, sessions=[]))

    def make():
        with limpet.Client(controller.path) as client:
            use(client)
            use(client)

    assert said(make) == ONCE


@pytest.mark.parametrize("person", (True, False))
def test_a_failure_that_nobody_looked_at(controller, monkeypatch, person):
    """Once, of the line that has dropped it, and never in a script."""
    controller.warning = None
    error = {"name": "ValueError", "message": "bad", "traceback": "Traceback\nValueError: bad\n"}
    controller.on("run", lambda request: request.record(status="error", error=error))
    if person:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    else:
        monkeypatch.delattr(sys, "ps1", raising=False)

    def drop(client, look=lambda result: None):
        session = client.open("a")
        for run in client.run, session.run:
            result = run("1 / 0")
            look(result)
            assert isinstance(result, limpet.Result)
            del result

    with limpet.Client(controller.path) as client:
        message = "a call failed, and nobody looked at its result: ValueError: bad. check=True raises"
        assert said(lambda: drop(client)) == [(message, __file__)] * 2 * person
        for look in repr, hash, pickle.dumps, lambda result: result.ok, lambda result: result == result:
            assert said(lambda: drop(client, look)) == []


def test_of_the_asyncio_client(controller):
    async def main():
        async with limpet.AsyncClient(controller.path) as client:
            await client.open("a")
            await asyncio.gather(client.run("1"), client.run("2"))

    assert said(lambda: asyncio.run(main())) == ONCE
