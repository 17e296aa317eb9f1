"""The asyncio client: the same calls as the blocking one, with ``await``."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
import warnings
from types import TracebackType
from typing import Any, Callable, Mapping, Optional, Union

from . import _requests, _wire
from ._address import NOBODY, Address, Endpoint
from ._link import Link
from ._opened import Opened
from ._requests import ConnectionLost, Message, Path, Source, Target, field
from ._stream import Delivery, Stream
from .errors import Error, LimpetWarning, NoSuchSession, SessionClosed, Unavailable
from .results import Display, Result, SessionInfo, session_info_from_wire


class AsyncClient:
    """The way to one controller, for one event loop at a time. Arguments as of :class:`limpet.Client`.

    All tasks share a connection. As an async context manager it closes it at the end; sessions live on.
    """

    def __init__(
        self, address: Address = None, *, autostart: Optional[bool] = None, reconnect_timeout: float = 30.0
    ) -> None:
        self._endpoint = Endpoint(address, autostart)
        self._reconnect_timeout = reconnect_timeout
        self._warned = False
        self._closed = False
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._link: Optional[Link] = None

    async def open(
        self,
        name: str,
        *,
        timeout: Optional[float] = None,
        memory: Union[int, str, None] = None,
        cpus: Optional[float] = None,
        pids: Optional[int] = None,
        data: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        ttl: Optional[float] = None,
        network: Optional[str] = None,
        image: Optional[str] = None,
    ) -> AsyncSession:
        """As :meth:`limpet.Client.open`."""
        options = _requests.options(
            timeout=timeout, memory=memory, cpus=cpus, pids=pids, data=data, env=env, ttl=ttl,
            network=network, image=image,
        )  # fmt: skip
        return AsyncSession(self, await self._request(_wire.OPEN, {"session": name, **options}))

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
        data: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        network: Optional[str] = None,
        image: Optional[str] = None,
    ) -> Result:
        """Runs code in a clean container for this one call. Otherwise as :meth:`AsyncSession.run`."""
        options = _requests.options(
            memory=memory, cpus=cpus, pids=pids, data=data, env=env, network=network, image=image
        )  # fmt: skip
        stream = Stream(on_stdout, on_stderr, on_display)
        body = _requests.run({}, code, timeout, run_id, stream.wanted)
        if options:
            body["options"] = options
        return await self._run(body, stream)

    async def sessions(self) -> list[SessionInfo]:
        """The open sessions of the controller."""
        rows = field(await self._request(_wire.SESSIONS, {}), "sessions")
        return [session_info_from_wire(row) for row in rows]

    async def result(self, run_id: str, timeout: Optional[float] = None) -> Optional[Result]:
        """As :meth:`limpet.Client.result`."""
        body = {"run_id": run_id} if timeout is None else {"run_id": run_id, "timeout": timeout}
        record = field(await self._request(_wire.RESULT, body), "record")
        return None if record is None else Result.from_record(record)

    async def shutdown(self) -> None:
        """Ends every session and the controller; returns when all is gone. Starts no controller."""
        await self._request(_wire.SHUTDOWN, {}, start=False)

    async def close(self) -> None:
        """Closes the connection. What other tasks wait for raises SessionClosed. Sessions live on."""
        self._closed = True
        link, self._link = self._link, None
        if link is not None and self._loop is asyncio.get_running_loop():
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

    async def _connection(self, start: bool) -> Link:
        """This loop's connection. Unavailable when no controller answers, or ConnectionLost."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._link, self._lock = loop, None, asyncio.Lock()
        if not self._closed and self._link is not None and self._link.usable:
            return self._link
        async with self._lock:
            if self._closed:
                raise SessionClosed("the client is closed")
            if self._link is None or not self._link.usable:
                self._link = await self._connect(start)
            return self._link

    async def _connect(self, start: bool) -> Link:
        link = await self._dial(start and self._endpoint.autostart)
        try:
            warning = await asyncio.wait_for(link.hello(), _requests.HANDSHAKE_TIMEOUT)
            if self._closed:
                raise SessionClosed("the client is closed")
        except BaseException as error:
            await link.close()
            if isinstance(error, asyncio.TimeoutError):
                raise self._endpoint.unreachable("it does not answer") from error
            if isinstance(error, ConnectionLost):
                raise ConnectionLost(error, sent=False) from error
            raise
        if warning and not self._warned:
            self._warned = True
            warnings.warn(warning, LimpetWarning, stacklevel=2)
        return link

    async def _dial(self, start: bool) -> Link:
        endpoint = self._endpoint
        try:
            endpoint.check()
            try:
                return await Link.connect(endpoint.path)
            except NOBODY:
                if not start:
                    raise
            try:
                await asyncio.to_thread(endpoint.start)
            except Unavailable:
                with contextlib.suppress(OSError):
                    return await Link.connect(endpoint.path)  # somebody else was quicker
                raise
            return await Link.connect(endpoint.path)
        except OSError as error:
            raise endpoint.unreachable(error) from error

    async def _request(self, kind: int, body: Mapping[str, Any], start: bool = True) -> dict[str, Any]:
        """One request that does not stream; asked again when the first had no effect that counts."""
        try:
            return _requests.answer(await (await self._connection(start)).ask(kind, body))
        except ConnectionLost as lost:
            if lost.sent and kind not in _requests.IDEMPOTENT:
                raise self._lost(lost) from lost
        try:
            return _requests.answer(await (await self._connection(start)).ask(kind, body))
        except ConnectionLost as lost:
            raise self._lost(lost) from lost

    def _lost(self, why: ConnectionLost) -> Error:
        return SessionClosed("the client was closed") if self._closed else self._endpoint.unreachable(why)

    async def _run(self, body: dict[str, Any], stream: Stream) -> Result:
        try:
            result = Result.from_record(_requests.answer(await self._ask_until_answered(body, stream)))
            if stream.wanted:
                for delivery in stream.rest(result):
                    await _call(delivery)
            return result
        except Error as error:
            if error is stream.failure:
                await self._abandon(body["run_id"], error)
            raise
        except BaseException as error:
            await self._abandon(body["run_id"], error)
            raise

    async def _ask_until_answered(self, body: dict[str, Any], stream: Stream) -> Message:
        """Asks; after a loss again with the same run_id, which never runs twice."""
        deadline = None
        pause = 0.0
        while True:
            try:
                return await self._ask_run(body, stream)
            except ConnectionLost as lost:
                if self._closed:
                    raise self._lost(lost) from lost
                why: Error = self._lost(lost)
                stream.lost()
                body.pop("stream", None)
                deadline = deadline or time.monotonic() + self._reconnect_timeout
            except Unavailable as error:
                if deadline is None or error is stream.failure:
                    raise
                why = error
            if time.monotonic() + pause >= deadline:
                raise why
            await asyncio.sleep(pause)
            pause = min(2 * pause or _requests.FIRST_PAUSE, _requests.LONGEST_PAUSE)

    async def _ask_run(self, body: Mapping[str, Any], stream: Stream) -> Message:
        link = await self._connection(True)
        if not stream.wanted:
            return await link.ask(_wire.RUN, body)
        with link.call(_wire.RUN, body) as call:
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

    async def _abandon(self, run_id: str, reason: BaseException) -> None:
        """Interrupts a call whose caller wants to leave, and waits a little for its record."""
        task = asyncio.ensure_future(self._interrupted(run_id))
        try:
            await asyncio.wait({task}, timeout=_requests.ABANDON_TIMEOUT)
        finally:
            task.cancel()
        if task.done() and not task.cancelled() and task.result() is not None:
            with contextlib.suppress(AttributeError):
                reason.limpet_result = task.result()  # type: ignore[attr-defined]

    async def _interrupted(self, run_id: str) -> Optional[Result]:
        try:
            await self._request(_wire.INTERRUPT, {"run_id": run_id}, start=False)
            record = field(await self._request(_wire.RESULT, {"run_id": run_id}, start=False), "record")
            return Result.from_record(record)
        except Error:
            return None  # it never started, or the controller is gone: nothing to wait for


class AsyncSession(Opened):
    """Python that stays alive between calls. Made by :meth:`AsyncClient.open`.

    May be used from several tasks: calls queue in order, and :meth:`interrupt` may come while :meth:`run`
    waits. As an async context manager it closes the session at the end.
    """

    def __init__(self, client: AsyncClient, opened: Mapping[str, Any]) -> None:
        super().__init__(opened)
        self._client = client

    async def run(
        self,
        code: str,
        timeout: Optional[float] = None,
        on_stdout: Optional[Callable[[str], Any]] = None,
        on_stderr: Optional[Callable[[str], Any]] = None,
        on_display: Optional[Callable[[Display], Any]] = None,
        run_id: Optional[str] = None,
    ) -> Result:
        """As :meth:`limpet.Session.run`; callbacks may be functions or coroutine functions.

        When the task is cancelled, or a callback raises, the code is interrupted; what was raised goes on
        once its result has come (``limpet_result``), or after 5 seconds. A second cancellation waits no
        longer.
        """
        self._check()
        stream = Stream(on_stdout, on_stderr, on_display)
        return await self._client._run(
            _requests.run(self._target, code, timeout, run_id, stream.wanted), stream
        )

    async def interrupt(self) -> bool:
        """Interrupts the running call, which returns with status ``interrupted``; whether there was one."""
        return bool(field(await self._request(_wire.INTERRUPT), "interrupted"))

    async def reset(self) -> None:
        """Ends a running call and starts a new interpreter. Files stay."""
        await self._request(_wire.RESET)

    async def close(self) -> None:
        """Ends the session and removes its container; published artifacts stay. Nothing when it is closed."""
        if self._closed:
            return
        try:
            await self._request(_wire.CLOSE)
        except (NoSuchSession, SessionClosed):
            if self._client._closed:
                raise
        self._closed = True

    async def put(self, local: Source, path: Path) -> None:
        """As :meth:`limpet.Session.put`; files are read in a thread."""
        self._check()
        with _requests.source(local) as read:
            remote, offset = _requests.remote_path(path), 0
            chunk = await asyncio.to_thread(read, _wire.FILE_CHUNK)
            while True:
                following = await asyncio.to_thread(read, _wire.FILE_CHUNK)
                await self._request(_wire.PUT, path=remote, offset=offset, data=chunk, last=not following)
                if not following:
                    return
                offset, chunk = offset + len(chunk), following

    async def get(self, path: Path, local: Target) -> None:
        """As :meth:`limpet.Session.get`; files are written in a thread."""
        self._check()
        remote, offset = _requests.remote_path(path), 0
        with contextlib.ExitStack() as stack:
            write: Optional[Callable[[bytes], Any]] = None
            while True:
                body = await self._request(_wire.GET, path=remote, offset=offset, size=_wire.FILE_CHUNK)
                chunk = field(body, "data")
                write = write or stack.enter_context(_requests.target(local))
                await asyncio.to_thread(write, chunk)
                offset += len(chunk)
                if not chunk or offset >= field(body, "size"):
                    return

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            await self.close()
        except Error:
            if error is None:
                raise

    async def _request(self, kind: int, **fields: Any) -> dict[str, Any]:
        self._check()
        return await self._client._request(kind, {**self._target, **fields})


async def _call(delivery: Delivery) -> None:
    result = delivery[0](delivery[1])
    if inspect.isawaitable(result):
        await result
