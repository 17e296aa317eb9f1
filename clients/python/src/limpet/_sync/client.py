# Generated from limpet/_async/client.py by scripts/generate-blocking: change that file.
"""The client: the way to one controller."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from .. import _requests, _wire
from .._asks import NO_ASKS, Asks, Function, ToolTime
from .._files import Path
from .._recovery import Attempts, ConnectionLost
from .._requests import Body, CheckpointPolicy, Request
from .._stream import Stream, stream_of
from .._tools import Tools
from ..errors import Error, SessionClosed, Unavailable, from_wire, is_leave
from ..results import Display, Result, SessionInfo
from .connecting import Connecting, leaving, sleep
from .connection import deliver
from .session import Session

T = TypeVar("T")


class Client(Connecting):
    """The way to one controller. Opens no connection before the first request.

    ``address``: path of the controller's socket; by default ``LIMPET_SOCKET`` or the user's standard place.
    ``autostart``: whether to start a controller when none listens; by default unless ``LIMPET_AUTOSTART=0``.
    ``reconnect_timeout``: seconds for which a call looks for a controller that went away meanwhile.

    As a context manager it closes its connections at the end; sessions live on in the controller.

    A client and its sessions may be used from any number of threads, and after ``os.fork()``: each thread of
    each process has a connection of its own, and no lock is held while one waits.
    """

    def open(
        self,
        name: str | None = None,
        *,
        timeout: float | None = None,
        memory: int | str | None = None,
        cpus: float | None = None,
        pids: int | None = None,
        disk: int | str | None = None,
        files: int | None = None,
        data: Path | None = None,
        env: Mapping[str, str] | None = None,
        ttl: float | None = None,
        network: str | None = None,
        image: str | None = None,
        checkpoint: CheckpointPolicy | None = None,
        tools: Tools | None = None,
        on_input: Function | None = None,
        approve: Function | None = None,
        tool_time: ToolTime | None = None,
    ) -> Session:
        """Opens the session of that name, or attaches to it when it exists. Without a name it makes one up.

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
        opened = self._request(_requests.open_session(name or _requests.new_name(), options))
        if not name:
            opened = {**opened, "created": True}  # also where the reply was lost and this asked again
        return Session(self, opened, asks)

    def attach(
        self,
        name: str,
        *,
        tools: Tools | None = None,
        on_input: Function | None = None,
        approve: Function | None = None,
        tool_time: ToolTime | None = None,
    ) -> Session:
        """Attaches to a session that is open, or to a branch. Makes none: raises NoSuchSession instead.

        Args:
            name: Of the session, or ``SESSION/BRANCH``.
            tools: For all calls made with this object, see :meth:`Session.run`.
            on_input: Likewise.
            approve: Likewise.
            tool_time: Likewise.
        """
        asks = Asks(tools, on_input, approve, tool_time)
        return Session(self, self._request(_requests.attach(name)), asks)

    def close_session(self, name: str) -> None:
        """Ends a session by its name, as :meth:`Session.close`. Raises NoSuchSession when there is none."""
        self._request(_requests.close().of({"session": name}))

    def run(
        self,
        code: str,
        timeout: float | None = None,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        on_display: Callable[[Display], Any] | None = None,
        run_id: str | None = None,
        *,
        memory: int | str | None = None,
        cpus: float | None = None,
        pids: int | None = None,
        disk: int | str | None = None,
        files: int | None = None,
        data: Path | None = None,
        env: Mapping[str, str] | None = None,
        network: str | None = None,
        image: str | None = None,
        tools: Tools | None = None,
        on_input: Function | None = None,
        approve: Function | None = None,
        tool_time: ToolTime | None = None,
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

    def result(self, run_id: str, timeout: float | None = None) -> Result | None:
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

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<limpet.{type(self).__name__} {self._endpoint.path}{' (closed)' if self._closed else ''}>"

    def _request(self, request: Request[T], start: bool = True, stream: Stream | None = None) -> T:
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
            sleep(pause)

    def _run(self, call: Request[Result], stream: Stream | None) -> Result:
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
        for delivery in stream.rest(result):
            deliver(delivery)

    def _abandon(self, run_id: str, reason: BaseException) -> None:
        """Interrupts a call whose caller wants to leave, and waits for its record."""
        result = leaving(self._interrupted(run_id))
        if result is not None:
            with contextlib.suppress(AttributeError):
                reason.limpet_result = result  # type: ignore[attr-defined]

    def _interrupted(self, run_id: str) -> Result | None:
        try:
            self._request(_requests.interrupt(run_id), start=False)
            return self._request(_requests.result(run_id), start=False)
        except Error:
            return None  # it never started, or the controller is gone: nothing to wait for
