"""The extension module and what stands for it in Python: the same bytes and values, the same answers."""

import random
import sys

import limpet
import msgpack
import pytest
from limpet import results
from limpet._connection import _pure, _transport, _zmtp
from limpet._protocol import _wire

from tests.support import fake
from tests.support.vectors import VECTORS

from .test_protocol import plain
from .test_zmtp import OPENING, greeting, ready

pytestmark = [pytest.mark.wire, pytest.mark.sanitize]

LIMIT = 1 << 20
NATIVE = pytest.param(_transport.Wire, id="native", marks=pytest.mark.skipif(not _transport.NATIVE, reason="not built"))
WIRES = pytest.mark.parametrize("kind", [pytest.param(_pure.Wire, id="pure"), NATIVE])


def feed(wire, data, step=None):
    """All messages in the data, given in pieces of `step` bytes."""
    messages = []
    step = step or max(len(data), 1)
    for start in range(0, len(data), step):
        piece = data[start : start + step]
        while piece:
            space = wire.space()
            size = min(len(space), len(piece))
            space[:size] = piece[:size]
            del space
            wire.received(size)
            piece = piece[size:]
            while (message := wire.message()) is not None:
                messages.append(message)
    return messages


def opened(kind, limit=LIMIT):
    wire = kind(limit)
    assert feed(wire, OPENING) == [] and wire.ready
    return wire


def frame(number, body, kind=_wire.REPLY):
    return _zmtp.pack(msgpack.packb([1, kind, number, body]))


def body_of(frame):
    """What is in one frame, short or long."""
    return msgpack.unpackb(frame[9 if frame[0] == 2 else 2 :], strict_map_key=False)


@WIRES
def test_what_is_sent_first_is_the_greeting_and_ready(kind):
    wire = kind(LIMIT)
    first = wire.pending()
    feed(wire, OPENING)
    sent = first + wire.pending()
    assert sent[:12] == _zmtp.OPENING[:12] and b"Socket-Type\x00\x00\x00\x06DEALER" in sent and wire.pending() == b""


@WIRES
@pytest.mark.parametrize("step", [1, 2, 7, 64, 1000, None])
def test_messages_arrive_whole_however_they_are_cut(kind, step):
    bodies = [{}, {"x": "y" * 255}, {"a": b"z" * 70000, "b": [1, -1, 1.5, None, True, {b"\xff": "ü"}]}]
    data = OPENING + b"".join(frame(i, body) for i, body in enumerate(bodies))
    assert feed(kind(LIMIT), data, step) == [(_wire.REPLY, i, body) for i, body in enumerate(bodies)]


@WIRES
def test_golden_vectors(kind):
    for vector in VECTORS.values():
        data, body = bytes.fromhex(vector["hex"]), plain(vector["body"])
        wire = opened(kind)
        assert feed(wire, _zmtp.pack(data)) == [(vector["kind"], vector["id"], body)], vector["name"]
        sent = wire.encode(vector["kind"], vector["id"], body)
        assert sent[9 if sent[0] == 2 else 2 :] == data, vector["name"]


@WIRES
@pytest.mark.parametrize("step", [1, None])
@pytest.mark.parametrize(
    "data, why",
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the controller's socket: not a ZMTP peer"),
        (greeting() + ready(b"PUB"), "the controller's socket"),
        (greeting() + b"\x04\x0a\x05READY\x0bSoc", "the controller's socket"),
        (greeting() + b"\x00\x01x", "the controller's socket"),
        (OPENING + b"\x01\x01x", "the controller's socket"),
        (OPENING + b"\x08\x00", "the controller's socket"),
        (OPENING + b"\x02" + (LIMIT + 1).to_bytes(8, "big"), "over the limit"),
        (OPENING + b"\x02" + b"\xff" * 8, "over the limit"),
        (OPENING + _zmtp.pack(b""), "the controller sent"),
        (OPENING + _zmtp.pack(b"\xc1"), "the controller sent"),
        (OPENING + _zmtp.pack(b"\xdd\xff\xff\xff\xff"), "the controller sent"),
        (OPENING + _zmtp.pack(b"\x94\x01\x02\x03\xdf\xff\xff\xff\xff"), "the controller sent"),
        (OPENING + _zmtp.pack(b"\x94\x01\x02\x03\xa1\xff"), "the controller sent"),
        (OPENING + _zmtp.pack(b"\x94\x01\x02\x03\x81\xa1a\xa1\xff"), "the controller sent"),
        (OPENING + _zmtp.pack(b"\x94\x01\x02\x03\x81\xa1a\xc4\x05x"), "the controller sent"),
        (OPENING + _zmtp.pack(msgpack.packb([1, 2, 3])), "the controller sent"),
        (OPENING + _zmtp.pack(msgpack.packb([1, 2, 3, {}, 5])), "the controller sent"),
        (OPENING + _zmtp.pack(msgpack.packb([2, 2, 3, {}])), "the controller sent"),
        (OPENING + _zmtp.pack(msgpack.packb([1, "reply", 3, {}])), "the controller sent"),
        (OPENING + _zmtp.pack(msgpack.packb([1, 2, None, {}])), "the controller sent"),
        (OPENING + _zmtp.pack(msgpack.packb([1, 2, 3, []])), "the controller sent"),
        (OPENING + _zmtp.pack(msgpack.packb([1, 2, 3, {"x": msgpack.ExtType(4, b"x")}])), "the controller sent"),
        (OPENING + _zmtp.pack(msgpack.packb([1, 2, 3, {}]) + b"x"), "the controller sent"),
        (OPENING + _zmtp.pack(b"\x91" * 100000), "the controller sent"),
        (OPENING + frame(3, {"x": [0] * 200001}), "the controller sent"),
    ],
)
def test_what_is_no_message_of_a_controller_is_a_mismatch(kind, data, why, step):
    if step and len(data) > 1000:
        step = 4096
    with pytest.raises(limpet.ProtocolMismatch, match=why):
        feed(kind(LIMIT), data, step)


@WIRES
def test_damaged_bytes_never_raise_anything_else(kind):
    source = random.Random(5)
    whole = OPENING + frame(1, fake.record(displays=[{"data": {"text/plain": "x" * 300}}])) + frame(2, {"a": [1, 2.5, b"x"]})
    for _ in range(1000):
        data = bytearray(whole)
        for _ in range(source.randrange(1, 6)):
            data[source.randrange(len(data))] = source.randrange(256)
        try:
            for _, _, body in feed(kind(LIMIT), bytes(data), source.randrange(1, 700)):
                results.Result.from_record(body)
        except limpet.ProtocolMismatch:
            pass


@WIRES
@pytest.mark.parametrize("value", ["\udcff", object(), 1 << 70, -(1 << 70), {"x": {1, 2}}, [{"x": object()}]])
def test_what_cannot_be_sent_is_a_bad_request(kind, value):
    wire = opened(kind)
    with pytest.raises(limpet.BadRequest, match="cannot be sent"):
        wire.encode(_wire.RUN, 1, {"code": value})
    assert body_of(wire.encode(_wire.RUN, 1, {"code": "x"})) == [1, _wire.RUN, 1, {"code": "x"}]


@WIRES
def test_what_refuses_a_value_runs_no_code_of_it(kind):
    class Own:
        def __repr__(self):
            raise AssertionError("not asked")

    with pytest.raises(limpet.BadRequest, match="cannot be sent.*Own"):
        opened(kind).encode(_wire.RUN, 1, {"code": Own()})


@WIRES
def test_what_nests_without_end_is_a_bad_request(kind):
    endless = []
    endless.append(endless)
    with pytest.raises(limpet.BadRequest, match="cannot be sent"):
        opened(kind).encode(_wire.RUN, 1, {"code": endless})


@WIRES
def test_a_request_over_the_limit_is_too_large(kind):
    with pytest.raises(limpet.TooLarge, match="limit of 8388608"):
        opened(kind).encode(_wire.RUN, 1, {"code": "x" * (8 << 20)})


@WIRES
def test_plain_data_is_sent_as_it_is(kind):
    class Text(str):
        pass

    class Items(list):
        def __getitem__(self, position):
            raise AssertionError("not asked")

    value = {
        "int": [0, -1, 127, 128, -32, -33, 1 << 16, (1 << 64) - 1, -(1 << 63)], "float": [0.5, -0.0, 1e300],
        "text": ["", "ü\0x", Text("own")], "bytes": [b"", b"\xff" * 300], "none": None, "bool": [True, False],
        "tuple": (1, (2,)), b"key": {"": {}}, "items": Items([1]), "many": list(range(70000)),
    }  # fmt: skip
    sent = body_of(opened(kind).encode(_wire.RUN, (1 << 64) - 1, {**value, "copy": bytearray(b"ab"), "view": memoryview(b"cd")}))
    as_came = {**value, "tuple": [1, [2]], "copy": b"ab", "view": b"cd"}
    assert sent == [1, _wire.RUN, (1 << 64) - 1, as_came]


@pytest.mark.skipif(not _transport.NATIVE, reason="not built")
def test_a_wire_that_a_thread_waits_with_is_no_other_threads(client, controller):
    seen = []

    def run(request):  # on the controller's thread, while the caller's reads
        for use in (wire.message, wire.pending):
            try:
                while True:
                    use()
            except RuntimeError as error:
                seen.append(str(error))
        request.record()

    session = client.open("a")
    wire = client._local.connection._wire
    controller.on("run", run)
    assert session.run("1").ok
    assert seen == ["another thread waits with this connection"] * 2


@pytest.mark.skipif(not _transport.NATIVE or sys.version_info < (3, 12), reason="no class has a buffer of its own code")
@pytest.mark.parametrize("make", [dict, list])
def test_a_container_that_changes_while_it_is_encoded(make):
    class Changing(bytearray):
        def __buffer__(self, flags):
            container.clear()
            return super().__buffer__(flags)

    items = [Changing(b"x"), "y", "z"]
    container = dict(enumerate(items)) if make is dict else items
    with pytest.raises(RuntimeError, match="changed"):
        opened(_transport.Wire).encode(_wire.RUN, 1, {"body": container})
