"""What a client on another machine does: everything as locally, but for what is of the controller's machine."""

import asyncio
import os
import threading

import limpet
import msgpack
import pytest

from .door import PATIENCE

MIB = 1 << 20


def test_variables_live_from_call_to_call(session):
    session.run("a = 20")
    result = session.run("print('text'); a + 1")
    assert (result.status, result.stdout, result.result) == ("ok", "text\n", "21")


def test_much_output_comes_in_pieces_and_in_order(session):
    pieces = []
    result = session.run("for i in range(1_000_000): print(i)", on_stdout=pieces.append)
    assert result.status == "ok"
    assert len(pieces) > 64  # more than the credits that a call begins with
    assert "".join(pieces) == "".join(f"{i}\n" for i in range(1_000_000))


def test_questions_are_answered_also_by_threads(session):
    def double(value):
        return 2 * value

    code = "import limpet_tools\nfrom concurrent.futures import ThreadPoolExecutor as Pool\n"
    result = session.run(code + "print(list(Pool(4).map(limpet_tools.double, range(20))))\ninput('name? ')", tools=[double], on_input=lambda prompt: "me")
    assert result.error is None
    assert result.stdout == f"{[2 * i for i in range(20)]}\n"
    assert result.result == "'me'"


def test_a_call_is_interrupted_from_another_thread(session):
    started = threading.Event()
    stopper = threading.Thread(target=lambda: started.wait(PATIENCE) and session.interrupt())
    stopper.start()
    result = session.run("import time\nprint('now', flush=True)\nwhile True: time.sleep(0.01)", on_stdout=lambda text: started.set())
    stopper.join()
    assert (result.status, result.state) == ("interrupted", "kept")


def test_a_large_file_goes_up_and_comes_back_whole(session, tmp_path):
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(os.urandom(100 * MIB))
    session.put(str(sent), "large")
    session.get("large", str(back))
    assert sent.read_bytes() == back.read_bytes()


def test_requests_as_large_as_they_may_be_go_through(session):
    code = "text = '" + "x" * (4 * MIB - 100) + "'\nlen(text)"
    assert session.run(code).result == str(4 * MIB - 100)


def test_the_asyncio_client_runs_calls_side_by_side(door, name):
    async def main():
        async with door.async_client() as client:
            sessions = [await client.open(f"{name}-{i}") for i in range(3)]
            pieces = []
            results = await asyncio.gather(*(s.run(f"print({i}); {i} * 2", on_stdout=pieces.append) for i, s in enumerate(sessions)))
            for session in sessions:
                await session.close()
            return [r.result for r in results], sorted(pieces)

    assert asyncio.run(main()) == (["0", "2", "4"], ["0\n", "1\n", "2\n"])


def test_a_task_that_is_cancelled_interrupts_its_call(door, name):
    async def main():
        async with door.async_client() as client, await client.open(name) as session:
            running = asyncio.Event()
            call = asyncio.ensure_future(session.run("print(1, flush=True)\nwhile True: pass", on_stdout=lambda text: running.set()))
            await asyncio.wait_for(running.wait(), PATIENCE)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            return (await session.run("'alive'")).result

    assert asyncio.run(main()) == "'alive'"


def test_after_fork_each_process_has_a_connection_of_its_own(client, name):
    with client.open(name) as session:
        session.run("n = 1")
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(writing, (session.run("n + 1").result or "").encode())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        os.close(writing)
        assert os.read(reading, 10) == b"2"
        os.close(reading)
        assert session.run("n + 2").result == "3"


def test_what_is_of_the_controllers_machine_is_refused(client, session, tmp_path):
    with pytest.raises(limpet.Error, match="not for a client on another machine") as refused:
        client.open(data=f"host:{tmp_path}")
    assert refused.value.name == "Denied"
    with pytest.raises(limpet.Error, match="not for a client on another machine"):
        client.shutdown()
    assert session.run("1").result == "1"


def test_an_independent_peer_speaks_the_protocol(door):
    with door.peer() as peer:
        peer.send(msgpack.packb([1, 1, 7, {"protocol": 1, "peer": "test"}]))
        assert peer.poll(PATIENCE * 1000)
        version, kind, number, body = msgpack.unpackb(peer.recv())
    assert (version, kind, number) == (1, 2, 7)
    assert not {"descriptors", "connect"} & set(body["features"])


def test_the_environment_says_where_and_with_what(door, monkeypatch):
    monkeypatch.setenv("LIMPET_SOCKET", door.address)
    monkeypatch.setenv("LIMPET_KEY", door.key.path)
    monkeypatch.setenv("LIMPET_SERVER_KEY", door.server_key)
    with limpet.Client() as client:
        assert client.address == door.address
        assert client.autostart is False
        assert client.run("1 + 1").result == "2"


@pytest.mark.parametrize("missing, said", [("key", "limpet keygen"), ("server_key", "limpetd --check")])
def test_a_key_that_is_missing_is_said(door, missing, said, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    options = {**door.options, missing: None}
    with pytest.raises(limpet.BadRequest, match=said):
        limpet.Client(door.address, **options)
