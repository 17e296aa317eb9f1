"""The contents of files, as they go and come: whole, or a part that is asked for."""

from __future__ import annotations

import errno
import mimetypes
import os
import re
import urllib.parse
from collections.abc import AsyncIterator
from typing import BinaryIO

from ... import AsyncSession
from ..._async.connecting import in_thread
from ..._protocol import _file_requests
from ..._protocol._wire import FILE_CHUNK
from ...errors import FileFailed
from .._problems import Problem
from ._call import Answer, Call

_RANGE = re.compile(r"bytes=(\d*)-(\d*)\Z")
# What code has written is shown by nobody's browser as a page of this gateway.
_HARMLESS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"accept-ranges", b"bytes"),
    (b"cache-control", b"no-store"),
]


class Content:
    """A file of the sandbox."""

    def __init__(self, session: AsyncSession, path: str) -> None:
        self._session = session
        self.path = path

    async def piece(self, at: int, file: int | None) -> tuple[int, bytes, int, int]:
        """From there: where data begins, the data, the size of the file, and what tells it from another."""
        return await self._session._request(_file_requests.read(self.path, at, FILE_CHUNK, file))

    async def from_(self, at: int, end: int, first: tuple[int, bytes, int, int]) -> AsyncIterator[bytes]:
        """Its bytes up to ``end``. ``first`` is the piece from ``at`` on."""
        found, data, _, file = first
        while at < end:
            if found > at:  # a hole
                data, found = bytes(min(found - at, FILE_CHUNK)), at
            data = data[: end - at]
            if not data:
                return
            yield data
            at += len(data)
            if at < end:
                found, data, _, file = await self.piece(at, file)


async def content(call: Call, source: Content) -> Answer:
    """The answer for a file of the sandbox."""
    first = await source.piece(0, None)
    size = max(first[2], len(first[1]))
    start, end, status, headers = _part(call, size)
    if start:
        first = await source.piece(start, first[3])
    headers = [*headers, *_about(source.path)]
    return Answer(source.from_(start, end, first), status, headers)


async def host_content(call: Call, host_path: str, path: str) -> Answer:
    """The answer for a file that the controller has published on this machine."""
    try:
        file: BinaryIO = await in_thread(open, host_path, "rb")
    except OSError as error:
        status = 404 if error.errno == errno.ENOENT else 403
        raise Problem(status, "NoSuchFile", "the artifact is not there for the gateway (any more)") from None

    async def pieces() -> AsyncIterator[bytes]:
        at = start
        with file:
            await in_thread(file.seek, at)
            while at < end:
                data = await in_thread(file.read, min(end - at, FILE_CHUNK))
                if not data:
                    return
                yield data
                at += len(data)

    start, end, status, headers = _part(call, os.fstat(file.fileno()).st_size)
    return Answer(pieces(), status, [*headers, *_about(path)])


async def save(call: Call, session: AsyncSession, path: str) -> None:
    """Writes the body of the request to a file of the sandbox."""
    mode = _mode(call.query.get("mode") or "644")
    upload: int | None = None
    offset = 0
    async for data, last in _chunks(call.pieces()):
        if upload is None:
            upload = await session._request(_file_requests.write(path, data, last, mode, True))
        else:
            await session._request(_file_requests.write_more(upload, offset, data, last))
        offset += len(data)


async def _chunks(pieces: AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bool]]:
    """In sizes of the protocol, each with whether it is the last one."""
    held = bytearray()
    async for piece in pieces:
        held += piece
        while len(held) > FILE_CHUNK:
            yield bytes(held[:FILE_CHUNK]), False
            del held[:FILE_CHUNK]
    yield bytes(held), True


def _mode(text: str) -> int:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise FileFailed(f"mode: '{text}' are no permissions, such as 644", "EINVAL")
    return mode


def _part(call: Call, size: int) -> tuple[int, int, int, list[tuple[bytes, bytes]]]:
    """Where the part that is asked for begins and ends, the status, and headers. Raises Problem."""
    asked = _RANGE.match(call.headers.get(b"range", b"").decode("latin-1").strip())
    start, end, status = 0, size, 200
    headers = list(_HARMLESS)
    if asked and (asked[1] or asked[2]):
        if asked[1]:
            start = int(asked[1])
            end = min(int(asked[2]) + 1, size) if asked[2] else size
        else:
            start = max(size - int(asked[2]), 0)
        if start >= size or end <= start:
            raise Problem(416, "BadRequest", f"the file has {size} bytes", size=size)
        status = 206
        headers.append((b"content-range", f"bytes {start}-{end - 1}/{size}".encode()))
    headers.append((b"content-length", str(end - start).encode()))
    return start, end, status, headers


def _about(path: str) -> list[tuple[bytes, bytes]]:
    name = urllib.parse.quote(path.rpartition("/")[2].encode("utf-8", "surrogateescape"), safe="")
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    if kind.startswith("text/"):
        kind += "; charset=utf-8"
    return [
        (b"content-type", kind.encode()),
        (b"content-disposition", f"attachment; filename*=UTF-8''{name}".encode()),
    ]
