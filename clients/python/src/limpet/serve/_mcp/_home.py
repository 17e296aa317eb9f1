"""The sessions of an owner of the gateway, as MCP uses them."""

from __future__ import annotations

import contextlib

from ... import AsyncSession, LimitReached, NoSuchSession, Result, TooLarge
from ...mcp._place import Begin, Callbacks, Home
from .._gateway import Gateway
from .._keys import Owner
from .._onlookers import Shown
from .._problems import Problem


class OwnersHome(Home):
    """They count in the owner's limits, and are those that the owner has by every door."""

    shows_paths = False

    def __init__(self, gateway: Gateway, owner: Owner) -> None:
        super().__init__(gateway.client, {})
        self.timeout = gateway.tool_seconds()
        self._gateway = gateway
        self._owner = owner

    async def open(self, name: str | None) -> AsyncSession:
        """A session of this name, or a new one."""
        try:
            return await self._gateway.open(self._owner, name, {})
        except Problem as problem:
            raise LimitReached(problem.detail) from None

    async def close(self, session: AsyncSession) -> None:
        """Ends a session."""
        with contextlib.suppress(NoSuchSession):
            await self._gateway.close(self._owner, self.name_of(session.name) or "")

    def name_of(self, session: str | None) -> str | None:
        """What its owner calls a session."""
        return None if session is None else self._gateway.name(self._owner, session)

    def check(self, code: str) -> None:
        """Whether this may be run. Raises TooLarge."""
        try:
            self._gateway.check_input(code)
        except Problem as problem:
            raise TooLarge(problem.detail) from None

    async def run(
        self, session: AsyncSession, run_id: str, kind: str, code: str, begin: Begin, callbacks: Callbacks
    ) -> Result:
        """Makes a call, which those see who look at the session."""
        shown = Shown(self._gateway, self._owner, session, run_id)
        return await shown.call(kind, code, begin, callbacks)

    def ran(self, result: Result) -> None:
        """A call has ended."""
        self._gateway.watch.ran(result.kind, result.status, result.state)
