"""Values as bytes: what comes back is what went, and what is hostile is refused. NumPy and the like: tests/adapters."""

import json
import math
import random

import pytest
from limpet._serialization import _codec

PLAIN = [
    None, True, 0, -1, 10**30, 1.5, -0.0, float("inf"), 1 + 2j, "", "ü\ud800\0", b"", b"\xff" * 200, [], (), {}, set(),
    [1, [2, (3, {4: {5, 6}})]], {"a": 1, (1, "b"): None, 2.5: b"x"}, frozenset({"a", 1}), {"tuple": [1]}, {"dict": {}},
]  # fmt: skip


def written(value):
    return b"".join(_codec.dump(value))


def read(data):
    return _codec.load(memoryview(bytearray(data)))


def made(header, rest=b""):
    text = json.dumps(header).encode()
    return _codec.MAGIC + len(text).to_bytes(8, "little") + text + rest


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_there_and_back(value):
    again = read(written(value))
    assert again == value and type(again) is type(value) and repr(again) == repr(value)


def test_not_a_number():
    assert math.isnan(read(written(float("nan"))))


def test_many_parts_keep_their_places():
    value = [bytes([number]) * number for number in range(150)]
    assert read(written(value)) == value


class Own(dict):
    pass


@pytest.mark.parametrize("value", [object(), [print], Own(), {"a": {1: Own()}}, range(3), ValueError("x"), type])
def test_what_is_no_plain_data_is_named(value):
    with pytest.raises(TypeError, match="is no plain data"):
        _codec.dump(value)


def test_endless_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested too deeply"):
        _codec.dump(endless)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"limpet", _codec.MAGIC, _codec.MAGIC + b"\xff" * 8, _codec.MAGIC + bytes(8), b"pickle" * 9,
        made([]), made({"value": 1}), made({"sizes": []}), made({"value": 1, "sizes": [1]}),
        made({"value": 1, "sizes": [-1]}), made({"value": 1, "sizes": [True]}), made({"value": 1, "sizes": ["1"]}),
        made({"value": {"bytes": 0}, "sizes": []}), made({"value": {"bytes": "x"}, "sizes": []}),
        made({"value": {}, "sizes": []}), made({"value": {"a": 1, "b": 2}, "sizes": []}),
        made({"value": {"__import__": "os"}, "sizes": []}), made({"value": {"set": [[1]]}, "sizes": []}),
        made({"value": {"dict": [1]}, "sizes": []}), made({"value": {"dict": [[[], 1]]}, "sizes": []}),
        made({"value": {"tuple": 5}, "sizes": []}), made({"value": {"complex": ["x", 1]}, "sizes": []}),
        made({"value": 1, "sizes": [1 << 62]}, bytes(999)),
        _codec.MAGIC + (200_000).to_bytes(8, "little") + b"[" * 200_000,
    ],
)  # fmt: skip
def test_what_is_malformed_is_a_value_error(data):
    with pytest.raises(ValueError):
        read(data)


def test_damaged_bytes_never_raise_anything_else():
    source = random.Random(7)
    whole = written({"a": [1, (2, {3})], "b": b"x" * 100, "c": "text"})
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(source.randrange(1, 5)):
            data[source.randrange(len(data))] = source.randrange(256)
        try:
            read(data[: source.randrange(len(data)) if source.random() < 0.2 else None])
        except (ValueError, ImportError):
            pass
