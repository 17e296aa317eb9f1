"""The blocking client against a controller made of libzmq."""

import os
import socket
import threading
import warnings

import limpet
import pytest

from tests.support import fake

pytestmark = pytest.mark.wire

# The fake controller is a thread; the child does not use it.
FORKS = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def test_first_message_is_hello(client, controller):
    client.open("a")
    assert controller.requests[0].kind == "hello"
    assert controller.requests[0].body == {"protocol": 1, "peer": f"limpet-python/{limpet.__version__}"}


def test_open_sends_only_what_was_given(client, controller, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    client.open("a")
    session = client.open(
        "b",
        timeout=5,
        memory="512m",
        cpus=0.5,
        pids=64,
        disk="2g",
        files=5000,
        data="d",
        env={"A": "b"},
        ttl=0,
        network="none",
        image="i",
        checkpoint="always",
    )
    options = {
        "timeout": 5, "memory": "512m", "cpus": 0.5, "pids": 64, "disk": "2g", "files": 5000, "data": str(tmp_path / "d"),
        "env": {"A": "b"}, "ttl": 0, "network": "none", "image": "i", "checkpoint": "always",
    }  # fmt: skip
    assert controller.bodies("open") == [{"session": "a"}, {"session": "b", **options}]
    assert (session.name, session.engine, session.options) == ("b", "local", options)
    with pytest.raises(TypeError):
        client.open("c", memroy="1g")


def test_run_sends_the_call_and_returns_its_record(session, controller):
    result = session.run("x + 1", timeout=2.5)
    body = controller.bodies("run")[0]
    run_id = body.pop("run_id")
    assert body == {"session": "a", "instance": "i1", "code": "x + 1", "timeout": 2.5}
    assert len(run_id) == 32 and set(run_id) <= set("0123456789abcdef")
    assert (result.run_id, result.result, result.ok) == (run_id, "x + 1", True)
    session.run("y", on_error="rollback")
    session.run("z", run_id=fake.RUN_ID)
    second, third = controller.bodies("run")[1:]
    assert second["run_id"] != run_id and third["run_id"] == fake.RUN_ID
    assert second["on_error"] == "rollback" and "on_error" not in third


def test_ephemeral_run(client, controller):
    assert client.run("1", timeout=3, memory="1g", env={}).session is None
    assert client.run("1").ok
    first, second = controller.bodies("run")
    assert (
        first["options"] == {"memory": "1g", "env": {}} and first["timeout"] == 3 and "session" not in first
    )
    assert second.keys() == {"code", "run_id"}


def test_interrupt_reset_close(session, controller):
    assert session.interrupt() is False
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    assert session.interrupt() is True
    assert session.reset() is None
    session.close()
    session.close()
    target = {"session": "a", "instance": "i1"}
    assert [r.body for r in controller.requests if r.kind in ("interrupt", "reset", "close")] == [
        target
    ] * 4
    for method in (lambda: session.run("1"), session.interrupt, session.reset, lambda: session.put(b"", "x")):
        with pytest.raises(limpet.SessionClosed):
            method()


def test_with_closes_the_session(client, controller):
    with client.open("a") as session:
        assert session.run("1").ok
    assert len(controller.bodies("close")) == 1


def test_closing_what_is_gone_is_fine(session, controller):
    controller.on("close", lambda request: request.fail(1101, "NoSuchSession"))
    session.close()


def test_leaving_with_an_error_keeps_that_error(client, controller):
    controller.on("close", lambda request: request.fail(1202, "EngineError"))
    with pytest.raises(ZeroDivisionError):
        with client.open("a"):
            1 / 0
    with pytest.raises(limpet.EngineError):
        with client.open("a"):
            pass


def test_sessions_are_objects(client, controller):
    row = {
        "session": "a", "engine": "oci", "container": "c", "status": "idle", "created": 1.5, "idle": 2.0,
        "execution_count": 3, "epoch": 1, "memory": 4,
    }  # fmt: skip
    controller.on("sessions", lambda request: request.reply(controller={}, sessions=[row]))
    assert client.sessions() == [limpet.SessionInfo(**row)]
    controller.on("sessions", lambda request: request.reply(controller={}, sessions=[{"x": 1}]))
    with pytest.raises(limpet.ProtocolMismatch):
        client.sessions()


def test_result_of_an_earlier_call(client, controller):
    controller.on(
        "result", lambda request: request.reply(run_id=fake.RUN_ID, record=fake.record(result="7"))
    )
    assert client.result(fake.RUN_ID).result == "7"
    controller.on("result", lambda request: request.reply(run_id=fake.RUN_ID, record=None))
    assert client.result(fake.RUN_ID, timeout=0) is None
    assert controller.bodies("result") == [{"run_id": fake.RUN_ID}, {"run_id": fake.RUN_ID, "timeout": 0}]
    controller.on("result", lambda request: request.fail(1105, "NoSuchRun"))
    with pytest.raises(limpet.NoSuchRun):
        client.result(fake.RUN_ID)


def test_a_failure_of_the_sandbox_is_an_exception(client, controller):
    controller.on("open", lambda r: r.fail(1103, "OptionsDiffer", "memory differs", options=["memory"]))
    with pytest.raises(limpet.OptionsDiffer, match="memory differs") as caught:
        client.open("a")
    assert caught.value.options == ("memory",) and caught.value.number == 1103


def test_what_cannot_be_sent_leaves_the_connection_usable(session, controller):
    with pytest.raises(limpet.BadRequest):
        session.run("\udcff")
    with pytest.raises(limpet.TooLarge):
        session.run("x" * (9 << 20))
    assert session.run("1").ok
    assert len(controller.bodies("hello")) == 1


def test_large_replies(session, controller):
    controller.on("run", lambda request: request.record(stdout="ä" * (1 << 20)))
    assert session.run("1").stdout == "ä" * (1 << 20)


def test_the_warning_comes_once(controller):
    controller.warning = "the local engine does not isolate"
    with limpet.Client(controller.path) as client:
        with pytest.warns(limpet.LimpetWarning, match="does not isolate"):
            client.open("a")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            thread = threading.Thread(target=lambda: client.open("b"))
            thread.start()
            thread.join(60)
    assert len(controller.bodies("hello")) == 2


def test_another_protocol_version(controller):
    controller.on("hello", lambda request: request.reply(protocol=2, peer="later"))
    with limpet.Client(controller.path) as client, pytest.raises(limpet.ProtocolMismatch, match="version 2"):
        client.open("a")
    controller.on("hello", lambda request: request.fail(1004, "Denied", "not you"))
    with limpet.Client(controller.path) as client, pytest.raises(limpet.Denied, match="not you"):
        client.open("a")


def test_a_thread_has_its_own_connection(session, controller):
    """A call on one thread does not hold up one on another, and interrupt() comes through."""
    held = []
    controller.on("run", held.append)
    controller.on("interrupt", lambda r: (held[0].record(status="interrupted"), r.reply(interrupted=True)))
    results = []
    thread = threading.Thread(target=lambda: results.append(session.run("loop")))
    thread.start()
    controller.wait("run")
    assert session.interrupt() is True
    thread.join(60)
    assert results[0].status == "interrupted"
    assert len({request.peer for request in controller.requests}) == 2


def test_many_threads(session):
    def work(number):
        results[number] = [session.run(f"{number} {i}").result for i in range(50)]

    results = {}
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == {number: [f"{number} {i}" for i in range(50)] for number in range(8)}


def test_connections_are_closed_with_their_thread_and_their_client(controller):
    client = limpet.Client(controller.path)
    session = client.open("a")
    thread = threading.Thread(target=lambda: session.run("1"))
    thread.start()
    thread.join(60)
    assert len(client._connections) == 1, "the thread's connection went with it"

    used, leave = threading.Event(), threading.Event()

    def stay():
        session.run("1")
        used.set()
        leave.wait(60)

    thread = threading.Thread(target=stay)
    thread.start()
    assert used.wait(60)
    connections = list(client._connections)
    assert len(connections) == 2
    client.close()
    assert all(connection.closed for connection in connections)
    leave.set()
    thread.join(60)


def test_close_wakes_who_waits(session, client, controller):
    controller.on("run", lambda request: None)
    caught = []

    def wait():
        try:
            session.run("loop")
        except limpet.SessionClosed as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    controller.wait("run")
    client.close()
    thread.join(60)
    assert caught and "client was closed" in caught[0].message
    with pytest.raises(limpet.SessionClosed, match="client is closed"):
        session.run("1")


@FORKS
def test_fork(session, controller):
    """A child makes its own connection and leaves the parent's alone, also when it closes the client."""
    assert session.run("parent").ok
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            session._client.close() if session.run("child").result == "child" else None
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert session.run("parent again").result == "parent again"
    peers = {
        request.body["code"]: request.peer for request in controller.requests if request.kind == "run"
    }
    assert peers["parent"] == peers["parent again"] != peers["child"]


@FORKS
def test_a_child_that_closes_first_leaves_the_parent_connected(session):
    pid = os.fork()
    if pid == 0:
        session._client.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert session.run("1").ok


def raw_server(path, data):
    """Something that listens and sends these bytes to whoever comes, after reading a little."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve():
        with listener:
            connection = listener.accept()[0]
            with connection:
                connection.recv(1000)
                connection.sendall(data)
                connection.recv(1000)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_something_else_listens(tmp_path):
    path = str(tmp_path / "web.sock")
    thread = raw_server(path, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with limpet.Client(path) as client, pytest.raises(limpet.ProtocolMismatch, match="not a ZMTP peer"):
        client.open("a")
    thread.join(60)


def test_nothing_is_answered(tmp_path, monkeypatch):
    monkeypatch.setattr("limpet._connection._recovery.HANDSHAKE_TIMEOUT", 0.05)
    path = str(tmp_path / "silent.sock")
    thread = raw_server(path, b"")
    with limpet.Client(path) as client, pytest.raises(limpet.Unavailable, match="timed out"):
        client.open("a")
    thread.join(60)


@pytest.mark.parametrize(
    "frames",
    [
        [b"\xc1garbage"],
        [b"\x93\x01\x02\x03"],
        [b"two", b"frames"],
        [b"\x94\x01\x28\x03\x80"],  # output, to a request that streams nothing
        [b"\x94\x01\x02\x03\x80"],  # a reply without a record
    ],
)
def test_garbage_is_a_mismatch_and_the_next_call_works(session, controller, frames):
    assert session.run("1").ok  # hello 1, open 2, run 3; the garbage answers 4
    frames = [frame.replace(b"\x03\x80", b"\x04\x80") for frame in frames]
    controller.on("run", lambda request: request.raw(*frames))
    with pytest.raises(limpet.ProtocolMismatch):
        session.run("2")
    controller.on("run", lambda request: request.record())
    assert session.run("3").ok


def test_a_path_that_is_too_long_is_unavailable():
    with limpet.Client("/tmp/" + "x" * 200) as client, pytest.raises(limpet.Unavailable, match="too long"):
        client.open("a")
