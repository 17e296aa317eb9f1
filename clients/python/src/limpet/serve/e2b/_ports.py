"""Ports of a sandbox, for browsers and clients of any kind: HTTP and websockets are handed on to what listens there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import h11
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Subprotocol

from ... import AsyncSession, NotListening
from .._http import Headers, Receive, Scope, Send, ended, pieces_of
from .._problems import Disconnected
from .._who import key_of
from ._http import Refused
from ._network import masked
from ._records import Record
from ._sandboxes import Sandboxes

_PIECE = 64 << 10
_MOST_MESSAGE = 16 << 20

# What is between two hops, and what opens the gateway: neither is for the sandbox.
_OURS = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer", b"upgrade",
    b"proxy-connection", b"e2b-traffic-access-token", b"e2b-sandbox-id", b"e2b-sandbox-port", b"x-api-key",
    b"x-access-token",
}  # fmt: skip
_OF_HANDSHAKE = {
    b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-extensions", b"sec-websocket-protocol", b"host",
}  # fmt: skip


class Ports:
    """Hands requests on."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._all = sandboxes

    async def http(self, record: Record, port: int, scope: Scope, receive: Receive, send: Send) -> int:
        """A request; returns the status."""
        reader, writer = await self._connected(record, port)
        link = _Link(reader, writer)
        uploading: asyncio.Future[Any] | None = None
        try:
            await link.write(_request(scope, port, masked(record.mask, port)))
            uploading = asyncio.ensure_future(link.upload(receive))
            return await link.answer(send, uploading)
        except (h11.RemoteProtocolError, OSError) as error:
            if link.begun:
                raise Disconnected from error
            raise Refused(
                502, f"what listens on port {port} does not answer in HTTP: {error}", port=port
            ) from None
        finally:
            if uploading is not None:
                await ended(uploading)
            writer.close()

    async def websocket(self, record: Record, port: int, scope: Scope, receive: Receive, send: Send) -> None:
        """A connection, until one of both ends it."""
        await receive()
        session = await self._session(record, port)
        try:
            sock = await session.connect(port)
        except NotListening:
            await send({"type": "websocket.close", "code": 1013, "reason": f"port {port} is not open"})
            return
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in _handed_on(scope, _OF_HANDSHAKE)
        ]
        path = (scope.get("raw_path") or b"/").decode("latin-1").partition("?")[0]
        query = scope["query_string"].decode("latin-1")
        try:
            far = await connect(
                f"ws://{masked(record.mask, port) or f'localhost:{port}'}{path}{'?' + query if query else ''}",
                sock=sock, additional_headers=headers,
                subprotocols=[Subprotocol(each) for each in scope["subprotocols"]] or None,
                user_agent_header=None, max_size=_MOST_MESSAGE, proxy=None, open_timeout=30,
            )  # fmt: skip
        except (InvalidHandshake, OSError, asyncio.TimeoutError, EOFError) as error:
            await send({"type": "websocket.close", "code": 1014, "reason": str(error)[:100]})
            return
        async with far:
            await send({"type": "websocket.accept", "subprotocol": far.subprotocol})
            await _both(far, receive, send)

    async def _session(self, record: Record, port: int) -> AsyncSession:
        return await self._all.base(record)

    async def _connected(
        self, record: Record, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._all.gateway.settings.fleet is not None:
            raise Refused(501, "ports of a sandbox in a pod cannot be reached through the gateway", port=port)
        session = await self._session(record, port)
        try:
            return await asyncio.open_connection(sock=await session.connect(port))
        except NotListening:
            raise Refused(
                502, "The sandbox is running but port is not open", sandboxId=record.id, port=port
            ) from None


class _Link:
    """A connection to a server in the sandbox, for one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._wire = h11.Connection(h11.CLIENT)
        self.begun = False

    async def write(self, event: Any) -> None:
        data = self._wire.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def upload(self, receive: Receive) -> None:
        """The body of the request, as it comes."""
        async for piece in pieces_of(receive):
            await self.write(h11.Data(data=piece))
        await self.write(h11.EndOfMessage())
        while (await receive())["type"] != "http.disconnect":
            pass
        raise Disconnected

    async def answer(self, send: Send, uploading: asyncio.Future[Any]) -> int:
        """The server's answer, as it comes, unless the client leaves. Returns the status."""
        events, status = self._events(), 502
        while True:
            coming = asyncio.ensure_future(events.__anext__())
            await asyncio.wait({coming, uploading}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done() and uploading.done() and isinstance(uploading.exception(), Disconnected):
                await ended(coming)
                raise Disconnected
            try:
                event = await coming
            except StopAsyncIteration:
                return status
            if isinstance(event, h11.Response):
                self.begun, status = True, event.status_code
                headers = [
                    (name, value)
                    for name, value in event.headers
                    if name not in (b"connection", b"keep-alive", b"transfer-encoding")
                ]
                await send({"type": "http.response.start", "status": status, "headers": headers})
            else:
                await send(event)

    async def _events(self) -> AsyncIterator[Any]:
        while True:
            event = self._wire.next_event()
            if event is h11.NEED_DATA:
                self._wire.receive_data(await self._reader.read(_PIECE))
            elif isinstance(event, h11.Data):
                yield {"type": "http.response.body", "body": bytes(event.data), "more_body": True}
            elif isinstance(event, h11.Response):
                yield event
            elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
                yield {"type": "http.response.body", "body": b""}
                return


def _request(scope: Scope, port: int, host: str) -> h11.Request:
    headers = [*_handed_on(scope, {b"host"} if host else set()), (b"connection", b"close")]
    names = {name for name, _ in headers}
    if scope["method"] in ("POST", "PUT", "PATCH") and not names & {b"content-length", b"transfer-encoding"}:
        headers.append((b"transfer-encoding", b"chunked"))
    if b"host" not in names:
        headers.append((b"Host", (host or f"localhost:{port}").encode()))
    path = (scope.get("raw_path") or b"/").partition(b"?")[0]
    query = scope["query_string"]
    try:
        return h11.Request(
            method=scope["method"], target=path + (b"?" + query if query else b""), headers=headers
        )
    except h11.LocalProtocolError as error:
        raise Refused(400, f"this request cannot be handed on: {error}") from None


def _handed_on(scope: Scope, beside: set[bytes] = frozenset()) -> Headers:  # type: ignore[assignment]
    """The headers that are for the server in the sandbox."""
    for name, value in scope["headers"]:
        is_key = name == b"authorization" and (key_of({name: value}) or "").lower().startswith("e2b_")
        if name in _OURS or name in beside or is_key:
            continue
        yield name, value


async def _both(far: ClientConnection, receive: Receive, send: Send) -> None:
    """Messages in both directions."""
    tasks = {asyncio.ensure_future(_inwards(far, receive)), asyncio.ensure_future(_outwards(far, send))}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            await ended(task)


async def _inwards(far: ClientConnection, receive: Receive) -> None:
    with contextlib.suppress(ConnectionClosed):
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                await far.close(message.get("code") or 1000)
                return
            text = message.get("text")
            await far.send(message["bytes"] if text is None else text)


async def _outwards(far: ClientConnection, send: Send) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for message in far:
            await send({"type": "websocket.send", "text" if isinstance(message, str) else "bytes": message})
    code = (
        far.close_code
        if far.close_code not in (None, 1005, 1006)
        else 1011
        if far.close_code == 1006
        else 1000
    )
    await send({"type": "websocket.close", "code": code, "reason": far.close_reason or ""})
