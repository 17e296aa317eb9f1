"""Standard input and output without threads, which a call would wait for three times.

What else reads standard input finds its end, and what else writes to standard output writes to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server

LINE = 64 << 20  # bytes of a message


class _Lines:
    """What the SDK reads of a file."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        try:
            line = await self._reader.readline()
        except ValueError:
            print(f"limpet mcp: the client has sent a message of more than {LINE} bytes", file=sys.stderr)
            line = b""
        if not line:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")


class _Output:
    """What the SDK does with a file it writes to. Waits while the client does not read.

    A client that has closed it is gone: nothing more is read from it either.
    """

    def __init__(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        self._writer = writer
        self._reader = reader

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        try:
            await self._writer.drain()
        except ConnectionError:
            self._reader.feed_eof()
            raise anyio.ClosedResourceError from None


@contextlib.asynccontextmanager
async def streams() -> AsyncIterator[tuple[Any, Any]]:
    """Those of the SDK's ``stdio_server()``, which reads and writes anything else than pipes and sockets itself."""
    if not all(map(_is_pipe, (0, 1))):
        async with stdio_server() as both:
            yield both
        return
    source, target = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, target)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    lines, output = (
        cast("anyio.AsyncFile[str]", _Lines(reader)),
        cast("anyio.AsyncFile[str]", _Output(writer, reader)),
    )
    async with stdio_server(lines, output) as both:
        yield both


def _is_pipe(number: int) -> bool:
    mode = os.fstat(number).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
