"""limpet-net without a controller: the test says what that would, when it likes."""

import contextlib
import fcntl
import os
import socket
import subprocess

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from tests.support.ipc import message, receive_frame, send_frame, unpack

from .door import PATIENCE, Key
from .test_refused import HELLO

PROGRAM = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet-net")
KEYS, CAME = 1, 3
OVER = (zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)


@pytest.fixture
def server(tmp_path):
    return Key(tmp_path / "server.key_secret")


@pytest.fixture
def seam(server, tmp_path):
    """The controller's end of what leads to a process that has just begun to listen at the second one."""
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        secret = stack.enter_context(open(server.path, "rb+"))
        stack.enter_context(theirs)
        given = [fcntl.fcntl(each, fcntl.F_DUPFD, 64) for each in (theirs, listening, secret)]
        places = " ".join(f"{place}<&{number}" for place, number in enumerate(given, 3))
        command = ["bash", "-c", f'exec {places}; exec "$@"', "bash", PROGRAM, str(os.getpid()), "-", "-", "info", "10"]
        # It has not the rights that looking for leaks at its end would need.
        sanitizers = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        process = subprocess.Popen(command, pass_fds=given, env={**os.environ, "ASAN_OPTIONS": sanitizers})
        for number in given:
            os.close(number)
        address = "tcp://{}:{}".format(*listening.getsockname())
    ours.settimeout(PATIENCE)
    with ours:
        yield ours, address
    assert process.wait(PATIENCE) == 0


@contextlib.contextmanager
def peer(key, server, address):
    """libzmq itself, and what tells of its connection."""
    context = zmq.Context()
    client = context.socket(zmq.DEALER)
    client.curve_publickey, client.curve_secretkey = key.public.encode(), key.secret.encode()
    client.curve_serverkey = server.public.encode()
    events = client.get_monitor_socket(zmq.EVENT_CONNECTED | sum(OVER))
    client.connect(address)
    try:
        yield client, events
    finally:
        context.destroy(linger=0)


def test_who_comes_before_it_is_known_who_may_waits_for_that(seam, server, tmp_path):
    """And is not turned away, which a client takes for the last word on its key."""
    controller, address = seam
    key, authorized = Key(tmp_path / "client.key_secret"), tmp_path / "authorized_keys"
    authorized.write_text(f"{key.public} owner={os.geteuid()} name=first\n")
    with peer(key, server, address) as (client, events):
        client.send(HELLO)
        assert events.poll(1000 * PATIENCE) and recv_monitor_message(events)["event"] == zmq.EVENT_CONNECTED
        assert not events.poll(1000), recv_monitor_message(events)
        with open(authorized, "rb") as keys:
            send_frame(controller, message(KEYS, {}), [keys.fileno()])
        data, fds = receive_frame(controller)
        for fd in fds:
            os.close(fd)
        kind, _, body = unpack(data)
        assert (kind, body["key"], len(fds)) == (CAME, key.public, 1)
        assert recv_monitor_message(events)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED
