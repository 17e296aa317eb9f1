"""The blocking client."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
import weakref
from types import TracebackType
from typing import Any, Callable, Mapping, Optional, Union

from . import _requests, _wire
from ._address import NOBODY, Address, Endpoint
from ._connection import Connection
from ._opened import Opened
from ._requests import ConnectionLost, Message, Path, Source, Target, field
from ._stream import Stream
from .errors import Error, LimpetWarning, NoSuchSession, SessionClosed, Unavailable
from .results import Display, Result, SessionInfo, session_info_from_wire


class Client:
    """The way to one controller. Opens no connection before the first request.

    ``address``: path of the controller's socket; by default ``LIMPET_SOCKET`` or the user's standard place.
    ``autostart``: whether to start a controller when none listens; by default unless ``LIMPET_AUTOSTART=0``.
    ``reconnect_timeout``: seconds for which ``run()`` looks for a controller that went away.

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
        self._begin()

    def open(
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
    ) -> Session:
        """Opens the session of that name, or attaches to it when it exists.

        Attaching with options that differ from those it has raises OptionsDiffer. Options not given have
        the controller's defaults. ``timeout``: seconds for a call that names none. ``memory``: bytes, or
        text such as ``"512m"``. ``data``: a host directory, mounted read-only at ``/data``. ``ttl``:
        seconds after which an idle session ends, 0 for never. ``network``: ``"none"``, or what the
        controller allows besides.
        """
        options = _requests.options(
            timeout=timeout, memory=memory, cpus=cpus, pids=pids, data=data, env=env, ttl=ttl,
            network=network, image=image,
        )  # fmt: skip
        return Session(self, self._request(_wire.OPEN, {"session": name, **options}))

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
        data: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        network: Optional[str] = None,
        image: Optional[str] = None,
    ) -> Result:
        """Runs code in a clean container for this one call. Otherwise as :meth:`Session.run`."""
        options = _requests.options(
            memory=memory, cpus=cpus, pids=pids, data=data, env=env, network=network, image=image
        )  # fmt: skip
        stream = Stream(on_stdout, on_stderr, on_display)
        body = _requests.run({}, code, timeout, run_id, stream.wanted)
        if options:
            body["options"] = options
        return self._run(body, stream)

    def sessions(self) -> list[SessionInfo]:
        """The open sessions of the controller."""
        return [session_info_from_wire(row) for row in field(self._request(_wire.SESSIONS, {}), "sessions")]

    def result(self, run_id: str, timeout: Optional[float] = None) -> Optional[Result]:
        """The result of an earlier call, also one of another client or of a lost connection.

        Waits for a running call, for ``timeout`` seconds at most; None when it is still running then. Raises
        NoSuchRun for an id the controller does not know, or no more.
        """
        body = {"run_id": run_id} if timeout is None else {"run_id": run_id, "timeout": timeout}
        record = field(self._request(_wire.RESULT, body), "record")
        return None if record is None else Result.from_record(record)

    def shutdown(self) -> None:
        """Ends every session and the controller; returns when all is gone. Starts no controller."""
        self._request(_wire.SHUTDOWN, {}, start=False)

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

    def _connection(self, start: bool) -> Connection:
        """This thread's connection. Unavailable when no controller answers, or ConnectionLost."""
        if self._closed:
            raise SessionClosed("the client is closed")
        if self._pid != os.getpid():
            self._begin()
        connection: Optional[Connection] = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            connection = self._local.connection = self._connect(start)
        return connection

    def _connect(self, start: bool) -> Connection:
        connection = self._dial(start and self._endpoint.autostart)
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
            warnings.warn(warning, LimpetWarning, stacklevel=2)
        return connection

    def _dial(self, start: bool) -> Connection:
        endpoint = self._endpoint
        try:
            endpoint.check()
            try:
                return Connection(endpoint.path)
            except NOBODY:
                if not start:
                    raise
            try:
                endpoint.start()
            except Unavailable:
                with contextlib.suppress(OSError):
                    return Connection(endpoint.path)  # somebody else was quicker
                raise
            return Connection(endpoint.path)
        except OSError as error:
            raise endpoint.unreachable(error) from error

    def _request(self, kind: int, body: Mapping[str, Any], start: bool = True) -> dict[str, Any]:
        """One request that does not stream; asked again when the first had no effect that counts."""
        try:
            return _requests.answer(self._connection(start).ask(kind, body))
        except ConnectionLost as lost:
            if lost.sent and kind not in _requests.IDEMPOTENT:
                raise self._lost(lost) from lost
        try:
            return _requests.answer(self._connection(start).ask(kind, body))
        except ConnectionLost as lost:
            raise self._lost(lost) from lost

    def _lost(self, why: ConnectionLost) -> Error:
        return SessionClosed("the client was closed") if self._closed else self._endpoint.unreachable(why)

    def _run(self, body: dict[str, Any], stream: Stream) -> Result:
        try:
            result = Result.from_record(_requests.answer(self._ask_until_answered(body, stream)))
            if stream.wanted:
                for callback, value in stream.rest(result):
                    callback(value)
            return result
        except Error as error:
            if error is stream.failure:
                self._abandon(body["run_id"], error)
            raise
        except BaseException as error:
            self._abandon(body["run_id"], error)
            raise

    def _ask_until_answered(self, body: dict[str, Any], stream: Stream) -> Message:
        """Asks; after a loss again with the same run_id, which never runs twice."""
        deadline = None
        pause = 0.0
        while True:
            try:
                return self._connection(True).ask(_wire.RUN, body, stream if stream.wanted else None)
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
            time.sleep(pause)
            pause = min(2 * pause or _requests.FIRST_PAUSE, _requests.LONGEST_PAUSE)

    def _abandon(self, run_id: str, reason: BaseException) -> None:
        """Interrupts a call whose caller wants to leave, and waits for its record."""
        try:
            self._request(_wire.INTERRUPT, {"run_id": run_id}, start=False)
            record = field(self._request(_wire.RESULT, {"run_id": run_id}, start=False), "record")
            result = Result.from_record(record)
        except Error:
            return  # it never started, or the controller is gone: nothing to wait for
        with contextlib.suppress(AttributeError):
            reason.limpet_result = result  # type: ignore[attr-defined]


class Session(Opened):
    """Python that stays alive between calls. Made by :meth:`Client.open`.

    May be used from several threads: calls queue in order, and :meth:`interrupt` may come while :meth:`run`
    waits. As a context manager it closes the session at the end.
    """

    def __init__(self, client: Client, opened: Mapping[str, Any]) -> None:
        super().__init__(opened)
        self._client = client

    def run(
        self,
        code: str,
        timeout: Optional[float] = None,
        on_stdout: Optional[Callable[[str], Any]] = None,
        on_stderr: Optional[Callable[[str], Any]] = None,
        on_display: Optional[Callable[[Display], Any]] = None,
        run_id: Optional[str] = None,
    ) -> Result:
        """Runs code and returns its result, whatever the code did. limpet.Error only when the sandbox failed.

        ``timeout``: seconds, by default the session's. The callbacks get text and displays while it runs,
        in this thread; they may use this client, but not wait for another call of the same session.
        ``run_id``: 32 hexadecimal digits; the same one never runs twice but gets the same result.

        Ctrl-C interrupts the code, not just the wait: once its result has come KeyboardInterrupt is raised,
        with the result as ``limpet_result``. A second Ctrl-C stops waiting at once. Whatever else a signal
        handler or a callback raises does the same.

        When the controller goes away this finds or starts the next one and asks it for the same call; output
        that was missed then comes in one piece at the end. Raises Unavailable after ``reconnect_timeout``.
        """
        self._check()
        stream = Stream(on_stdout, on_stderr, on_display)
        return self._client._run(_requests.run(self._target, code, timeout, run_id, stream.wanted), stream)

    def interrupt(self) -> bool:
        """Interrupts the running call, which returns with status ``interrupted``; whether there was one."""
        return bool(field(self._request(_wire.INTERRUPT), "interrupted"))

    def reset(self) -> None:
        """Ends a running call and starts a new interpreter. Files stay."""
        self._request(_wire.RESET)

    def close(self) -> None:
        """Ends the session and removes its container; published artifacts stay. Nothing when it is closed."""
        if self._closed:
            return
        try:
            self._request(_wire.CLOSE)
        except (NoSuchSession, SessionClosed):
            if self._client._closed:
                raise
        self._closed = True

    def put(self, local: Source, path: Path) -> None:
        """Copies a local file, bytes or a binary file object to a file of the session, which it replaces.

        ``path``: in the container, relative to ``/session``. Directories are made.
        """
        self._check()
        with _requests.source(local) as read:
            remote, offset, chunk = _requests.remote_path(path), 0, read(_wire.FILE_CHUNK)
            while True:
                following = read(_wire.FILE_CHUNK)
                self._request(_wire.PUT, path=remote, offset=offset, data=chunk, last=not following)
                if not following:
                    return
                offset, chunk = offset + len(chunk), following

    def get(self, path: Path, local: Target) -> None:
        """Copies a file of the session to a local file or a binary file object.

        ``path``: in the container, relative to ``/session``. Nothing is written when it cannot be read.
        """
        self._check()
        remote, offset = _requests.remote_path(path), 0
        with contextlib.ExitStack() as stack:
            write: Optional[Callable[[bytes], Any]] = None
            while True:
                body = self._request(_wire.GET, path=remote, offset=offset, size=_wire.FILE_CHUNK)
                chunk = field(body, "data")
                write = write or stack.enter_context(_requests.target(local))
                write(chunk)
                offset += len(chunk)
                if not chunk or offset >= field(body, "size"):
                    return

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            self.close()
        except Error:
            if error is None:
                raise

    def _request(self, kind: int, **fields: Any) -> dict[str, Any]:
        self._check()
        return self._client._request(kind, {**self._target, **fields})
