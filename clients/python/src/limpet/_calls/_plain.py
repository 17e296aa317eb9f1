"""What goes with a question of the sandbox and comes back: plain data, in msgpack within the protocol's limits."""

from __future__ import annotations

from typing import Any, NoReturn

import msgpack

from .._protocol._wire import ASK_MAX, MAX_NODES

DEPTH = 32
KEYS = 16384

_KINDS = "None, bool, int, float, str, bytes, list, tuple or a dict with text keys"


def pack(value: Any) -> bytes:
    """TypeError for what is no plain data, ValueError for what is too much of it or cannot be written."""
    try:
        data: bytes = msgpack.packb(_Walk().plain(value))
    except OverflowError as error:
        raise ValueError("an integer has more than 64 bits") from error
    except UnicodeEncodeError as error:
        raise ValueError("a text has characters that are not Unicode") from error
    if len(data) > ASK_MAX:
        raise ValueError(f"{len(data)} bytes, and at most {ASK_MAX} can be handed over")
    return data


def unpack(data: bytes) -> Any:
    """Of hostile bytes; ValueError for whatever is wrong with them."""
    if len(data) > ASK_MAX:
        raise ValueError(f"{len(data)} bytes, and at most {ASK_MAX} can be handed over")
    try:
        value = msgpack.unpackb(
            data, raw=False, strict_map_key=True, ext_hook=_no_ext, max_array_len=MAX_NODES, max_map_len=KEYS
        )
        return _Walk().plain(value)
    except (TypeError, ValueError, RecursionError, msgpack.UnpackException) as error:
        raise ValueError(f"malformed: {error}") from error


def _no_ext(code: int, data: bytes) -> NoReturn:
    raise ValueError(f"ext type {code}")


class _Walk:
    """Copies a value, and counts what it consists of."""

    def __init__(self) -> None:
        self._nodes = 0

    def plain(self, value: Any, depth: int = 1) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} values")
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return value
        if isinstance(value, (bytearray, memoryview)):
            return bytes(value)
        if depth > DEPTH:
            raise ValueError(f"nested deeper than {DEPTH}")
        if isinstance(value, (list, tuple)):
            return [self.plain(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return self._dict(value, depth)
        raise TypeError(f"{type(value).__name__} is no plain data ({_KINDS})")

    def _dict(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        if len(value) > KEYS:
            raise ValueError(f"a dict of more than {KEYS} keys")
        self._nodes += len(value)
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a dict with a key of type {type(key).__name__} is no plain data ({_KINDS})")
        return {key: self.plain(item, depth + 1) for key, item in value.items()}
