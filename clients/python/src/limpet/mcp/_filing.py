"""The tools for files of the sandbox."""

from __future__ import annotations

import base64
import binascii
import io
import mimetypes
from typing import Annotated, Any, Literal

import mcp_types as types
from pydantic import Field

from .. import AsyncSession, TooLarge
from .._adapters import telling
from . import _results
from ._calls import Call
from ._running import Arguments

READ = 32 << 20  # bytes of a file that are read
BASE64 = 1 << 20  # bytes of a file that are sent as base64
FILE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "type": {"enum": ["file", "directory", "symlink", "other"]},
        "size": {"type": "integer"},
    },
    "required": ["path", "type", "size"],
}
LIST: dict[str, Any] = {
    "type": "object",
    "properties": {"entries": {"type": "array", "items": FILE}, "more": {"type": "integer"}},
    "required": ["entries", "more"],
}

Path = Annotated[str, Field(min_length=1, description="absolute, or relative to /session")]
Encoding = Literal["text", "base64"]


class ReadFile(Arguments):
    path: Path
    offset: int = Field(default=0, ge=0, description="line to begin at, from 0")
    limit: int = Field(default=1000, gt=0, description="lines at most")
    encoding: Encoding = Field(default="text", description="base64: all bytes, for files that are no text")


class WriteFile(Arguments):
    path: Path
    content: str = Field(description="all that the file will have")
    encoding: Encoding = Field(default="text", description="of content")


class ListFiles(Arguments):
    path: Path = "/session"
    depth: int = Field(default=1, ge=1, le=16, description="levels")


async def read_file(call: Call, given: ReadFile) -> types.CallToolResult:
    session = await call.place.session()
    data = await call.place.call(read(session, given.path, READ))
    kind = mimetypes.guess_type(given.path)[0]
    if given.encoding == "base64":
        if len(data) > BASE64:
            return _results.of_problem(f"{given.path} has {len(data)} bytes; base64 is for {BASE64} at most")
        return _results.of_text(base64.b64encode(data).decode())
    if kind in telling.IMAGE_TYPES and len(data) <= call.limits.image_bytes:
        image = types.ImageContent(data=base64.b64encode(data).decode(), mime_type=kind)
        return types.CallToolResult(content=[image])
    if telling.is_binary(data):
        text = f'{given.path} is no text: {len(data)} bytes. Use code to look into it, or encoding="base64".'
        return _results.of_problem(text)
    text = telling.page_of(data, given.offset, given.limit, call.limits.chars)
    if "\ufffd" in text and not _is_utf8(data):
        text += "\n[the file is not UTF-8; bytes that are not are shown as \ufffd]"
    return _results.of_text(text)


async def write_file(call: Call, given: WriteFile) -> types.CallToolResult:
    try:
        data = (
            base64.b64decode(given.content, validate=True)
            if given.encoding == "base64"
            else given.content.encode()
        )
    except binascii.Error as error:
        return _results.of_problem(f"content is no base64: {error}")
    session = await call.place.session()
    await call.place.call(session.files.write(given.path, data))
    return _results.of_text(f"{given.path}: {len(data)} bytes written")


async def list_files(call: Call, given: ListFiles) -> types.CallToolResult:
    session = await call.place.session()
    entries = await call.place.call(session.files.list(given.path, given.depth))
    shown = [
        {"path": telling.readable(entry.path), "type": entry.type, "size": entry.size}
        for entry in entries[: telling.ENTRIES]
    ]
    data = {"entries": shown, "more": len(entries) - len(shown)}
    return _results.of_text(telling.listing_of(given.path, entries), data)


class _Bounded(io.BytesIO):
    def __init__(self, path: str, limit: int) -> None:
        super().__init__()
        self._path, self._limit = path, limit

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._limit:
            raise TooLarge(f"{telling.readable(self._path)} has more than {self._limit} bytes")
        return super().write(data)


async def read(session: AsyncSession, path: str, limit: int) -> bytes:
    """A file of the sandbox. TooLarge where it has more bytes."""
    target = _Bounded(path, limit)
    await session.files.read(path, target)
    return target.getvalue()


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
