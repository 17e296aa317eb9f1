"""MCP over HTTP at /mcp: the server of ``limpet mcp`` for everybody who has a key.

Both ways of the protocol at once: with a handshake and a session of the protocol's own, up to 2025-11-25, and without,
since 2026-07-28. Needs the extra ``mcp`` beside ``serve``; what does is loaded with the first request.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import urllib.parse
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ... import NoSuchSession
from ...mcp import _functions, require
from .._app import Door, refuse
from .._gateway import Gateway
from .._http import Receive, Scope, Send, heads
from .._keys import ANONYMOUS, Owner
from .._problems import Problem

if TYPE_CHECKING:
    from ._owners import Owners

__all__ = ["door"]

PATH = "/mcp"
SESSION = b"limpet-session"
"""The header that names the session, as ``?session=`` does."""


def door(gateway: Gateway) -> Door:
    """Claims /mcp."""
    app = _App(gateway)

    def claims(scope: Scope) -> bool:
        return scope["type"] == "http" and str(scope["path"]).rstrip("/") == PATH

    return Door(claims, app, app.life)


class _App:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._allowed = {name.strip() for name in gateway.settings.mcp_allow.split(",") if name.strip()}
        options = ("--mcp-tools", "--mcp-allow")
        self._tools = _functions.of_file(gateway.settings.mcp_tools, self._allowed, options)
        self._loading: asyncio.Future[Owners] | None = None

    @contextlib.asynccontextmanager
    async def life(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            if self._loading is not None:
                await (await self._loading).end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, owner = time.monotonic(), ANONYMOUS
        # httptools leaves the blanks at the end of a value, and some values are compared with the body.
        scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        try:
            owner = self._gateway.admit(scope)
            _refuse_other_sites(scope)
            name = self._session_of(owner, scope)
            if self._loading is None:
                self._loading = asyncio.ensure_future(self._load())
            owners = await asyncio.shield(self._loading)
        except ImportError as error:
            self._loading = None
            await self._refuse(scope, send, owner, started, Problem(501, "NotInstalled", str(error)))
        except Problem as problem:
            await self._refuse(scope, send, owner, started, problem)
        else:
            await owners.answer(owner, name, scope, receive, send)

    async def _load(self) -> Owners:
        await asyncio.to_thread(require)
        from ._owners import Owners

        return Owners(self._gateway, self._tools, self._allowed)

    async def _refuse(self, scope: Scope, send: Send, owner: Owner, started: float, problem: Problem) -> None:
        self._gateway.watch.request("mcp", "refused", owner.name, problem.status, started)
        await refuse(scope, send, problem)

    def _session_of(self, owner: Owner, scope: Scope) -> str | None:
        """The session that the client wants by name. Raises Problem."""
        query = dict(urllib.parse.parse_qsl(scope["query_string"].decode("latin-1")))
        name = query.get("session") or heads(scope).get(SESSION, b"").decode("latin-1") or None
        if name is None:
            return None
        with contextlib.suppress(NoSuchSession):
            self._gateway.inner(owner, name)
            if "/" not in name:
                return name
        raise Problem(400, "BadRequest", "a session's name has up to 54 characters of A-Z a-z 0-9 . _ -")


def _refuse_other_sites(scope: Scope) -> None:
    """Which the protocol asks for, also where a key is shown. Raises Problem."""
    headers = heads(scope)
    origin = headers.get(b"origin")
    if origin is not None and origin.lower().partition(b"://")[2] != headers.get(b"host", b"").lower():
        raise Problem(403, "Denied", "a page of another site may not use MCP here")
