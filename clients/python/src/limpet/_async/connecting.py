"""The way to the controller with asyncio: what cannot be generated from it for the blocking client."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any, ClassVar, ParamSpec, TypeVar

from .._calls._answers import Memory
from .._calls._asking import AioAsking
from .._calls._asks import Asks
from .._connection import _recovery
from .._connection._address import NOBODY, Address, Endpoint, remade
from .._connection._dialling import SECONDS
from .._connection._keys import KeyFile
from .._connection._recovery import Attempts, ConnectionLost
from .._copying._bringing import Artifacts, chosen
from ..errors import Error, SessionClosed, Unavailable, warn
from .link import Link

T = TypeVar("T")
P = ParamSpec("P")

Lock = asyncio.Lock


class Connecting:
    """The connection of a client: one for all tasks of an event loop, which is one at a time."""

    _counterpart: ClassVar[type[Any]]  # the other kind of client, which takes the same arguments

    def __init__(
        self,
        address: Address = None,
        *,
        autostart: bool | None = None,
        reconnect_timeout: float = 30.0,
        key: KeyFile = None,
        server_key: str | None = None,
        artifacts: Artifacts = None,
        progress: bool = False,
    ) -> None:
        self._endpoint = Endpoint(address, autostart, key, server_key)
        self._artifacts = artifacts
        self._progress = progress
        self._landing = chosen(artifacts) if self._endpoint.far else None
        self._reconnect_timeout = reconnect_timeout
        self._warning: str | None = None  # of the controller
        self._warned = False
        self._closed = False
        self._memory = Memory()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._link: Link | None = None
        self._connecting: asyncio.Task[Link] | None = None  # all tasks wait for the same one
        self._starts = False  # whether that one starts a controller

    def __reduce__(self) -> tuple[Any, ...]:
        """By its arguments: a copy has connections of its own."""
        return remade, (type(self), self._arguments())

    def _arguments(self) -> dict[str, Any]:
        """Of a client of the same controller, of either kind."""
        return {
            **self._endpoint.arguments(),
            "reconnect_timeout": self._reconnect_timeout,
            "artifacts": self._artifacts,
            "progress": self._progress,
        }

    @property
    def address(self) -> str:
        """Path of the controller's socket, or the address of one on another machine."""
        return self._endpoint.path

    @property
    def autostart(self) -> bool:
        """Whether a controller is started when none listens."""
        return self._endpoint.autostart

    @property
    def reconnect_timeout(self) -> float:
        """Seconds for which a call looks for a controller that went away meanwhile."""
        return self._reconnect_timeout

    async def close(self) -> None:
        """Closes the connection. What other tasks wait for raises SessionClosed. Sessions live on."""
        self._closed = True
        link, self._link = self._link, None
        if self._loop is asyncio.get_running_loop():
            if self._connecting is not None:
                self._connecting.cancel()
            if link is not None:
                await link.close()
        elif link is not None and self._loop is not None and not self._loop.is_running():
            link.abandon()
        elif link is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(link.abandon)

    async def _connection(self, start: bool, attempts: Attempts) -> Link:
        """This loop's connection. Unavailable when no controller answers, or ConnectionLost."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise SessionClosed("the client is closed")
        self._belong_to(loop)
        if self._link is not None and self._link.usable:
            return self._link
        start = start and self._endpoint.autostart
        while True:
            connecting, starts = self._begun(loop, start)
            await asyncio.wait({connecting}, timeout=attempts.limit(_recovery.CONNECT_TIMEOUT))
            if self._closed:
                raise SessionClosed("the client was closed")
            if not connecting.done():
                raise self._endpoint.unreachable("it does not answer")
            if starts or not start or connecting.cancelled() or connecting.exception() is None:
                break  # otherwise it was begun for somebody for whom no controller is started
        link = connecting.result()
        if self._warning and not self._warned:  # here, where the caller's line can be seen
            self._warned = True
            warn(self._warning)
        return link

    def _belong_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """The connection is this loop's. RuntimeError while another one runs that has it."""
        if self._loop is loop:
            return
        if self._loop is not None and self._loop.is_running():
            raise RuntimeError("the client belongs to another event loop, which runs: each needs its own")
        if self._link is not None:
            self._link.abandon()
        self._loop, self._link, self._connecting = loop, None, None

    def _begun(self, loop: asyncio.AbstractEventLoop, start: bool) -> tuple[asyncio.Task[Link], bool]:
        """The task that connects, and whether it starts a controller where there is none."""
        connecting = self._connecting
        if connecting is None or connecting.done():
            connecting = self._connecting = loop.create_task(self._connect(start))
            self._starts = start
            connecting.add_done_callback(_note_failure)
        return connecting, self._starts

    async def _connect(self, start: bool) -> Link:
        link = await self._dial(start)
        try:
            limit = SECONDS if self._endpoint.dialled else _recovery.HANDSHAKE_TIMEOUT
            warning = await asyncio.wait_for(link.hello(), limit)
        except BaseException as error:
            await link.close()
            if (told := await link.failure(error)) is not error:
                raise told from error
            if isinstance(error, asyncio.TimeoutError):
                raise self._endpoint.unreachable("it does not answer") from error
            if isinstance(error, ConnectionLost):
                raise ConnectionLost(error, sent=False) from error
            raise
        self._warning = warning
        self._link = link
        return link

    async def _dial(self, start: bool) -> Link:
        endpoint = self._endpoint
        try:
            endpoint.check()
            if endpoint.dialled:
                return await Link.dial(endpoint.path)
            if endpoint.keys is not None:
                from . import remote  # and with it libzmq, which is for networks alone

                return await remote.connect(endpoint.path, endpoint.keys, _recovery.HANDSHAKE_TIMEOUT)
            try:
                return await self._reach()
            except NOBODY:
                if not start:
                    raise
            try:
                await asyncio.to_thread(endpoint.start, _recovery.START_TIMEOUT)
            except Unavailable:
                with contextlib.suppress(OSError):  # somebody else was quicker
                    return await Link.connect(endpoint.path, _recovery.HANDSHAKE_TIMEOUT)
                raise
            return await Link.connect(endpoint.path, _recovery.HANDSHAKE_TIMEOUT)
        except Error:  # some are OSErrors too
            raise
        except OSError as error:
            raise endpoint.unreachable(error) from error

    async def _reach(self) -> Link:
        """The controller that runs: this user's, or root's where this user may use it."""
        endpoint = self._endpoint
        try:
            link = await Link.connect(endpoint.path, _recovery.HANDSHAKE_TIMEOUT)
        except NOBODY:
            for path in endpoint.others():
                with contextlib.suppress(OSError):
                    link = await Link.connect(path, _recovery.HANDSHAKE_TIMEOUT)
                    endpoint.settle(path)
                    return link
            raise
        endpoint.settle(endpoint.path)
        return link

    def _asking(self, asks: Asks, run_id: str, session: str | None) -> AioAsking:
        """For a call of which something can be answered."""
        return AioAsking(asks, self._memory.of(run_id), run_id, session)


class Opening(Coroutine[Any, Any, T]):
    """A session that is being opened: awaited, or entered by ``async with`` as it is."""

    def __init__(self, made: Coroutine[Any, Any, T]) -> None:
        self._made = made

    def __await__(self) -> Generator[Any, Any, T]:
        return self._made.__await__()

    def send(self, value: Any) -> Any:
        return self._made.send(value)

    def throw(self, *error: Any) -> Any:
        return self._made.throw(*error)

    def close(self) -> None:
        self._made.close()

    async def __aenter__(self) -> T:
        self._opened = await self._made
        return await self._opened.__aenter__()  # type: ignore[attr-defined, no-any-return]

    async def __aexit__(self, *error: Any) -> None:
        await self._opened.__aexit__(*error)  # type: ignore[attr-defined]


def opening(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Opening[T]]:
    """Of a coroutine function that returns a session, so that ``async with`` takes its calls."""

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> Opening[T]:
        return Opening(function(*args, **options))

    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(call)
    return call


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What reads or writes files, so that the loop does not wait for them."""
    return await asyncio.to_thread(function, *arguments)


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def leaving(record: Coroutine[Any, Any, T | None]) -> T | None:
    """Waits a little for the record of a call whose caller wants to leave."""
    task = asyncio.ensure_future(record)
    try:
        await asyncio.wait({task}, timeout=_recovery.ABANDON_TIMEOUT)
    finally:
        task.cancel()
    return task.result() if task.done() and not task.cancelled() else None


def _note_failure(connecting: asyncio.Task[Link]) -> None:
    """All that waited may have been cancelled: asyncio is not to complain that nobody saw the exception."""
    if not connecting.cancelled():
        connecting.exception()
