"""The MCP servers of the gateway: one for each owner, who cannot even name what others have."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from pydantic import ValidationError
from sse_starlette.sse import AppStatus

from ... import Tools
from ..._adapters import times
from ..._adapters.telling import Limits
from ...mcp._place import Place
from ...mcp._server import TOOLS, make
from .._gateway import Gateway
from .._http import Receive, Scope, Send, heads
from .._keys import Owner
from ._home import OwnersHome

Context = ServerRequestContext[Any, Any]

CHARS, IMAGES = 20_000, 4  # of one result, as with standard output
BODY = 32 << 20  # bytes of a request
CONNECTIONS = 64  # with a handshake, of one owner
PLACES = 1024  # connections, and sessions by name, of one owner
IDLE = 1800.0  # seconds for which a connection is kept where sessions are for ever
_NAME = "limpet.mcp.session"  # of the scope
_KNOWN = ("initialize", "ping", "server/discover", "tools/list", "resources/list", "resources/templates/list",
          "resources/read", "tools/call", "tasks/get", "tasks/update", "tasks/cancel")  # fmt: skip


class Owners:
    """All of them, made with the first request of each."""

    def __init__(self, gateway: Gateway, tools: Tools, allowed: set[str]) -> None:
        AppStatus.enable_automatic_graceful_drain = (
            False  # requests that run may end; the gateway ends the others
        )
        self._gateway = gateway
        self._tools, self._allowed = tools, allowed
        self._servers: dict[str, _OwnersServer] = {}

    async def answer(
        self, owner: Owner, name: str | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answers a request of this owner, who wants the session of that name."""
        if owner.id not in self._servers:
            self._servers[owner.id] = _OwnersServer(self._gateway, owner, self._tools, self._allowed)
        scope[_NAME] = name
        await self._servers[owner.id].answer(scope, receive, send)

    async def end(self) -> None:
        """Ends what the clients have begun."""
        await asyncio.gather(*(server.end() for server in self._servers.values()))


class _OwnersServer:
    def __init__(self, gateway: Gateway, owner: Owner, tools: Tools, allowed: set[str]) -> None:
        self._gateway = gateway
        self._owner = owner
        self._home = OwnersHome(gateway, owner)
        self._places: dict[tuple[str | None, str | None], _Kept] = {}
        self._idle = gateway.settings.session_ttl_s or IDLE
        server = make(self._place, Limits(CHARS, IMAGES, longer=times.longer("timeout")), tools, allowed)
        server.middleware.insert(0, self._watched)
        self._manager = StreamableHTTPSessionManager(
            server, session_idle_timeout=self._idle, max_request_body_size=BODY, max_sessions=CONNECTIONS
        )
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.ensure_future(self._run())

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.shield(self._ready)
        work = self._manager.handle_request(scope, receive, send)
        if scope["method"] == "GET":  # a stream without a request would go on for ever
            await self._gateway.unless_ending(work)
            return
        await work
        if scope["method"] == "DELETE":
            await self._leave(heads(scope).get(MCP_SESSION_ID_HEADER.encode(), b"").decode("latin-1"))

    async def end(self) -> None:
        self._running.cancel()
        await asyncio.wait((self._running,))
        await asyncio.gather(*(kept.place.end() for kept in self._places.values()))

    async def _run(self) -> None:
        async with self._manager.run():
            self._ready.set_result(None)
            while True:
                await asyncio.sleep(min(self._idle / 2, 15))
                await self._sweep()

    async def _leave(self, connection: str) -> None:
        """The client has ended its connection."""
        for key in [key for key in self._places if key[0] == connection]:
            await self._places.pop(key).place.end()

    async def _sweep(self) -> None:
        """Ends what nobody has used for long. A client that comes again is told that its variables are gone."""
        now = time.monotonic()
        for key, kept in list(self._places.items()):
            if not kept.users and not kept.place.is_busy and now - kept.used > self._idle:
                del self._places[key]
                await kept.place.end()

    def _place(self, context: Context) -> Place:
        return self._kept(context).place

    def _kept(self, context: Context) -> _Kept:
        """That of the connection. Where the protocol has none, clients of the same name share a session."""
        assert context.request is not None
        connection, name = context.request.headers.get(MCP_SESSION_ID_HEADER), context.request.scope[_NAME]
        if connection is None and name is None:
            client = context.session.client_params
            name = f"mcp-{_plain(client.client_info.name) if client is not None else 'client'}"
        key = connection, name
        if key not in self._places:
            if len(self._places) >= PLACES:
                raise MCPError(INTERNAL_ERROR, "too many connections and sessions at once; end some, or wait")
            self._places[key] = _Kept(Place(self._home, name))
        return self._places[key]

    async def _watched(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Writes each request down, and holds what it uses."""
        if ctx.request_id is None or ctx.request is None:
            return await call_next(ctx)
        started, status = time.monotonic(), 500
        try:
            with self._kept(ctx) if ctx.method != "initialize" else contextlib.nullcontext():
                result = await call_next(ctx)
            status = 200
            return result
        except (MCPError, ValidationError):
            status = 400
            raise
        finally:
            self._gateway.watch.request("mcp", _operation(ctx), self._owner.name, status, started)


class _Kept:
    """A place, and when it was used last. Entered while it is."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.users = 0
        self.used = time.monotonic()

    def __enter__(self) -> None:
        self.users += 1

    def __exit__(self, *_: object) -> None:
        self.users -= 1
        self.used = time.monotonic()


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:40].lower() or "client"


def _operation(context: Context) -> str:
    """One of a small number."""
    tool = str((context.params or {}).get("name"))
    if context.method == "tools/call" and tool in TOOLS:
        return f"tools/call {tool}"
    return context.method if context.method in _KNOWN else "other"
