"""The envelope of the protocol, ``[version, kind, id, body]`` in msgpack, and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from .._connection import _zmtp
from ..errors import BadRequest, ProtocolMismatch, TooLarge

VERSION = 1

HELLO, REPLY, ERROR = 1, 2, 3
OPEN, RUN, INTERRUPT, RESET, CLOSE = 10, 11, 12, 13, 14
SESSIONS, RESULT, PUT, GET, SHUTDOWN = 15, 16, 17, 18, 19
CHECKPOINT, CHECKPOINTS, ROLLBACK, DROP = 20, 21, 22, 23
BRANCH, COMMIT, NAMESPACE, CONTEXT = 24, 25, 26, 27
SLEEP, FORK = 28, 29
EXEC, START, PROCESSES, PROCESS, CONNECT = 30, 31, 32, 33, 34
SET_NETWORK = 52
FILES = 39
TEMPLATE, TEMPLATES, REMOVE_TEMPLATE = 53, 54, 55
SAVE, EXPORT, LOAD = 56, 57, 58
OUTPUT, DISPLAY, CREDIT, ASK, ANSWER = 40, 41, 42, 43, 44
INSTALL = 50
ARTIFACT = 95

MAX_REQUEST = 8 << 20  # bytes of a message to the controller
MAX_REPLY = 64 << 20  # of one from it: a guest's message of 32 MiB and what the controller adds
MAX_NODES = 200000
FILE_CHUNK = 1 << 20
ASK_MAX = 1 << 20  # of what goes with a question, and with its answer
ASKS = 16  # questions of a call that wait at once

Message = tuple[int, int, dict[str, Any]]  # kind, id and body


def encode(packer: msgpack.Packer, kind: int, number: int, body: Mapping[str, Any]) -> bytes:
    """The frame of a message. Values that cannot be sent raise BadRequest, too many of them TooLarge."""
    try:
        payload = packer.pack([VERSION, kind, number, body])
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequest(f"this cannot be sent: {error}") from error
    if len(payload) > MAX_REQUEST:
        raise TooLarge(f"a request of {len(payload)} bytes is over the limit of {MAX_REQUEST}")
    return _zmtp.pack(payload)


def decode(frame: memoryview) -> Message:
    """Kind, id and body of a message; ProtocolMismatch when it is none."""
    try:
        version, kind, number, body = msgpack.unpackb(
            frame,
            raw=False,
            strict_map_key=False,
            ext_hook=_no_ext,
            max_array_len=MAX_NODES,
            max_map_len=MAX_NODES,
        )
    except (TypeError, ValueError, RecursionError, msgpack.UnpackException) as error:
        raise ProtocolMismatch(f"the controller sent what is no message: {error}") from error
    if version != VERSION or not (type(kind) is type(number) is int and type(body) is dict):
        raise ProtocolMismatch(
            f"the controller sent a message of another protocol: version {version!r}, kind {kind!r}"
        )
    return kind, number, body


def _no_ext(code: int, data: bytes) -> None:
    raise ValueError(f"ext type {code}")
