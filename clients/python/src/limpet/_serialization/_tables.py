"""What a stream of Arrow says of its own size, before anything of it is decoded."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_CONTINUED = 0xFFFFFFFF
_DICTIONARY, _BATCH = 2, 3
# Numbers of fields in the tables of Arrow's Message.fbs.
_HEADER_TYPE, _HEADER, _BODY_LENGTH = 1, 2, 3
_COMPRESSION, _DATA = 3, 1


def check(stream: memoryview) -> None:
    """ValueError when a part is compressed: it might become any size. Values are sent as they are."""
    try:
        for message in _messages(stream):
            if _is_compressed(message):
                raise ValueError(
                    "a table is compressed: what it would become is not bounded, so it is not read"
                )
    except (struct.error, IndexError) as error:
        raise ValueError(f"a table is malformed: {error}") from error


def _messages(stream: memoryview) -> Iterator[memoryview]:
    """The head of each, as far as there are any: Arrow itself complains of the rest."""
    at = 0
    while at + 8 <= len(stream):
        (size,) = struct.unpack_from("<I", stream, at)
        at += 4
        if size == _CONTINUED:
            (size,) = struct.unpack_from("<i", stream, at)
            at += 4
        if size <= 0 or size > len(stream) - at:
            return
        head = stream[at : at + size]
        yield head
        body = _number(head, _root(head), _BODY_LENGTH, "<q")
        if body < 0:
            return
        at += size + body


def _is_compressed(message: memoryview) -> bool:
    root = _root(message)
    kind = _number(message, root, _HEADER_TYPE, "<B")
    if kind not in (_DICTIONARY, _BATCH):
        return False
    batch = _table(message, root, _HEADER)
    if kind == _DICTIONARY and batch is not None:
        batch = _table(message, batch, _DATA)
    return batch is not None and _field(message, batch, _COMPRESSION) is not None


# Flatbuffers: a table begins with the distance to the list of where its fields are.


def _root(data: memoryview) -> int:
    return int(struct.unpack_from("<I", data, 0)[0])


def _field(data: memoryview, table: int, number: int) -> int | None:
    """Where it is; None when it is not there."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    if fields < 0:
        raise IndexError("a list of fields before the beginning")
    (size,) = struct.unpack_from("<H", data, fields)
    if 4 + 2 * number + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", data, fields + 4 + 2 * number)
    return table + offset if offset else None


def _number(data: memoryview, table: int, number: int, form: str) -> int:
    at = _field(data, table, number)
    return 0 if at is None else int(struct.unpack_from(form, data, at)[0])


def _table(data: memoryview, table: int, number: int) -> int | None:
    at = _field(data, table, number)
    return None if at is None else at + int(struct.unpack_from("<I", data, at)[0])
