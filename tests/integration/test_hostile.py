"""What comes from where it should not: false guests, containers that vanish, disks that are full, clients that stop
reading. The session's answer says so, and everybody else's goes on."""

import os
import secrets
import signal

import limpet
import msgpack
import pytest
import zmq

from .killed import is_supervisor, small_state

pytestmark = pytest.mark.engine

OUTPUT, EXECUTED, GUEST_HELLO = 40, 63, 60


def dealer(path):
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.linger = 0
    socket.connect(f"ipc://{path}")
    return socket


def guest_directories(limpetd):
    root = os.path.join(limpetd.directory, "run")
    return [os.path.join(at, name) for at, names, _ in os.walk(root) for name in names if at.endswith("guests")]


def hello(session, secret):
    body = {"protocol": 1, "session": session, "secret": secret, "peer": "x", "epoch": 9, "execution_count": 9}
    return msgpack.packb([1, GUEST_HELLO, 0, body])


def test_a_false_guest_is_not_heard(limpetd, client, name):
    with client.open(name) as session:
        session.run("x = 1")
        for directory in guest_directories(limpetd):
            guest = dealer(os.path.join(directory, "sock"))
            guest.send(b"\xc1\xc1")
            guest.send(hello(name, bytes(32)))
            guest.send(hello(name, b"short"))
            guest.send(msgpack.packb([1, EXECUTED, 1, {"status": "ok"}]))
            guest.send_multipart([b"a", b"b"])
            guest.close()
        result = session.run("x")
        assert (result.result, result.execution_count, result.epoch) == ("1", 2, 1)


@pytest.mark.docker
def test_even_the_secret_does_not_make_another_process_the_guest(limpetd, client, name):
    """A process that learned the secret is still not the one that the engine started."""
    with client.open(name) as session:
        session.run("x = 1")
        for directory in guest_directories(limpetd):
            with open(os.path.join(directory, "session"), encoding="utf-8") as file:
                if file.read() != name:
                    continue
            with open(os.path.join(directory, "secret"), "rb") as file:
                secret = file.read()
            guest = dealer(os.path.join(directory, "sock"))
            guest.send(hello(name, secret))
            result = session.run("x")
            assert (result.result, result.epoch) == ("1", 1)
            assert guest.poll(0) == 0
            guest.close()


def container_processes(limpetd, name):
    """The pids of the supervisors that have the session's directory at /session."""
    files = os.path.join(limpetd.directory, "state", "sessions", name, "files")
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_supervisor(pid, files)]


@pytest.mark.docker
def test_a_container_that_vanishes(limpetd, client, name):
    if not limpetd.isolates:
        pytest.skip("there is no container")
    session = client.open(name)
    session.run("x = 1")
    pids = container_processes(limpetd, name)
    assert len(pids) == 1
    code = "print('begun', flush=True); import time; time.sleep(600)"
    result = session.run(code, timeout=600, on_stdout=lambda text: os.kill(pids[0], signal.SIGKILL))
    assert (result.status, result.state, result.error.name) == ("failed", "lost", "SandboxLost")
    with pytest.raises(limpet.NoSuchSession):
        session.run("x")
    with client.open(name) as again:
        assert again.run("'x' in globals()").result == "False"


@pytest.mark.proves("security: too much output")
def test_a_stream_that_nobody_reads(limpetd, client, name):
    """The client never returns credit: its own call waits, another session does not, and when the client is gone the call
    goes on to its end."""
    code = "import sys\nfor _ in range(64): sys.stdout.write('x' * (1 << 20))\nx = 5"
    with client.open(name) as session, client.open(name + "-other") as other:
        run_id = secrets.token_hex(16)
        deaf = dealer(limpetd.socket)
        body = {"session": name, "code": code, "run_id": run_id, "timeout": 60, "stream": True}
        deaf.send(msgpack.packb([1, 11, 1, body]))
        for _ in range(56):
            assert deaf.poll(30000)
            assert msgpack.unpackb(deaf.recv())[1] == OUTPUT
        assert client.result(run_id, timeout=0.5) is None
        assert other.run("1 + 1").result == "2"
        deaf.close()
        result = client.result(run_id, timeout=30)
        assert result.ok and result.stdout_bytes == 64 << 20
        assert session.run("x").result == "5"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a small filesystem, which root can mount")
def test_a_full_disk(own_limpetd):
    with small_state(own_limpetd), own_limpetd.client() as client, client.open("full", disk="20m") as session:
        wrote = session.run("import os\nwith open('artifacts/big', 'wb') as f: f.write(bytes(16 << 20)), f.flush(), os.fsync(f.fileno())\nopen('artifacts/a', 'w').write('a')")
        assert wrote.ok
        assert [os.path.basename(path) for path in wrote.skipped] == ["big"]
        assert [os.path.basename(path) for path in wrote.artifacts] == ["a"]
        more = session.run("open('more', 'wb').write(bytes(16 << 20))")
        assert (more.status, more.state) == ("error", "kept")
        assert more.error.name == "OSError"
        freed = session.run("import os; os.remove('artifacts/big'); os.remove('more'); open('artifacts/b', 'w').write('b')")
        assert [os.path.basename(path) for path in freed.artifacts] == ["b"]


@pytest.mark.docker
def test_a_stopped_guest_is_given_up(limpetd, client, name):
    """The supervisor itself does not answer: the call ends all the same, and says so."""
    if not limpetd.isolates:
        pytest.skip("there is no container")
    session = client.open(name)
    session.run("x = 1")
    pids = container_processes(limpetd, name)
    os.kill(pids[0], signal.SIGSTOP)
    result = session.run("x", timeout=1)
    assert (result.status, result.state) == ("failed", "lost")
    with pytest.raises(limpet.NoSuchSession):
        session.run("x")
