"""E2B's ``/files``: contents of files, up and down, also by signed addresses."""

from __future__ import annotations

import contextlib
import errno
import posixpath
import tempfile
import zlib
from collections.abc import AsyncIterator
from typing import IO, Any
from urllib.parse import quote

from ... import AsyncSession, FileFailed
from .._http import Receive, Scope, Send, bounded, files_of, pieces_of
from . import _metadata
from ._filesystem import path_of
from ._frames import Failed, failed
from ._http import Refused, answer, header, query, refuse
from ._records import Record
from ._sandboxes import Sandboxes

_IN_MEMORY = 1 << 20
_PIECE = 256 << 10
_MOST = 1 << 30
"""Bytes of one upload; what the sandbox has room for is for itself to say."""
_MOST_FILES = 1000  # of one upload


class Files:
    """Reads and writes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._all = sandboxes

    async def __call__(self, record: Record, scope: Scope, receive: Receive, send: Send) -> tuple[str, int]:
        """Answers; returns the operation and the status."""
        try:
            if scope["method"] in ("GET", "HEAD"):
                await self._download(record, scope, send)
                return "download", 200
            if scope["method"] == "POST":
                await self._upload(record, scope, receive, send)
                return "upload", 200
        except (Failed, FileFailed) as error:
            full = isinstance(error, FileFailed) and error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise Refused(507 if full else failed(error).status, str(error)) from None
        await refuse(send, Refused(405, "/files takes GET and POST"))
        return "files", 405

    async def _download(self, record: Record, scope: Scope, send: Send) -> None:
        session, path = await self._all.session(record), path_of(record, query(scope).get("path"))
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            await session.files.read(path, file)
            size = file.tell()
            file.seek(0)
            name = quote(posixpath.basename(path), errors="replace")
            headers = [
                (b"content-type", b"application/octet-stream"),
                (b"content-length", str(size).encode()),
                (b"content-disposition", f"inline; filename*=UTF-8''{name}".encode()),
                (b"x-content-type-options", b"nosniff"),
                (b"content-security-policy", b"sandbox"),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while scope["method"] == "GET" and (piece := file.read(_PIECE)):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _upload(self, record: Record, scope: Scope, receive: Receive, send: Send) -> None:
        metadata = _metadata.given(scope)
        session, path = await self._all.session(record), query(scope).get("path")
        form = (header(scope, b"content-type") or "").partition(";")[
            0
        ].strip().lower() == "multipart/form-data"
        async with contextlib.AsyncExitStack() as stack:
            if form:
                files = await _parts(scope, pieces_of(receive), stack)
            else:
                file: IO[bytes] = stack.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115
                async for piece in _plain(pieces_of(receive), header(scope, b"content-encoding")):
                    _write(file, piece)
                files = [("", file)]
            written = await self._write(record, session, path, files)
        if metadata:
            await _metadata.store(session, [row["path"] for row in written], metadata)
            written = [{**row, "metadata": metadata} for row in written]
        await answer(send, 200, written)

    async def _write(
        self, record: Record, session: AsyncSession, path: str | None, files: list[tuple[str, IO[bytes]]]
    ) -> list[dict[str, Any]]:
        if not files:
            raise Refused(400, "there is no file in the request")
        if path is None and any(not name for name, _ in files):
            raise Refused(400, "'path' is missing")
        if path is not None and len(files) > 1:
            raise Refused(400, "'path' is for one file, and there are several")
        written = []
        for name, file in files:
            place = path_of(record, path if path is not None else name)
            file.seek(0)
            await session.files.write(place, file)
            written.append({"name": posixpath.basename(place), "type": "file", "path": place})
        return written


async def _parts(
    scope: Scope, pieces: AsyncIterator[bytes], stack: contextlib.AsyncExitStack
) -> list[tuple[str, IO[bytes]]]:
    """The files of a form, each with the name that it has there: a path, as E2B's SDKs write it. Raises Refused."""
    refusal = Refused(413, f"an upload has {_MOST} bytes at most")
    form = files_of(scope["headers"], bounded(pieces, _MOST, refusal), _MOST_FILES)
    try:
        items = await stack.enter_async_context(form)
    except ValueError as error:
        raise Refused(400, f"the form cannot be read: {error}") from None
    return [((item.filename or "").replace("%22", '"'), item.file) for item in items]


def _write(file: IO[bytes], piece: bytes) -> None:
    if file.tell() + len(piece) > _MOST:
        raise Refused(413, f"an upload has {_MOST} bytes at most")
    file.write(piece)


async def _plain(pieces: AsyncIterator[bytes], encoding: str | None) -> AsyncIterator[bytes]:
    """What a body says, however it is encoded. Raises Refused."""
    if encoding in (None, "", "identity"):
        async for piece in pieces:
            yield piece
        return
    if encoding not in ("gzip", "deflate"):
        raise Refused(415, f"content-encoding {encoding} is not known; gzip is")
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        async for piece in pieces:
            while piece:
                yield unpacking.decompress(piece, _PIECE)
                piece = unpacking.unconsumed_tail
        yield unpacking.flush()
    except zlib.error:
        raise Refused(400, f"the body is no {encoding}") from None
    if not unpacking.eof:
        raise Refused(400, "the body ends too early")
