"""Who is not let in, and what peers do that mean no good: others notice nothing of them."""

import contextlib
import itertools
import socket
import time

import limpet
import msgpack
import pytest
import zmq

from .door import PATIENCE, opened, resident, wait_for

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)
HELLO = msgpack.packb([1, 1, 1, {"protocol": 1, "peer": "test"}])


@pytest.fixture
def witness(door, name):
    """A client that is there before, and as well afterwards."""
    with door.client() as client, client.open(name) as session:
        session.run("n = 7")
        yield
        assert session.run("n").result == "7"


def is_ended(stream):
    """Whether the peer closes the connection, whatever it says first."""
    with contextlib.suppress(ConnectionResetError):
        while stream.recv(4096):
            pass
    return True


def test_a_key_that_is_not_authorized(door, witness):
    with pytest.raises(limpet.Unavailable, match="not in its authorized_keys"):
        door.client(door.new_key()).sessions()


def test_a_server_that_has_not_the_key_that_is_expected(door, witness):
    with pytest.raises(limpet.Unavailable, match="server_key"):
        door.client(server_key=door.new_key().public).sessions()


@pytest.mark.parametrize("mechanism", ["NULL", "PLAIN"])
def test_a_peer_without_a_key(door, witness, mechanism):
    context = zmq.Context()
    peer = context.socket(zmq.DEALER)
    if mechanism == "PLAIN":
        peer.plain_username, peer.plain_password = b"root", b"root"
    monitor = peer.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED)
    peer.connect(door.address)
    peer.send(HELLO)
    assert monitor.poll(PATIENCE * 1000)
    assert int.from_bytes(monitor.recv_multipart()[0][:2], "little") == zmq.EVENT_DISCONNECTED
    assert not peer.poll(0)
    context.destroy(linger=0)


def test_half_a_handshake_is_ended(door, witness):
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(door.raw()) for _ in range(5)]
        for stream, said in zip(streams, (b"", b"\xff", GREETING[:30], GREETING, GREETING + b"\x04\xc8\x05HELLO" + bytes(10))):
            stream.sendall(said)
        assert all(map(is_ended, streams))


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n" * 8, bytes(range(256)) * 64, GREETING + b"\x04\xff" + bytes(255), GREETING + b"\x06" + b"\xff" * 8])
def test_garbage_is_ended(door, witness, said):
    with door.raw() as stream:
        with contextlib.suppress(ConnectionError):
            stream.sendall(said)
        assert is_ended(stream)


def ends(peer):
    """Whether libzmq's connection is ended by the other side."""
    monitor = peer.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    return lambda: monitor.poll(PATIENCE * 1000) > 0


def greeted(peer):
    peer.send(HELLO)
    assert peer.poll(PATIENCE * 1000)
    return msgpack.unpackb(peer.recv())


def test_a_message_that_is_too_large(door, witness):
    with door.peer() as peer:
        ended = ends(peer)
        greeted(peer)
        peer.send(bytes((8 << 20) + 1))
        assert ended()


def test_a_message_of_several_frames(door, witness):
    with door.peer() as peer:
        ended = ends(peer)
        greeted(peer)
        peer.send_multipart([HELLO, HELLO])
        assert ended()


def test_what_is_no_message_of_the_protocol_is_answered_as_locally(door, witness):
    with door.peer() as peer:
        peer.send(b"\xc1 nothing")
        assert peer.poll(PATIENCE * 1000)
        version, kind, number, body = msgpack.unpackb(peer.recv())
        assert (kind, body["name"]) == (3, "BadRequest")


def test_one_who_says_nothing_is_ended(door, witness):
    with door.peer() as peer:
        assert ends(peer)()


def test_a_key_has_as_many_connections_as_its_line_says(own_door):
    key = own_door.new_key()
    own_door.authorize(f"{own_door.key.public} owner=0", f"{key.public} owner=0 connections=2")
    own_door.limpetd.process.send_signal(1)
    wait_for(lambda: own_door.said("authorized keys read"))
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(own_door.client(key)).sessions()
        with pytest.raises(limpet.Unavailable):
            own_door.client(key).sessions()
        own_door.client().sessions()


def test_a_flood_of_connections_is_bounded_and_nobody_local_notices():
    most, many = 32, 1000
    with opened("--listen-connections", str(most)) as door, door.limpetd.client() as local, local.open("here") as session:
        session.run("n = 1")
        pid = door.process()
        before = resident(pid)
        held = [socket.create_connection(("127.0.0.1", door.port), timeout=PATIENCE) for _ in range(many)]
        assert session.run("n").result == "1"
        for stream in held:
            assert is_ended(stream)
            stream.close()
        assert door.process() == pid
        assert resident(pid) - before < 64 << 20
        assert session.run("n").result == "1"
        end = time.monotonic() + PATIENCE
        while True:  # whoever has a key comes in again
            try:
                with door.client() as client:
                    assert client.run("2").result == "2"
                return
            except limpet.Unavailable:
                assert time.monotonic() < end


def is_open(stream):
    """Whether the peer has not ended the connection, whatever it has said."""
    stream.setblocking(False)
    try:
        while stream.recv(4096):
            pass
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False


def test_strangers_of_one_address_leave_room_for_others():
    """Each has five seconds to say who he is: nobody waits until they are over."""
    most = 32

    def others_are_served():
        with contextlib.ExitStack() as stack:
            quiet = [stack.enter_context(door.raw("127.0.0.3")) for _ in range(3)]
            for _ in range(4 * most):
                stack.enter_context(door.raw("127.0.0.2"))
            stack.enter_context(door.client()).sessions()
            return all(map(is_open, quiet))

    with opened("--listen-connections", str(most)) as door:
        wait_for(others_are_served)


def test_one_who_does_not_read_loses_his_connection_and_nobody_else(own_door):
    with own_door.client() as client, client.open("other") as other, own_door.peer(ahead=1) as peer:
        pid = own_door.process()
        ended = ends(peer)
        greeted(peer)
        run = {"run_id": "0" * 32, "session": "other", "code": "x = 'y' * 900_000; print(x)"}
        peer.send(msgpack.packb([1, 11, 2, run]))
        for number in range(3, 400):
            peer.send(msgpack.packb([1, 16, number, {"run_id": "0" * 32}]))
        assert ended()
        assert other.run("1").result == "1"
        assert own_door.process() == pid


@pytest.mark.long
def test_a_key_that_does_not_read_takes_no_memory_from_another(own_door):
    """Each of its connections has less waiting than one may have, and all of them more than there is room for."""
    greedy = own_door.new_key()
    own_door.authorize(f"{own_door.key.public} owner=0", f"{greedy.public} owner=0 name=greedy")
    own_door.limpetd.process.send_signal(1)
    wait_for(lambda: own_door.said("authorized keys read"))
    run = {"run_id": "0" * 32, "session": "other", "code": "x = 'y' * 900_000; print(x)"}
    with own_door.client() as client, client.open("other"), own_door.peer() as witness, contextlib.ExitStack() as stack:
        pid = own_door.process()
        greeted(witness)
        peers = [stack.enter_context(own_door.peer(greedy, ahead=1)) for _ in range(12)]
        for peer in peers:
            greeted(peer)
        peers[0].send(msgpack.packb([1, 11, 2, run]))
        numbers = itertools.count(3)

        def is_too_much():
            for peer in peers:
                peer.send(msgpack.packb([1, 16, next(numbers), {"run_id": "0" * 32}]))
            client.sessions()  # after which the controller has answered those
            return own_door.said("more waits for its key")

        wait_for(is_too_much)
        assert own_door.process() == pid
        witness.send(HELLO)
        assert witness.poll(PATIENCE * 1000)
