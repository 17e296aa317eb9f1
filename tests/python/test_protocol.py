"""The client against the tables and golden vectors of proto/."""

import json
import os
import re

import limpet
import msgpack
import pytest
from limpet import errors
from limpet._protocol import _requests, _wire

from tests.support import ROOT, fake
from tests.support.vectors import VECTORS

pytestmark = [pytest.mark.wire, pytest.mark.sanitize]


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def test_errors_are_those_of_the_table():
    table = re.findall(r'^ERROR\((\d+), (\w+), "(\w+)"', read("proto", "errors.def"), re.M)
    assert {(int(number), name) for number, _, name in table} == {
        (c.number, c.name) for c in errors.BY_NUMBER.values()
    }
    for _, _, name in table:
        assert getattr(limpet, name).__name__ == name and name in limpet.__all__


def test_kinds_are_those_of_the_table():
    table = re.findall(r"^MESSAGE\((\d+), (\w+), ", read("proto", "messages.def"), re.M)
    known = {name: getattr(_wire, name) for _, name in table if hasattr(_wire, name)}
    assert known == {name: int(number) for number, name in table if name in known}
    assert len(known) == 43


def test_limits_are_those_of_the_header():
    limits = dict(re.findall(r"^#define (\w+) +\(?([\du <]+)\)?", read("proto", "limits.h"), re.M))
    value = {name: eval(text.replace("u", "")) for name, text in limits.items()}
    assert _wire.VERSION == value["PROTOCOL_VERSION"]
    assert _wire.MAX_REQUEST == value["LIMIT_CLIENT_FRAME"]
    assert _wire.MAX_REPLY > value["LIMIT_GUEST_FRAME"]
    assert _wire.MAX_NODES == value["LIMIT_NODES"]
    assert _wire.FILE_CHUNK == value["LIMIT_FILE_CHUNK"]


def test_the_record_has_the_fields_of_the_page():
    page = read("proto", "PROTOCOL.md").split("### The record")[1].split("###")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", page, re.M)
    documented = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert set(limpet.Result.__dataclass_fields__) == set(documented) == set(fake.record()) | {"restored", "between", "memory"}


def plain(value):
    """A vector's body: {"$bin": hex} stands for bytes, and so does the key "$bin:hex"."""
    if isinstance(value, dict):
        if value.keys() == {"$bin"}:
            return bytes.fromhex(value["$bin"])
        return {
            bytes.fromhex(key[5:]) if key.startswith("$bin:") else key: plain(item)
            for key, item in value.items()
        }
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "name", ["run-reply", "run-reply-full", "run-reply-lost", "run-reply-rolled-back"]
)
def test_golden_records_are_results(name):
    body = golden(name)[2]
    result = limpet.Result.from_record(body)
    assert json.dumps(result.to_dict()) and result.run_id == body["run_id"]


SESSION = {"session": "a", "instance": "5d41402abc4b2a76"}


def golden(name):
    return _wire.decode(memoryview(bytes.fromhex(VECTORS[name]["hex"])))


@pytest.mark.parametrize(
    "name, request_",
    [
        ("checkpoint", _requests.checkpoint("clean", True)),
        ("checkpoints", _requests.checkpoints()),
        ("rollback", _requests.rollback("clean")),
        ("drop", _requests.drop("c3")),
        ("branch", _requests.branch("try-a", "c3")),
        ("commit", _requests.commit("try-a")),
        ("namespace", _requests.namespace()),
    ],
)
def test_golden_requests_are_what_is_sent(name, request_):
    kind, _, body = golden(name)
    request_ = request_.of({**SESSION, "session": body["session"]})
    assert (request_.kind, request_.body) == (kind, body)


@pytest.mark.parametrize(
    "name, request_, value",
    [
        (
            "rollback-reply",
            _requests.rollback("x"),
            limpet.Rollback("c3", 2, 2, "restored", ["thread 'poller'"]),
        ),
        ("commit-reply", _requests.commit("x"), limpet.Committed(execution_count=4, epoch=2)),
        ("drop-reply", _requests.drop("x"), None),
    ],
)
def test_golden_replies(name, request_, value):
    assert request_.read(golden(name)[2]) == value


def test_golden_checkpoints_and_variables():
    taken = _requests.checkpoint(None, False).read(golden("checkpoint-reply")[2])
    kept = _requests.checkpoints().read(golden("checkpoints-reply")[2])
    assert taken == kept[1] and taken.dropped == ("c2",) and taken.parent == kept[0].id
    names = _requests.namespace().read(golden("namespace-reply")[2])
    assert [name.name for name in names] == ["np", "x", "a", "table"]
    assert (names[1].repr, names[2].shape, names.more) == ("41", (1000, 3), 0)


def message(*parts):
    return memoryview(msgpack.packb(list(parts)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x94\x01\x02",
        b"\xdd\xff\xff\xff\xff",
        b"\x94\x01\x02\x03\xa1\xff",
        message(1, 2, 3),
        message(1, 2, 3, {}, 5),
        message(2, 2, 3, {}),
        message(1, "reply", 3, {}),
        message(1, 2, None, {}),
        message(1, 2, 3, []),
        message(1, 2, 3, {"x": msgpack.ExtType(4, b"x")}),
        msgpack.packb([1, 2, 3, {}]) + b"x",
    ],
)
def test_what_is_no_message_is_a_mismatch(data):
    with pytest.raises(limpet.ProtocolMismatch):
        _wire.decode(memoryview(data))


@pytest.mark.parametrize("value", ["\udcff", object(), 1 << 70, {"x": {1, 2}}])
def test_what_cannot_be_sent_is_a_bad_request(value):
    packer = msgpack.Packer()
    with pytest.raises(limpet.BadRequest, match="cannot be sent"):
        _wire.encode(packer, 11, 1, {"code": value})
    assert _wire.encode(packer, 11, 1, {}) == b"\x00\x05\x94\x01\x0b\x01\x80"


def test_a_request_over_the_limit_is_too_large():
    with pytest.raises(limpet.TooLarge, match="limit"):
        _wire.encode(msgpack.Packer(), 11, 1, {"code": "x" * (8 << 20)})


def test_errors_from_the_wire():
    error = errors.from_wire({"number": 1103, "name": "OptionsDiffer", "message": "m", "options": ["memory"]})
    assert (type(error), error.options, error.number, error.name) == (
        limpet.OptionsDiffer,
        ("memory",),
        1103,
        "OptionsDiffer",
    )
    newer = errors.from_wire({"number": 1999, "name": "Newer", "message": "m"})
    assert (type(newer), newer.number, newer.name, newer.message, str(newer)) == (
        limpet.Error,
        1999,
        "Newer",
        "m",
        "m",
    )
    assert isinstance(errors.from_wire({}), limpet.ProtocolMismatch)
