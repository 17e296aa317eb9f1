"""The asyncio client: the same calls as the blocking one, with ``await``."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from types import TracebackType
from typing import Any, Callable, Iterator, Mapping, Optional, TypeVar, Union

from . import _recovery, _requests, _wire
from ._address import NOBODY, Address, Endpoint
from ._aio_session import AsyncSession
from ._answers import Memory
from ._asking import AioAsking
from ._asks import NO_ASKS, Asks, Function, ToolTime
from ._files import Path
from ._link import Call, Link
from ._recovery import Attempts, ConnectionLost
from ._requests import Body, CheckpointPolicy, Message, Request
from ._stream import Delivery, Stream, stream_of
from ._tools import Tools
from .errors import Error, SessionClosed, Unavailable, is_leave, warn
from .results import Display, Result, SessionInfo

T = TypeVar("T")


class AsyncClient:
    """The way to one controller, for one event loop at a time. Arguments as of :class:`limpet.Client`.

    All tasks share a connection. As an async context manager it closes it at the end; sessions live on.
    """

    def __init__(
        self, address: Address = None, *, autostart: Optional[bool] = None, reconnect_timeout: float = 30.0
    ) -> None:
        self._endpoint = Endpoint(address, autostart)
        self._reconnect_timeout = reconnect_timeout
        self._warning: Optional[str] = None  # of the controller
        self._warned = False
        self._closed = False
        self._memory = Memory()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._link: Optional[Link] = None
        self._connecting: Optional[asyncio.Task[Link]] = None  # all tasks wait for the same one

    async def open(
        self,
        name: str,
        *,
        timeout: Optional[float] = None,
        memory: Union[int, str, None] = None,
        cpus: Optional[float] = None,
        pids: Optional[int] = None,
        disk: Union[int, str, None] = None,
        files: Optional[int] = None,
        data: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        ttl: Optional[float] = None,
        network: Optional[str] = None,
        image: Optional[str] = None,
        checkpoint: Optional[CheckpointPolicy] = None,
        tools: Optional[Tools] = None,
        on_input: Optional[Function] = None,
        approve: Optional[Function] = None,
        tool_time: Optional[ToolTime] = None,
    ) -> AsyncSession:
        """As :meth:`limpet.Client.open`."""
        options = _requests.options(
            timeout=timeout, memory=memory, cpus=cpus, pids=pids, disk=disk, files=files, data=data,
            env=env, ttl=ttl, network=network, image=image, checkpoint=checkpoint,
        )  # fmt: skip
        asks = Asks(tools, on_input, approve, tool_time)
        return AsyncSession(self, await self._request(_requests.open_session(name, options)), asks)

    async def run(
        self,
        code: str,
        timeout: Optional[float] = None,
        on_stdout: Optional[Callable[[str], Any]] = None,
        on_stderr: Optional[Callable[[str], Any]] = None,
        on_display: Optional[Callable[[Display], Any]] = None,
        run_id: Optional[str] = None,
        *,
        memory: Union[int, str, None] = None,
        cpus: Optional[float] = None,
        pids: Optional[int] = None,
        disk: Union[int, str, None] = None,
        files: Optional[int] = None,
        data: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        network: Optional[str] = None,
        image: Optional[str] = None,
        tools: Optional[Tools] = None,
        on_input: Optional[Function] = None,
        approve: Optional[Function] = None,
        tool_time: Optional[ToolTime] = None,
    ) -> Result:
        """Runs code in a clean container for this one call. Otherwise as :meth:`AsyncSession.run`."""
        options = _requests.options(
            memory=memory, cpus=cpus, pids=pids, disk=disk, files=files, data=data, env=env, network=network,
            image=image,
        )  # fmt: skip
        asks = NO_ASKS.but(tools, on_input, approve, tool_time)
        run_id = run_id or _requests.new_run_id()
        stream = stream_of(on_stdout, on_stderr, on_display, asks.mode and self._asking(asks, run_id, None))
        call = _requests.run({}, code, timeout, run_id, stream, asks=asks.mode)
        if options:
            call.body["options"] = options
        return await self._run(call, stream)

    async def sessions(self) -> list[SessionInfo]:
        """The open sessions of the controller."""
        return await self._request(_requests.sessions())

    async def result(self, run_id: str, timeout: Optional[float] = None) -> Optional[Result]:
        """As :meth:`limpet.Client.result`."""
        return await self._request(_requests.result(run_id, timeout))

    async def features(self) -> frozenset[str]:
        """As :meth:`limpet.Client.features`."""
        return await self._request(_requests.features())

    async def shutdown(self) -> None:
        """Ends every session and the controller; returns when all is gone. Starts no controller."""
        await self._request(_requests.shutdown(), start=False)

    async def close(self) -> None:
        """Closes the connection. What other tasks wait for raises SessionClosed. Sessions live on."""
        self._closed = True
        link, self._link = self._link, None
        if self._loop is asyncio.get_running_loop():
            if self._connecting is not None:
                self._connecting.cancel()
            if link is not None:
                await link.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<limpet.AsyncClient {self._endpoint.path}{' (closed)' if self._closed else ''}>"

    async def _connection(self, start: bool, attempts: Attempts) -> Link:
        """This loop's connection. Unavailable when no controller answers, or ConnectionLost."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise SessionClosed("the client is closed")
        if self._loop is not loop:
            self._loop, self._link, self._connecting = loop, None, None
        if self._link is not None and self._link.usable:
            return self._link
        connecting = self._connecting
        if connecting is None or connecting.done():
            connecting = loop.create_task(self._connect(start and self._endpoint.autostart))
            self._connecting = connecting
            connecting.add_done_callback(_note_failure)
        await asyncio.wait({connecting}, timeout=attempts.limit(_recovery.CONNECT_TIMEOUT))
        if self._closed:
            raise SessionClosed("the client was closed")
        if not connecting.done():
            raise self._endpoint.unreachable("it does not answer")
        link = connecting.result()
        if self._warning and not self._warned:  # here, where the caller's line can be seen
            self._warned = True
            warn(self._warning)
        return link

    async def _connect(self, start: bool) -> Link:
        link = await self._dial(start)
        try:
            warning = await asyncio.wait_for(link.hello(), _recovery.HANDSHAKE_TIMEOUT)
        except BaseException as error:
            await link.close()
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
            try:
                return await Link.connect(endpoint.path, _recovery.HANDSHAKE_TIMEOUT)
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
        except OSError as error:
            raise endpoint.unreachable(error) from error

    async def _request(self, request: Request[T], start: bool = True, stream: Optional[Stream] = None) -> T:
        """As of the blocking client."""
        attempts = Attempts(self._endpoint, request.kind, self._reconnect_timeout if start else 0)
        body: Body = request.body
        while True:
            try:
                link = await self._connection(start, attempts)
                attempts.asks()
                return request.read(_requests.answer(await _ask(link, request.kind, body, stream)))
            except ConnectionLost as lost:
                if self._closed:
                    raise SessionClosed("the client was closed") from lost
                if stream is not None:
                    body = stream.lost(body)
                pause = attempts.pause(lost)
            except Unavailable as error:
                if stream is not None and error is stream.failure:
                    raise
                pause = attempts.pause(error)
            await asyncio.sleep(pause)

    async def _run(self, call: Request[Result], stream: Optional[Stream]) -> Result:
        try:
            result = await self._request(call, stream=stream)
            if stream is not None:
                await self._hear_the_rest(result, stream)
            return result
        except BaseException as error:
            own = isinstance(error, Error) and (stream is None or error is not stream.failure)
            if not own and not is_leave(error):
                await self._abandon(call.body["run_id"], error)
            raise
        finally:
            if stream is not None:
                stream.end()

    async def _hear_the_rest(self, result: Result, stream: Stream) -> None:
        if stream.asking is not None:
            self._memory.forget(result.run_id)
        for delivery in stream.rest(result):
            await _call(delivery)

    def _asking(self, asks: Asks, run_id: str, session: Optional[str]) -> AioAsking:
        """For a call of which something can be answered."""
        return AioAsking(asks, self._memory.of(run_id), run_id, session)

    async def _abandon(self, run_id: str, reason: BaseException) -> None:
        """Interrupts a call whose caller wants to leave, and waits a little for its record."""
        task = asyncio.ensure_future(self._interrupted(run_id))
        try:
            await asyncio.wait({task}, timeout=_recovery.ABANDON_TIMEOUT)
        finally:
            task.cancel()
        if task.done() and not task.cancelled() and task.result() is not None:
            with contextlib.suppress(AttributeError):
                reason.limpet_result = task.result()  # type: ignore[attr-defined]

    async def _interrupted(self, run_id: str) -> Optional[Result]:
        try:
            await self._request(_requests.interrupt(run_id), start=False)
            return await self._request(_requests.result(run_id), start=False)
        except Error:
            return None  # it never started, or the controller is gone: nothing to wait for


async def _ask(link: Link, kind: int, body: Body, stream: Optional[Stream]) -> Message:
    """Returns the reply or error, after handing the events to the stream's callbacks."""
    if stream is None:
        return await link.ask(kind, body)
    with link.call(kind, body) as call, _attached(stream, call):
        while True:
            message = await call.next()
            if message[0] in (_wire.REPLY, _wire.ERROR):
                return message
            delivery = stream.event(*message)
            if delivery:
                try:
                    await _call(delivery)
                except BaseException as error:
                    stream.failure = error
                    raise
            count = stream.credit()
            if count:
                call.credit(count)


@contextlib.contextmanager
def _attached(stream: Stream, call: Call) -> Iterator[None]:
    stream.attach(call)
    try:
        yield
    finally:
        stream.detach()


async def _call(delivery: Delivery) -> None:
    result = delivery[0](delivery[1])
    if inspect.isawaitable(result):
        await result


def _note_failure(connecting: asyncio.Task[Link]) -> None:
    """All that waited may have been cancelled: asyncio is not to complain that nobody saw the exception."""
    if not connecting.cancelled():
        connecting.exception()
