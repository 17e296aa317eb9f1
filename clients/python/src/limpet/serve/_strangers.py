"""Connections of clients that have not said who they are: those by which no request is under way."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Strangers:
    """They share the room that there is by the addresses that they come from: whoever fills it makes room from his own.

    Args:
        most: Of them, at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._n = 0
        self._of: dict[str, dict[Connection, None]] = {}  # by address, the oldest first

    def add(self, connection: Connection) -> None:
        """One more. If that is one too many, the oldest of the address that has most of them ends."""
        self.remove(connection)
        self._of.setdefault(connection.address, {})[connection] = None
        self._n += 1
        if self._n > self._most:
            of_most = max(self._of.values(), key=len)
            oldest = next(iter(of_most))
            self.remove(oldest)
            oldest.transport.abort()

    def remove(self, connection: Connection) -> None:
        """It has said something, or is gone."""
        those = self._of.get(connection.address, {})
        if connection in those:
            del those[connection]
            self._n -= 1
        if not those:
            self._of.pop(connection.address, None)


class Connection(HttpToolsProtocol):
    """A connection of uvicorn's, which is a stranger's before, between and after its requests."""

    strangers: ClassVar[Strangers]

    @property
    def address(self) -> str:
        """Where it comes from."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """It begins."""
        super().connection_made(transport)
        self.strangers.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self.strangers.remove(self)
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """A request begins."""
        self.strangers.remove(self)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """A request has been answered; another one may have come already."""
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self.strangers.add(self)
