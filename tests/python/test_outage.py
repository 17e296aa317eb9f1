"""A controller that dies in the middle of a request, and what either client makes of it."""

import asyncio
import socket
import threading

import limpet
import pytest
from limpet._connection import _recovery
from limpet._connection._address import Endpoint, connected
from limpet._connection._recovery import Attempts, ConnectionLost

from tests.support import fake
from tests.support.wire import KINDS, NAMES

from . import both

pytestmark = pytest.mark.wire


@pytest.fixture(params=both.KINDS)
def client(request, controller):
    with both.client(request.param, controller.path, reconnect_timeout=20) as client:
        yield client


@pytest.fixture
def dying(controller):
    """Makes the controller die of the next request of a kind; its successor is configured before."""
    successor = fake.Controller(controller.path)
    threads = []

    def die(kind):
        def replace():
            controller.wait(kind)
            controller.stop()
            successor.start()

        while not controller.seen.empty():
            controller.seen.get()
        controller.on(kind, lambda request: None)
        threads.append(threading.Thread(target=replace))
        threads[-1].start()
        return successor

    yield die
    for thread in threads:
        thread.join(60)
    successor.stop()


ASKED_AGAIN = {
    "open": lambda client, session: client.open("b").name,
    "sessions": lambda client, session: client.sessions(),
    "result": lambda client, session: client.result(fake.RUN_ID).run_id,
    "get": lambda client, session: session.get("f", "/dev/null"),
    "interrupt": lambda client, session: session.interrupt(),
    "close": lambda client, session: session.close(),
    "checkpoints": lambda client, session: session.checkpoints(),
    "namespace": lambda client, session: session.namespace(),
    "sleep": lambda client, session: session.sleep(),
    "run": lambda client, session: session.run("x").result,
}

ONCE = {
    "reset": lambda session: session.reset(),
    "put": lambda session: session.put(b"", "f"),
    "checkpoint": lambda session: session.checkpoint(),
    "rollback": lambda session: session.rollback("c1"),
    "drop": lambda session: session.drop("c1"),
    "branch": lambda session: session.branch("b"),
    "commit": lambda session: session.commit("b"),
    "fork": lambda session: session.fork("b"),
}


def test_every_request_is_one_or_the_other():
    requests = {NAMES[number] for number in range(KINDS["open"], KINDS["fork"] + 1)} - {"shutdown", "context"}
    assert ASKED_AGAIN.keys() | ONCE.keys() == requests
    assert {NAMES[number] for number in _recovery.ONCE} == ONCE.keys() | {"shutdown"}


@pytest.mark.parametrize("kind", ASKED_AGAIN)
def test_what_does_no_harm_is_asked_again(client, controller, dying, kind):
    session = client.open("a")
    successor = dying(kind)
    successor.on("sessions", lambda request: request.reply(controller={}, sessions=[]))
    successor.on("result", lambda request: request.reply(record=fake.record()))
    successor.on("get", lambda request: request.reply(data=b"", size=0))
    ASKED_AGAIN[kind](client, session)
    assert successor.bodies(kind) == [controller.bodies(kind)[-1]]


@pytest.mark.parametrize("kind", ONCE)
def test_what_may_do_harm_is_not_asked_again(client, dying, kind):
    session = client.open("a")
    successor = dying(kind)
    with pytest.raises(limpet.Unavailable, match="was carried out is unknown") as caught:
        ONCE[kind](session)
    assert kind in caught.value.message
    assert successor.bodies(kind) == []


@pytest.mark.parametrize("kind", both.KINDS)
@pytest.mark.parametrize("asked", ["sessions", "result", "checkpoints", "run"])
def test_nobody_comes(controller, kind, asked):
    with both.client(kind, controller.path, reconnect_timeout=0.1) as client:
        session = client.open("a")
        controller.on(asked, lambda request: None)
        stopper = threading.Thread(target=lambda: (controller.wait(asked), controller.stop()))
        stopper.start()
        with pytest.raises(limpet.Unavailable, match="cannot be reached"):
            ASKED_AGAIN[asked](client, session)
        stopper.join(60)


@pytest.mark.parametrize(
    "number, name, error",
    [(1101, "NoSuchSession", limpet.NoSuchSession), (1102, "SessionClosed", limpet.SessionClosed)],
)
def test_a_session_that_ended_meanwhile_is_told_and_nothing_runs(client, dying, number, name, error):
    session = client.open("a")
    successor = dying("run")
    successor.on("run", lambda request: request.fail(number, name, "its container is gone"))
    with pytest.raises(error, match="its container is gone"):
        session.run("x")
    assert len(successor.bodies("run")) == 1 and successor.bodies("open") == []
    assert successor.bodies("run")[0]["instance"] == session.instance


def test_a_controller_that_is_not_ready_yet_is_asked_again(client, dying):
    session, answers = client.open("a"), []
    successor = dying("run")

    def run(request):
        answers.append(request)
        if len(answers) < 3:
            request.fail(1203, "Unavailable", "not ready")
        else:
            request.record(result="42")

    successor.on("run", run)
    assert session.run("x").result == "42"


def test_a_connection_that_ended_long_ago_is_made_again(client, controller):
    """Nothing was sent, so that every request may be sent again."""
    session, successor = client.open("a"), fake.Controller(controller.path)
    controller.stop()
    successor.start()
    try:
        assert session.checkpoint().id == "c1"
        assert len(successor.bodies("checkpoint")) == 1
    finally:
        successor.stop()


def test_the_first_call_after_it_streams(client, controller):
    session, successor = client.open("a"), fake.Controller(controller.path)
    controller.stop()
    successor.start()
    try:
        session.run("x", on_stdout=print)
        assert successor.bodies("run")[0]["stream"] is True
    finally:
        successor.stop()


def test_shutdown_waits_for_nobody(client, controller):
    session = client.open("a")
    controller.on("shutdown", lambda request: controller.do(controller.vanish))
    stopper = threading.Thread(target=lambda: (controller.wait("shutdown"), controller.stop()))
    stopper.start()
    with pytest.raises(limpet.Unavailable, match="whether the shutdown was carried out is unknown"):
        client.shutdown()
    stopper.join(60)
    with pytest.raises(limpet.Unavailable, match="cannot be reached"):
        session.checkpoints()


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(_recovery, "time", clock)
    return clock


def attempts(once=None, patience=30):
    return Attempts(Endpoint("/x", False), once, patience)


LOST = ConnectionLost("why", sent=True)


def test_pauses_grow_until_the_patience_ends(clock):
    search, pauses = attempts(), []
    pauses.append(search.pause(LOST))
    with pytest.raises(limpet.Unavailable, match="refused"):
        while True:
            clock.now += pauses[-1]
            pauses.append(search.pause(limpet.Unavailable("refused")))
    assert pauses[:7] == [0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0] and pauses[-1] == 1.0
    assert 129 <= clock.now < 130


@pytest.mark.parametrize("patience", [0, 30])
def test_a_later_outage_has_its_own_patience(clock, patience):
    search = attempts(patience=patience)
    for _ in range(3):
        search.asks()
        clock.now += 2
        assert search.pause(LOST) == 0


@pytest.mark.parametrize("patience", [0, 0.1, 30])
def test_controllers_that_die_of_the_request_at_once_are_not_asked_for_ever(clock, patience):
    search, times = attempts(patience=patience), 0
    with pytest.raises(limpet.Unavailable):
        while True:
            clock.now += 5  # to start one
            search.asks()
            times += 1
            clock.now += 0.5 + search.pause(LOST)
    assert 2 <= times < 40


def test_connecting_takes_no_longer_than_the_patience(clock):
    search = attempts()
    assert search.limit(60) == 60
    search.pause(LOST)
    clock.now += 20
    assert (search.limit(60), search.limit(5)) == (10, 5)
    clock.now += 10
    assert search.limit(60) == _recovery.LONGEST_PAUSE


def test_without_patience_there_is_one_more_attempt(clock):
    search = attempts(patience=0)
    assert search.pause(LOST) == 0 and search.limit(10) > 0
    with pytest.raises(limpet.Unavailable):
        search.pause(limpet.Unavailable("refused"))


def test_what_was_not_sent_is_sent_again(clock):
    assert attempts("commit").pause(ConnectionLost("why", sent=False)) == 0


@pytest.fixture
def full(tmp_path):
    """Somebody who listens, takes no connections, and has no room for more in the backlog."""
    path, waiting = str(tmp_path / "full.sock"), []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        while True:
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)
            try:
                waiting[-1].connect(path)
            except BlockingIOError:
                break
        yield listener
        for one in waiting:
            one.close()


@pytest.mark.parametrize("kind", both.KINDS)
def test_a_full_backlog_is_not_waited_for_for_ever(full, monkeypatch, kind):
    monkeypatch.setattr(_recovery, "HANDSHAKE_TIMEOUT", 0.05)
    with both.client(kind, full.getsockname()) as client:
        with pytest.raises(limpet.Unavailable, match="takes no connections"):
            client.sessions()


def test_room_in_the_backlog_is_waited_for(full):
    with socket.socket(socket.AF_UNIX) as unconnected:
        unconnected.setblocking(False)
        assert not connected(unconnected, full.getsockname(), float("inf"))
        full.accept()[0].close()
        assert connected(unconnected, full.getsockname(), float("inf"))


def test_tasks_connect_together(full, monkeypatch):
    """Each in its turn would take as many times as long."""
    monkeypatch.setattr(_recovery, "HANDSHAKE_TIMEOUT", 0.05)
    connects = []

    async def main():
        async with limpet.AsyncClient(full.getsockname()) as client:
            dial = client._dial
            client._dial = lambda start: (connects.append(start), dial(start))[1]
            return await asyncio.gather(*(client.sessions() for _ in range(20)), return_exceptions=True)

    assert {type(error) for error in asyncio.run(main())} == {limpet.Unavailable}
    assert len(connects) == 1


def test_a_cancelled_task_leaves_the_others_connecting(controller):
    async def main():
        async with limpet.AsyncClient(controller.path) as client:
            first, second = (asyncio.ensure_future(client.open(name)) for name in "ab")
            await asyncio.sleep(0)
            first.cancel()
            assert (await second).name == "b"

    asyncio.run(main())
    assert len(controller.bodies("hello")) == 1


def test_close_ends_connecting(full):
    async def main():
        client = limpet.AsyncClient(full.getsockname())
        task = asyncio.ensure_future(client.sessions())
        while client._connecting is None:
            await asyncio.sleep(0)
        await client.close()
        with pytest.raises(limpet.SessionClosed):
            await task

    asyncio.run(main())
