"""Connect's protocol with JSON: envelopes, codes of errors, and what fails said in them."""

from __future__ import annotations

import errno
import struct
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from ... import errors
from ...errors import Error, FileFailed
from ._http import Refused

UNARY = b"application/json"
STREAM = b"application/connect+json"

_HEAD = struct.Struct(">BI")
_COMPRESSED, _END = 1, 2
MOST_FRAME = 16 << 20

_STATUS = {
    "canceled": 499, "unknown": 500, "invalid_argument": 400, "deadline_exceeded": 504, "not_found": 404,
    "already_exists": 409, "permission_denied": 403, "resource_exhausted": 429, "failed_precondition": 400,
    "unimplemented": 501, "internal": 500, "unavailable": 503, "unauthenticated": 401,
}  # fmt: skip
_OF_STATUS = {
    400: "invalid_argument", 401: "unauthenticated", 403: "permission_denied", 404: "not_found",
    409: "already_exists", 413: "resource_exhausted", 422: "invalid_argument", 429: "resource_exhausted",
    502: "unavailable", 503: "unavailable",
}  # fmt: skip
_OF_ERRNO = {
    errno.ENOENT: "not_found", errno.EEXIST: "already_exists", errno.ENOTDIR: "invalid_argument",
    errno.EISDIR: "invalid_argument", errno.EINVAL: "invalid_argument", errno.ENAMETOOLONG: "invalid_argument",
    errno.ELOOP: "invalid_argument", errno.EACCES: "permission_denied", errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied", errno.ENOSPC: "resource_exhausted", errno.EDQUOT: "resource_exhausted",
}  # fmt: skip
_OF_ERROR: dict[type[Error], str] = {
    errors.BadRequest: "invalid_argument",
    errors.Denied: "permission_denied",
    errors.TooLarge: "invalid_argument",
    errors.Busy: "resource_exhausted",
    errors.LimitReached: "resource_exhausted",
    errors.NoSuchRun: "not_found",
    errors.NoSuchFile: "not_found",
    errors.NoSuchSession: "unavailable",
    errors.SessionClosed: "unavailable",
    errors.Unavailable: "unavailable",
}


class Failed(Exception):
    """A procedure failed: its code, as Connect has it, and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def status(self) -> int:
        """Of HTTP."""
        return _STATUS[self.code]

    @property
    def body(self) -> dict[str, Any]:
        """As JSON."""
        return {"code": self.code, "message": self.message}


def failed(error: Exception) -> Failed:
    """What an exception is said as. Anything that is none of these is ours to repair, and not told."""
    if isinstance(error, Failed):
        return error
    if isinstance(error, Refused):
        return Failed(_OF_STATUS.get(error.status, "internal"), error.message)
    if isinstance(error, FileFailed):
        return Failed(_OF_ERRNO.get(error.errno or 0, "internal"), error.message)
    if isinstance(error, (errors.NoSuchSession, errors.SessionClosed)):
        return Failed("unavailable", f"the sandbox was not found: {error.message}")
    if isinstance(error, Error):
        return Failed(_OF_ERROR.get(type(error), "internal"), error.message)
    return Failed("internal", "the gateway failed; its log says more")


def frame(message: Any) -> bytes:
    """A message of a stream."""
    body = msgspec.json.encode(message)
    return _HEAD.pack(0, len(body)) + body


def end(failure: Failed | None = None) -> bytes:
    """What a stream ends with."""
    body = msgspec.json.encode({} if failure is None else {"error": failure.body})
    return _HEAD.pack(_END, len(body)) + body


class Frames:
    """Takes the frames of a stream apart, which comes in pieces of any size."""

    def __init__(self) -> None:
        self._left = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The messages that are whole now. Raises Failed."""
        self._left += piece
        while len(self._left) >= _HEAD.size:
            flags, size = _HEAD.unpack_from(self._left)
            if size > MOST_FRAME:
                raise Failed("resource_exhausted", f"a message is larger than {MOST_FRAME} bytes")
            if flags & _COMPRESSED:
                raise Failed("unimplemented", "messages are not compressed here")
            if len(self._left) < _HEAD.size + size:
                return
            message = bytes(self._left[_HEAD.size : _HEAD.size + size])
            del self._left[: _HEAD.size + size]
            if not flags & _END:
                yield message

    def close(self) -> None:
        """Nothing follows. Raises Failed where a message has broken off."""
        if self._left:
            raise Failed("invalid_argument", "the stream ends within a message")


async def messages(pieces: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The messages of a client, as objects. Raises Failed."""
    frames = Frames()
    async for piece in pieces:
        for body in frames.feed(piece):
            yield decoded(body)
    frames.close()


def only_message(body: bytes) -> dict[str, Any]:
    """The message of a client that sends one. Raises Failed."""
    frames = Frames()
    found = list(frames.feed(body))
    frames.close()
    if len(found) != 1:
        raise Failed("invalid_argument", f"the request has one message, and not {len(found)}")
    return decoded(found[0])


def decoded(body: bytes) -> dict[str, Any]:
    """A message, as an object. Raises Failed."""
    try:
        value = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, RecursionError) as error:
        raise Failed("invalid_argument", f"the message is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Failed("invalid_argument", "the message is no JSON object")
    return value
