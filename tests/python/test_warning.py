"""What the controller wants a person to know is said of the line that they wrote."""

import asyncio
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


def test_of_the_asyncio_client(controller):
    async def main():
        async with limpet.AsyncClient(controller.path) as client:
            await client.open("a")
            await asyncio.gather(client.run("1"), client.run("2"))

    assert said(lambda: asyncio.run(main())) == ONCE
