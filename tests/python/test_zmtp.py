"""The ZMTP peer, fed with bytes."""

import random

import pytest
from limpet._connection import _zmtp

pytestmark = [pytest.mark.wire, pytest.mark.sanitize]

LIMIT = 1 << 20


def ready(socket_type=b"ROUTER"):
    body = (
        b"\x05READY\x0bSocket-Type"
        + len(socket_type).to_bytes(4, "big")
        + socket_type
        + b"\x08Identity"
        + bytes(4)
    )
    return bytes((4, len(body))) + body


def greeting(signature=b"\xff" + bytes(8) + b"\x7f", version=b"\x03\x01", mechanism=b"NULL"):
    return signature + version + mechanism.ljust(20, b"\0") + bytes(32)


OPENING = greeting() + ready()


def feed(peer, data, step=None):
    """All frames in the data, given in pieces of `step` bytes."""
    frames = []
    step = step or len(data)
    for start in range(0, len(data), step):
        piece = data[start : start + step]
        while piece:
            space = peer.space()
            size = min(len(space), len(piece))
            space[:size] = piece[:size]
            peer.received(size)
            piece = piece[size:]
            while (frame := peer.frame()) is not None:
                frames.append(bytes(frame))
    return frames


@pytest.mark.parametrize("step", [1, 2, 7, 63, 64, 65, 1000, None])
def test_frames_arrive_whole_however_they_are_cut(step):
    messages = [b"", b"x", b"y" * 255, b"z" * 256, b"w" * 70000, b"end"]
    peer = _zmtp.Peer(LIMIT)
    assert feed(peer, OPENING + b"".join(map(_zmtp.pack, messages)), step) == messages
    assert peer.ready


def test_many_small_frames_in_one_buffer():
    messages = [bytes((i % 256,)) * (i % 300) for i in range(5000)]
    assert feed(_zmtp.Peer(LIMIT), OPENING + b"".join(map(_zmtp.pack, messages)), 65536) == messages


def test_memory_of_a_large_frame_is_given_back():
    peer = _zmtp.Peer(LIMIT)
    feed(peer, OPENING + _zmtp.pack(bytes(LIMIT)))
    assert len(peer.space()) == 65536


def test_a_declared_size_costs_nothing_over_the_limit():
    peer = _zmtp.Peer(LIMIT)
    with pytest.raises(_zmtp.ZmtpError, match="over the limit"):
        feed(peer, OPENING + b"\x02" + (LIMIT + 1).to_bytes(8, "big"))


@pytest.mark.parametrize(
    "data, why",
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not a ZMTP peer"),
        (greeting(signature=b"\xff" + bytes(9)), "not a ZMTP peer"),
        (greeting(version=b"\x01\x00"), "too old"),
        (greeting(mechanism=b"CURVE"), "security mechanism"),
        (greeting() + ready(b"PUB"), "is a PUB, not a ROUTER"),
        (greeting() + b"\x04\x06\x05READY", "is a nothing"),
        (greeting() + b"\x04\x00", "no READY"),
        (greeting() + b"\x04\x0b\x05ERROR\x04nope", "refuses: nope"),
        (greeting() + b"\x04\x0a\x05READY\x0bSoc", "cut short"),
        (greeting() + b"\x00\x01x", "before the handshake"),
        (OPENING + b"\x01\x01x", "several frames"),
        (OPENING + b"\x04\x05\x04PING", "unexpected command"),
        (OPENING + b"\x08\x00", "unknown frame flags"),
    ],
)
@pytest.mark.parametrize("step", [1, None])
def test_what_is_not_our_zmtp_is_refused(data, why, step):
    with pytest.raises(_zmtp.ZmtpError, match=why):
        feed(_zmtp.Peer(LIMIT), data, step)


def test_every_cut_of_a_conversation_only_asks_for_more():
    data = OPENING + _zmtp.pack(b"x" * 300)
    for size in range(1, len(data)):
        assert feed(_zmtp.Peer(LIMIT), data[:size]) == []


def test_damaged_bytes_never_raise_anything_else():
    source = random.Random(3)
    for _ in range(2000):
        data = bytearray(OPENING + _zmtp.pack(b"a" * 300) + _zmtp.pack(b"b"))
        for _ in range(source.randrange(1, 6)):
            data[source.randrange(len(data))] = source.randrange(256)
        try:
            feed(_zmtp.Peer(LIMIT), bytes(data), source.randrange(1, 500))
        except _zmtp.ZmtpError:
            pass
