"""The blocking client."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from types import TracebackType
from typing import Any, Callable, Mapping, Optional, TypeVar, Union

from . import _recovery, _requests, _wire
from ._address import NOBODY, Address, Endpoint
from ._answers import Memory
from ._asking import BlockingAsking
from ._asks import NO_ASKS, Asks, Function, ToolTime
from ._connection import Connection
from ._files import Path
from ._recovery import Attempts, ConnectionLost
from ._requests import Body, CheckpointPolicy, Request
from ._session import Session
from ._stream import Stream, stream_of
from ._tools import Tools
from .errors import Error, SessionClosed, Unavailable, from_wire, is_leave, warn
from .results import Display, Result, SessionInfo

T = TypeVar("T")


class Client:
    """The way to one controller. Opens no connection before the first request.

    ``address``: path of the controller's socket; by default ``LIMPET_SOCKET`` or the user's standard place.
    ``autostart``: whether to start a controller when none listens; by default unless ``LIMPET_AUTOSTART=0``.
    ``reconnect_timeout``: seconds for which a call looks for a controller that went away meanwhile.

    A client and its sessions may be used from any number of threads, and after ``os.fork()``: each thread of
    each process has a connection of its own, and no lock is held while one waits. As a context manager it
    closes its connections at the end; sessions live on in the controller.
    """

    def __init__(
        self, address: Address = None, *, autostart: Optional[bool] = None, reconnect_timeout: float = 30.0
    ) -> None:
        self._endpoint = Endpoint(address, autostart)
        self._reconnect_timeout = reconnect_timeout
        self._warned = False
        self._closed = False
        self._memory = Memory()
        self._begin()

    def open(
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
    ) -> Session:
        """Opens the session of that name, or attaches to it when it exists.

        Attaching with options that differ from those it has raises OptionsDiffer. Options not given have
        the controller's defaults. ``timeout``: seconds for a call that names none. ``memory``: bytes, or
        text such as ``"512m"``. ``disk`` and ``files``: how much, likewise, and how many files there may be in
        ``/session``. ``data``: a host directory, mounted read-only at ``/data``. ``ttl``:
        seconds after which an idle session ends, 0 for never. ``network``: ``"none"``, or what the
        controller allows besides. ``checkpoint``: when copies of the variables are taken by themselves, to
        go back to when a call destroys them: ``"auto"`` while the session is idle, ``"always"`` before each
        call, or ``"off"``.

        ``tools``, ``on_input``, ``approve``, ``tool_time``: for all calls made with this object, see
        :meth:`Session.run`. They are this client's own: the session does not know of them.
        """
        options = _requests.options(
            timeout=timeout, memory=memory, cpus=cpus, pids=pids, disk=disk, files=files, data=data,
            env=env, ttl=ttl, network=network, image=image, checkpoint=checkpoint,
        )  # fmt: skip
        asks = Asks(tools, on_input, approve, tool_time)
        return Session(self, self._request(_requests.open_session(name, options)), asks)

    def run(
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
        """Runs code in a clean container for this one call. Otherwise as :meth:`Session.run`."""
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
        return self._run(call, stream)

    def sessions(self) -> list[SessionInfo]:
        """The open sessions of the controller."""
        return self._request(_requests.sessions())

    def result(self, run_id: str, timeout: Optional[float] = None) -> Optional[Result]:
        """The result of an earlier call, also one of another client or of a lost connection.

        Waits for a running call, for ``timeout`` seconds at most; None when it is still running then. Raises
        NoSuchRun for an id the controller does not know, or no more.
        """
        return self._request(_requests.result(run_id, timeout))

    def features(self) -> frozenset[str]:
        """Names of what the controller can do, as PROTOCOL.md lists them; a newer one may have others besides."""
        return self._request(_requests.features())

    def shutdown(self) -> None:
        """Ends every session and the controller; returns when all is gone. Starts no controller."""
        self._request(_requests.shutdown(), start=False)

    def close(self) -> None:
        """Closes the connections. What other threads wait for raises SessionClosed. Sessions live on."""
        self._closed = True
        if self._pid == os.getpid():
            with self._lock:
                connections = list(self._connections)
            for connection in connections:
                connection.abort()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<limpet.Client {self._endpoint.path}{' (closed)' if self._closed else ''}>"

    def _begin(self) -> None:
        """Without connections: at first, and in a child of fork(), which leaves the parent's alone."""
        self._pid = os.getpid()
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()

    def _connection(self, start: bool, attempts: Attempts) -> Connection:
        """This thread's connection. Unavailable when no controller answers, or ConnectionLost."""
        if self._closed:
            raise SessionClosed("the client is closed")
        if self._pid != os.getpid():
            self._begin()
        connection: Optional[Connection] = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            connection = self._local.connection = self._connect(start, attempts)
        return connection

    def _connect(self, start: bool, attempts: Attempts) -> Connection:
        connection = self._dial(start and self._endpoint.autostart, attempts)
        with self._lock:
            self._connections.add(connection)
        try:
            warning = connection.hello()
        except ConnectionLost as lost:
            raise ConnectionLost(lost, sent=False) from lost
        except OSError as error:
            raise self._endpoint.unreachable(error) from error
        if self._closed:  # by another thread, which may not have seen this connection
            connection.close()
            raise SessionClosed("the client is closed")
        if warning and not self._warned:
            self._warned = True
            warn(warning)
        return connection

    def _dial(self, start: bool, attempts: Attempts) -> Connection:
        endpoint = self._endpoint
        try:
            endpoint.check()
            try:
                return Connection(endpoint.path, attempts.limit(_recovery.HANDSHAKE_TIMEOUT))
            except NOBODY:
                if not start:
                    raise
            try:
                endpoint.start(attempts.limit(_recovery.START_TIMEOUT))
            except Unavailable:
                with contextlib.suppress(OSError):  # somebody else was quicker
                    return Connection(endpoint.path, attempts.limit(_recovery.HANDSHAKE_TIMEOUT))
                raise
            return Connection(endpoint.path, attempts.limit(_recovery.HANDSHAKE_TIMEOUT))
        except OSError as error:
            raise endpoint.unreachable(error) from error

    def _request(self, request: Request[T], start: bool = True, stream: Optional[Stream] = None) -> T:
        """Asks, and asks again after a loss when that does no harm: a run_id never runs twice.

        ``start``: whether a controller may be started and waited for.
        """
        attempts = Attempts(self._endpoint, request.kind, self._reconnect_timeout if start else 0)
        body: Body = request.body
        while True:
            try:
                connection = self._connection(start, attempts)
                attempts.asks()
                kind, reply = connection.ask(request.kind, body, stream)
                if kind == _wire.ERROR:
                    raise from_wire(reply)
                return request.read(reply)
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
            time.sleep(pause)

    def _run(self, call: Request[Result], stream: Optional[Stream]) -> Result:
        try:
            result = self._request(call, stream=stream)
            if stream is not None:
                self._hear_the_rest(result, stream)
            return result
        except BaseException as error:
            own = isinstance(error, Error) and (stream is None or error is not stream.failure)
            if not own and not is_leave(error):
                self._abandon(call.body["run_id"], error)
            raise
        finally:
            if stream is not None:
                stream.end()

    def _hear_the_rest(self, result: Result, stream: Stream) -> None:
        if stream.asking is not None:
            self._memory.forget(result.run_id)
        for callback, value in stream.rest(result):
            callback(value)

    def _asking(self, asks: Asks, run_id: str, session: Optional[str]) -> BlockingAsking:
        """For a call of which something can be answered."""
        return BlockingAsking(asks, self._memory.of(run_id), run_id, session)

    def _abandon(self, run_id: str, reason: BaseException) -> None:
        """Interrupts a call whose caller wants to leave, and waits for its record."""
        try:
            self._request(_requests.interrupt(run_id), start=False)
            result = self._request(_requests.result(run_id), start=False)
        except Error:
            return  # it never started, or the controller is gone: nothing to wait for
        with contextlib.suppress(AttributeError):
            reason.limpet_result = result  # type: ignore[attr-defined]
