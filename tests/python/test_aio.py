"""The asyncio client: what it shares with the blocking one is tested there; here is what await changes."""

import asyncio
import contextlib
import gc
import inspect
import io
import os
import threading

import limpet
import pytest
from limpet._connection import _passing
from limpet._connection._recovery import ConnectionLost

from tests.support import fake

pytestmark = pytest.mark.wire


@pytest.fixture
def arun(controller):
    """Runs a coroutine function with a client and a session."""

    def run(function):
        async def main():
            async with limpet.AsyncClient(controller.path, reconnect_timeout=60) as client:
                return await asyncio.wait_for(function(client, await client.open("a")), 30)

        return asyncio.run(main())

    return run


def public(cls):
    return {name: value for name, value in vars(cls).items() if not name.startswith("_") and callable(value)}


@pytest.mark.parametrize(
    "blocking, mirror", [(limpet.Client, limpet.AsyncClient), (limpet.Session, limpet.AsyncSession)]
)
def test_the_same_methods_with_the_same_arguments(blocking, mirror):
    assert public(blocking).keys() == public(mirror).keys()
    for name, method in public(blocking).items():
        other = public(mirror)[name]
        assert inspect.iscoroutinefunction(inspect.unwrap(other))
        assert str(inspect.signature(other)).replace("Async", "") == str(inspect.signature(method))
    constructor, other = inspect.signature(blocking).parameters, inspect.signature(mirror).parameters
    assert list(constructor) == list(other)


def test_every_request(controller, arun):
    files = {}
    controller.on("put", lambda r: (files.update({r.body["path"]: r.body["data"]}), r.reply(size=1)))
    controller.on("get", lambda r: r.reply(data=files[r.body["path"]], size=len(files[r.body["path"]])))
    controller.on("sessions", lambda request: request.reply(controller={}, sessions=[]))
    controller.on("result", lambda request: request.reply(record=None))

    async def main(client, session):
        result = await session.run("1 + 1", timeout=3)
        assert result.ok and result.session == "a"
        assert (await client.run("2", memory="1g")).session is None
        assert await session.interrupt() is False
        assert await session.reset() is None
        await session.put(b"data", "f")
        target = io.BytesIO()
        await session.get("f", target)
        assert target.getvalue() == b"data"
        assert await client.sessions() == []
        assert await client.result(fake.RUN_ID, timeout=0) is None
        async with session:
            pass
        with pytest.raises(limpet.SessionClosed):
            await session.run("1")
        await client.shutdown()

    arun(main)
    assert [request.kind for request in controller.requests] == [
        "hello", "open", "run", "run", "interrupt", "reset", "put", "get",
        "sessions", "result", "close", "shutdown",
    ]  # fmt: skip


def test_tasks_share_a_connection(controller, arun):
    async def main(client, session):
        results = await asyncio.gather(*(session.run(str(i)) for i in range(100)))
        assert [result.result for result in results] == [str(i) for i in range(100)]

    arun(main)
    assert len({request.peer for request in controller.requests}) == 1


def test_many_tasks_connect_once(controller):
    async def main():
        async with limpet.AsyncClient(controller.path) as client:
            await asyncio.gather(*(client.open(str(i)) for i in range(20)))

    asyncio.run(main())
    assert len(controller.bodies("hello")) == 1


def test_answers_come_in_any_order(controller, arun):
    held = []

    def run(request):
        held.append(request)
        if len(held) == 2:
            held[1].record(result="second")
            held[0].record(result="first")

    controller.on("run", run)

    async def main(client, session):
        results = await asyncio.gather(session.run("1"), session.run("2"))
        assert [result.result for result in results] == ["first", "second"]

    arun(main)


def test_callbacks_may_be_functions_or_coroutines(controller, arun):
    def run(request):
        for _ in range(40):
            request.send("output", {"stream": 1, "data": b"x"})
        request.send("output", {"stream": 2, "data": b"\xc3"})
        request.record()

    controller.on("run", run)

    async def main(client, session):
        stdout, stderr = [], []

        async def on_stdout(text):
            await asyncio.sleep(0)
            stdout.append(text)

        await session.run("1", on_stdout=on_stdout, on_stderr=stderr.append)
        assert "".join(stdout) == "x" * 40 and stderr == ["�"]
        await session.interrupt()

    arun(main)
    assert controller.bodies("credit") == [{"count": 16}] * 2


def test_a_cancelled_task_interrupts_its_call(controller, arun, monkeypatch):
    monkeypatch.setattr("limpet._connection._recovery.ABANDON_TIMEOUT", 60)
    held = []
    controller.on("run", held.append)
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    controller.on("result", lambda request: request.reply(record=fake.record(status="interrupted")))

    async def main(client, session):
        task = asyncio.ensure_future(session.run("loop"))
        await asyncio.to_thread(controller.wait, "run")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        run_id = held[0].body["run_id"]
        assert controller.bodies("interrupt") == controller.bodies("result") == [{"run_id": run_id}]
        controller.on("run", lambda request: request.record())
        assert (await session.run("next")).ok

    arun(main)


def test_a_second_cancellation_waits_no_longer(controller, arun, monkeypatch):
    monkeypatch.setattr("limpet._connection._recovery.ABANDON_TIMEOUT", 60)
    controller.on("run", lambda request: None)
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    controller.on("result", lambda request: None)

    async def main(client, session):
        task = asyncio.ensure_future(session.run("loop"))
        await asyncio.to_thread(controller.wait, "run")
        task.cancel()
        await asyncio.to_thread(controller.wait, "result")
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    arun(main)


def test_wait_for_interrupts_the_call(controller, arun):
    controller.on("run", lambda request: None)
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    controller.on("result", lambda request: request.reply(record=fake.record(status="interrupted")))

    async def main(client, session):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(session.run("loop"), 0.05)

    arun(main)
    assert len(controller.bodies("interrupt")) == 1


def test_a_callback_that_raises_interrupts_the_call_and_nothing_else(controller, arun):
    """Other tasks keep the connection, so what the abandoned call still sends is credited."""

    def run(request):
        request.send("output", {"stream": 1, "data": b"x"})
        runs.append(request)

    def interrupt(request):
        runs[0].send("output", {"stream": 1, "data": b"late"})
        runs[0].record(status="interrupted")
        request.reply(interrupted=True)

    runs = []
    controller.on("run", run)
    controller.on("interrupt", interrupt)
    controller.on("result", lambda request: request.reply(record=fake.record(status="interrupted")))

    async def main(client, session):
        def on_stdout(text):
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine") as caught:
            await session.run("1", on_stdout=on_stdout)
        assert caught.value.limpet_result.status == "interrupted"

    arun(main)
    credit = next(request for request in controller.requests if request.kind == "credit")
    assert (credit.id, credit.body) == (runs[0].id, {"count": 1})
    assert len({request.peer for request in controller.requests}) == 1


def test_a_call_is_asked_again_at_the_next_controller(controller, arun):
    successor = fake.Controller(controller.path)
    controller.on("run", lambda request: request.send("output", {"stream": 1, "data": b"one\n"}))
    successor.on("run", lambda request: request.record(stdout="one\ntwo\n"))

    async def main(client, session):
        stdout, streamed = [], asyncio.Event()

        def on_stdout(text):
            stdout.append(text)
            streamed.set()

        task = asyncio.ensure_future(session.run("x", on_stdout=on_stdout))
        await streamed.wait()
        await asyncio.to_thread(controller.stop)
        successor.start()
        assert (await task).stdout == "one\ntwo\n"
        assert stdout == ["one\n", "two\n"]

    try:
        arun(main)
        assert len(successor.bodies("run")) == 1
    finally:
        successor.stop()


def test_close_wakes_who_waits(controller):
    controller.on("run", lambda request: None)

    async def main():
        client = limpet.AsyncClient(controller.path)
        session = await client.open("a")
        task = asyncio.ensure_future(session.run("loop"))
        await asyncio.to_thread(controller.wait, "run")
        await client.close()
        with pytest.raises(limpet.SessionClosed):
            await task
        with pytest.raises(limpet.SessionClosed):
            await client.sessions()

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_one_client_on_two_loops(controller):
    client = limpet.AsyncClient(controller.path)
    assert asyncio.run(client.run("1")).ok
    assert asyncio.run(client.run("2")).ok
    gc.collect()


@pytest.mark.parametrize("frame", [b"\xc1garbage", b"\x94\x01\x28\x03\x80"])
def test_garbage_is_a_mismatch_and_the_next_call_works(controller, arun, frame):
    controller.on("run", lambda request: request.raw(frame))

    async def main(client, session):
        with pytest.raises(limpet.ProtocolMismatch):
            await session.run("1")
        controller.on("run", lambda request: request.record())
        assert (await session.run("2")).ok

    arun(main)


def test_something_else_listens(tmp_path):
    path = str(tmp_path / "web.sock")

    async def answer(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    async def main():
        server = await asyncio.start_unix_server(answer, path)
        async with limpet.AsyncClient(path) as client:
            with pytest.raises(limpet.ProtocolMismatch, match="not a ZMTP peer"):
                await client.open("a")
        server.close()

    asyncio.run(main())


def test_nothing_is_answered(tmp_path, monkeypatch):
    monkeypatch.setattr("limpet._connection._recovery.HANDSHAKE_TIMEOUT", 0.05)
    path = str(tmp_path / "silent.sock")

    async def answer(reader, writer):
        await reader.read()
        writer.close()

    async def main():
        server = await asyncio.start_unix_server(answer, path)
        async with limpet.AsyncClient(path) as client:
            with pytest.raises(limpet.Unavailable, match="does not answer"):
                await client.open("a")
        server.close()

    asyncio.run(main())


def test_the_warning_comes_once(controller):
    controller.warning = "careful"

    async def main():
        async with limpet.AsyncClient(controller.path) as client:
            with pytest.warns(limpet.LimpetWarning, match="careful"):
                await client.run("1")

    asyncio.run(main())


def test_what_cannot_be_sent(controller, arun):
    async def main(client, session):
        with pytest.raises(limpet.BadRequest):
            await session.run("\udcff")
        assert (await session.run("1")).ok

    arun(main)
    assert len(controller.bodies("hello")) == 1


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_loops_that_take_turns_leave_no_connections(controller):
    client = limpet.AsyncClient(controller.path)
    loops = [asyncio.new_event_loop() for _ in range(2)]
    counted = []
    for _ in range(20):
        for loop in loops:
            assert loop.run_until_complete(client.run("1")).ok
        counted.append(descriptors())
    assert counted[-1] - counted[0] < 5
    for loop in loops:
        loop.close()


def test_a_client_has_one_loop_at_a_time(controller):
    client = limpet.AsyncClient(controller.path)

    async def other():
        with pytest.raises(RuntimeError, match="another event loop"):
            await client.run("2")

    async def main():
        assert (await client.run("1")).ok
        await asyncio.to_thread(asyncio.run, other())
        assert (await client.run("3")).ok
        await client.close()

    asyncio.run(main())


def test_a_controller_is_started_beside_a_call_that_starts_none(tmp_path, monkeypatch):
    """Both connect at once, and wait for the same attempt."""
    controller = fake.Controller(tmp_path / "s")
    monkeypatch.setattr(limpet._connection._address.Endpoint, "start", lambda endpoint, limit: controller.start())

    async def main():
        async with limpet.AsyncClient(controller.path, autostart=True) as client:
            interrupted = asyncio.ensure_future(client.interrupt("1" * 32))
            await asyncio.sleep(0)
            assert (await client.open("a")).name == "a"
            with contextlib.suppress(limpet.Error):
                await interrupted

    try:
        asyncio.run(main())
    finally:
        controller.stop()


def test_a_controller_that_stands_still_keeps_no_thread(controller):
    """Of a transfer whose task was cancelled."""
    passing = _passing.Passing(controller.path)

    def wait():
        with contextlib.suppress(OSError, ConnectionLost):
            passing._fill()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    passing.close()
    waiting.join(10)
    assert not waiting.is_alive()
