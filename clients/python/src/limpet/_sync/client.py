# Generated from limpet/_async/client.py by scripts/generate-blocking: change that file.
"""The client: the way to one controller."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _requests, _wire
from .._asks import NO_ASKS, Approve, Asks, OnInput, ToolTime
from .._options import CONTAINER_OPTIONS, SESSION_OPTIONS, ContainerOptions, SessionOptions, chosen
from .._recovery import Attempts, ConnectionLost
from .._requests import Body, Request
from .._stream import Stream, stream_of
from .._tools import Tools
from ..errors import Error, SessionClosed, Unavailable, from_wire, is_leave
from ..results import Display, Result, SessionInfo
from .connecting import Connecting, leaving, sleep
from .connection import deliver
from .session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class Client(Connecting):
    """The way to one controller. Opens no connection before the first request.

    As a context manager it closes its connections at the end; sessions live on in the controller.

    A client and its sessions may be used from any number of threads, and after ``os.fork()``: each thread of
    each process has a connection of its own, and no lock is held while one waits.

    Args:
        address: Path of the controller's socket; by default ``LIMPET_SOCKET`` or the user's standard place.
        autostart: Whether to start a controller when none listens; by default unless ``LIMPET_AUTOSTART=0``.
        reconnect_timeout: Seconds for which a call looks for a controller that went away meanwhile.
    """

    def open(
        self,
        name: str | None = None,
        *,
        tools: Tools | None = None,
        on_input: OnInput | None = None,
        approve: Approve | None = None,
        tool_time: ToolTime | None = None,
        **options: Unpack[SessionOptions],
    ) -> Session:
        """Opens the session of that name, or attaches to it when it exists.

        ``tools``, ``on_input``, ``approve`` and ``tool_time`` are this client's own: the session does not know of
        them.

        Args:
            name: 1 to 64 of ``A-Z a-z 0-9 . _ -``. Without one it makes a name up.
            tools: For all calls made with this object, see :meth:`Session.run`.
            on_input: Likewise.
            approve: Likewise.
            tool_time: Likewise.
            **options: See :class:`SessionOptions`. Those not given have the controller's defaults, or what the
                session has.

        Raises:
            OptionsDiffer: The session exists with other options than those given.
        """
        asks = Asks(tools, on_input, approve, tool_time)
        request = _requests.open_session(
            _requests.new_name() if name is None else name, chosen(options, SESSION_OPTIONS)
        )
        opened = self._request(request)
        if name is None:
            opened = {**opened, "created": True}  # also where the reply was lost and this asked again
        return Session(self, opened, asks)

    def attach(
        self,
        name: str,
        *,
        tools: Tools | None = None,
        on_input: OnInput | None = None,
        approve: Approve | None = None,
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
        *,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        on_display: Callable[[Display], Any] | None = None,
        run_id: str | None = None,
        tools: Tools | Asks | None = None,
        on_input: OnInput | None = None,
        approve: Approve | None = None,
        tool_time: ToolTime | None = None,
        **options: Unpack[ContainerOptions],
    ) -> Result:
        """Runs code in a clean container for this one call. Otherwise as :meth:`Session.run`.

        Args:
            code: Python source code.
            timeout: Seconds.
            on_stdout: As of :meth:`Session.run`, and so are those that follow.
            on_stderr: Likewise.
            on_display: Likewise.
            run_id: Likewise.
            tools: Likewise.
            on_input: Likewise.
            approve: Likewise.
            tool_time: Likewise.
            **options: See :class:`ContainerOptions`.
        """
        given = chosen(options, CONTAINER_OPTIONS)
        asks = NO_ASKS.but(tools, on_input, approve, tool_time)
        run_id = run_id or _requests.new_run_id()
        stream = stream_of(on_stdout, on_stderr, on_display, asks.mode and self._asking(asks, run_id, None))
        call = _requests.run({}, code, timeout, run_id, stream, asks=asks.mode)
        if given:
            call.body["options"] = given
        return self._run(call, stream)

    def interrupt(self, run_id: str) -> bool:
        """Interrupts one call, wherever it runs or waits. Starts no controller.

        Returns:
            Whether it was running.

        Raises:
            NoSuchRun: No running or stored call has that run_id.
        """
        return self._request(_requests.interrupt(run_id), start=False)

    def sessions(self) -> list[SessionInfo]:
        """Lists the open sessions of the controller."""
        return self._request(_requests.sessions())

    def result(self, run_id: str, timeout: float | None = None) -> Result | None:
        """The result of an earlier call, also one of another client or of a lost connection.

        Args:
            run_id: Of the call.
            timeout: Seconds to wait for a call that is still running; by default until it ends.

        Returns:
            The result, or None when the call is still running after ``timeout``.

        Raises:
            NoSuchRun: The controller does not know the id, or no longer keeps its result.
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
