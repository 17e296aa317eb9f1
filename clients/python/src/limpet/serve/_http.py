"""Requests and answers over ASGI, for every door."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.datastructures import Headers as FormHeaders
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from ._problems import Disconnected
from ._rates import hold

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")


def heads(scope: Scope) -> dict[bytes, bytes]:
    """The headers, by name in lower case; of those that come twice the first."""
    return dict(reversed(scope["headers"]))


async def pieces_of(receive: Receive) -> AsyncIterator[bytes]:
    """The body of a request, as it comes. Raises Disconnected."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        more = message.get("more_body", False)
        if message.get("body"):
            yield message["body"]


async def bounded(pieces: AsyncIterator[bytes], most: int, refusal: Exception) -> AsyncIterator[bytes]:
    """The same pieces; ``refusal`` is raised where they are larger than ``most`` bytes."""
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > most:
            raise refusal
        yield piece


async def body_of(receive: Receive, most: int, refusal: Exception) -> bytes:
    """The body of a request. Raises Disconnected, or ``refusal`` where it is larger than ``most`` bytes."""
    body = bytearray()
    async for piece in bounded(pieces_of(receive), most, refusal):
        hold(len(piece))
        body += piece
    return bytes(body)


@contextlib.asynccontextmanager
async def files_of(
    headers: Headers, pieces: AsyncIterator[bytes], most: int
) -> AsyncIterator[list[UploadFile]]:
    """The files of a form. What is larger than one megabyte lies on the disk meanwhile.

    Raises ValueError where the form is malformed, or has more than ``most`` files or fields.
    """
    parser = MultiPartParser(FormHeaders(raw=list(headers)), pieces, max_files=most, max_fields=most)  # type: ignore[arg-type]
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise ValueError(str(getattr(error, "message", error))) from None
    try:
        yield [item for _, item in form.multi_items() if isinstance(item, UploadFile)]
    finally:
        await form.close()


async def respond(send: Send, status: int, body: bytes, headers: Headers = (), head: bool = False) -> None:
    """Answers with bytes. ``head``: they are not sent, as the answer to HEAD."""
    length = [] if status in (204, 304) else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": b"" if head else body})


@contextlib.asynccontextmanager
async def while_there(receive: Receive) -> AsyncIterator[asyncio.Future[None]]:
    """A future that ends when the client leaves; the whole request has been received."""
    leaving = asyncio.ensure_future(_left(receive))
    try:
        yield leaving
    finally:
        leaving.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def ended(task: asyncio.Future[Any]) -> None:
    """Cancels, and waits until that is done."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


async def stream(
    receive: Receive, send: Send, pieces: AsyncIterator[bytes], ending: asyncio.Event | None = None
) -> None:
    """Sends the body of an answer that has begun, and stops when the client leaves, or the gateway is to end."""
    closing = None if ending is None else asyncio.ensure_future(ending.wait())
    async with while_there(receive) as leaving:
        sending = asyncio.ensure_future(_send_all(send, pieces))
        try:
            waited = {each for each in (sending, leaving, closing) if each is not None}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if closing is not None:
                closing.cancel()
            if not sending.done():
                await ended(sending)
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()
    if not sending.cancelled() and (error := sending.exception()) is not None:
        raise error


async def _send_all(send: Send, pieces: AsyncIterator[bytes]) -> None:
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
