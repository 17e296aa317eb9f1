"""One flow for both clients: a coroutine that a blocking caller runs to its end without an event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

from .. import AsyncClient, Client

T = TypeVar("T")
C = TypeVar("C", Client, AsyncClient)
AnyClient = Client | AsyncClient
_Lifetime = AsyncGenerator[None, None]


async def settled(value: Any) -> Any:
    """What a method of either client returned, waited for where it has to be."""
    return await value if inspect.isawaitable(value) else value


def finish(flow: Coroutine[Any, Any, T]) -> T:
    """Runs a flow over a blocking client, in which nothing is left to wait for."""
    try:
        flow.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    flow.close()
    raise RuntimeError("a flow over a blocking client has waited for an event loop")


class Clients:
    """The way to one controller, for callers in threads and on event loops."""

    def __init__(self, client: AnyClient | None) -> None:
        if client is not None and not isinstance(client, (Client, AsyncClient)):
            raise TypeError(f"client must be a limpet.Client or limpet.AsyncClient, not {client!r}")
        self._given = client
        self._blocking = client if isinstance(client, Client) else None
        self._lock = threading.Lock()
        # One of each event loop, as an AsyncClient belongs to one at a time; and what ends it.
        self._of_loops: dict[asyncio.AbstractEventLoop, tuple[AsyncClient, _Lifetime]] = {}

    def blocking(self) -> Client:
        with self._lock:
            if self._blocking is None:
                self._blocking = self._other(Client)
            return self._blocking

    async def of_this_loop(self) -> AsyncClient:
        if isinstance(self._given, AsyncClient):
            return self._given
        loop = asyncio.get_running_loop()
        with self._lock:
            for other in [other for other in self._of_loops if other.is_closed()]:
                del self._of_loops[other]
            known = self._of_loops.get(loop)
            if known is not None:
                return known[0]
            client = self._other(AsyncClient)
            lifetime = self._lifetime(loop, client)
            self._of_loops[loop] = client, lifetime
        await lifetime.__anext__()
        return client

    async def _lifetime(self, loop: asyncio.AbstractEventLoop, client: AsyncClient) -> _Lifetime:
        """Of the client of a loop. Begun on it and never gone on with, so that the loop, which ends its
        asynchronous generators when it is shut down, closes the client.
        """
        try:
            yield
        finally:
            with self._lock:
                self._of_loops.pop(loop, None)
            await client.close()

    def _other(self, kind: type[C]) -> C:
        """A client of the other kind, of the same controller."""
        if self._given is None:
            return kind()
        made: C = self._given._counterpart(**self._given._arguments())
        return made
