# Generated from limpet/_async/client.py by scripts/generate-blocking: change that file.
"""The client: a connection to one controller."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import tempfile
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._calls._asks import NO_ASKS, Approve, Asks, OnInput, ToolTime
from .._calls._stream import Stream, stream_of
from .._calls._tools import Tools
from .._calls._unseen import noted
from .._connection._recovery import Attempts, ConnectionLost
from .._copying import _bringing, _files, _progress
from .._copying._files import Path, Target
from .._protocol import _requests, _wire
from .._protocol._options import (
    CONTAINER_OPTIONS,
    SESSION_OPTIONS,
    ContainerOptions,
    SessionOptions,
    chosen,
    spelled,
    without_copied,
)
from .._protocol._requests import Body, Request
from .._saved import _archive, _saving
from ..errors import BadRequest, Error, NoSuchFile, SessionClosed, Unavailable, from_wire, is_leave
from ..results import Between, ControllerInfo, Display, Result, SessionInfo
from .connecting import in_thread, leaving, opening, sleep
from .connection import deliver
from .saving import Progress, Unpacked, restored
from .session import Session
from .templates import Templates

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class Client(Templates):
    """A client of one controller. Connects with the first request.

    As a context manager, the client closes its connections at the end of the block; sessions stay open.

    A client and its sessions may be used from any number of threads, and after ``os.fork()``. Each thread of
    each process has a connection of its own, and no lock is held while a thread waits.

    Args:
        address: Path of the controller's socket, or the address of one on another machine: ``ssh://[USER@]HOST[:PORT]``,
            ``docker://[CONTEXT]``, ``docker://tcp://HOST:PORT``, ``kubernetes://[CONTEXT/]NAMESPACE``, ``exec:COMMAND``
            or ``tcp://HOST:PORT``. Defaults to ``LIMPET_SOCKET``, then to the user's standard path.
        autostart: Whether to start a controller if none is running. Defaults to True unless ``LIMPET_AUTOSTART=0``.
        reconnect_timeout: Seconds to wait for a controller that went away during a call.
        key: For ``tcp://``: path of the pair of keys that ``limpet keygen`` made. Defaults to ``LIMPET_KEY``, then to
            where that command puts one.
        server_key: For ``tcp://``: the controller's public key; servers with another key are refused. Defaults to
            ``LIMPET_SERVER_KEY``.
        artifacts: For a controller on another machine: directory of this one that artifacts are copied to, each
            session's to one below it, before a call returns. ``result.artifacts`` names these files. False leaves the
            paths of the other machine. Defaults to ``LIMPET_ARTIFACTS`` (``0``: False), then to ``limpet-artifacts``.
        progress: Whether to show how far these copies are: by tqdm where that is installed, by a line otherwise.
    """

    @opening
    @spelled(SessionOptions)
    def open(
        self,
        name: str | None = None,
        *,
        restore: Path | None = None,
        tools: Tools | None = None,
        on_input: OnInput | None = None,
        approve: Approve | None = None,
        tool_time: ToolTime | None = None,
        check: bool = False,
        **options: Unpack[SessionOptions],
    ) -> Session:
        """Opens a session, or attaches to it if it exists. ``async with client.open(...)`` needs no ``await``.

        ``tools``, ``on_input``, ``approve`` and ``tool_time`` belong to the returned object, not to the session: other
        clients of the session do not see them.

        Args:
            name: 1 to 64 characters of ``A-Z a-z 0-9 . _ -``. Defaults to a random name. A session with a name is saved
                when it has been idle for its ``ttl``, and the next ``open`` wakes it; one with a random name is closed.
            restore: Path of a file that :meth:`Session.save` wrote. The session gets its variables, its files, and
                those of its options that are not given. ``restored`` of the session, and of the first result, lists
                what is not as it was.
            tools: Default for calls of this object, see :meth:`Session.run`.
            on_input: Default for calls of this object.
            approve: Default for calls of this object.
            tool_time: Default for calls of this object.
            check: Default for calls of this object.
            **options: See :class:`SessionOptions`. Options that are not given keep the values of the session, or
                take the controller's defaults in a new session.

        Raises:
            OptionsDiffer: The session exists with other options.
            SessionExists: With ``restore``: there is a session of this name.
            RestoreFailed: The file is damaged, or the session could not be restored; there is no session then.
        """
        asks = Asks(tools, on_input, approve, tool_time)
        mounted, data = without_copied(options, self._endpoint.far)
        given = chosen(mounted, SESSION_OPTIONS)
        if name is None:
            given.setdefault("ttl_action", "close")  # nobody will come back to a name that nobody gave
        if restore is not None:
            session = self._restored(os.fsdecode(restore), name or _requests.new_name(), asks, given)
        else:
            session = self._opened(name, given, asks)
        if data is not None and (session.created or not session.files.list("/data")):
            self._copy_data(session, data)
        session._checks = check
        return session

    def _opened(self, name: str | None, given: Body, asks: Asks) -> Session:
        request = _requests.open_session(_requests.new_name() if name is None else name, given)
        opened = self._request(request)
        if name is None:
            opened = {**opened, "created": True}  # also where the reply was lost and this asked again
        return Session(self, opened, asks)

    def _copy_data(self, session: Session, directory: str) -> None:
        """A directory of this machine to a session that has none yet: a new one is closed if that fails."""
        try:
            if not os.path.isdir(directory):
                raise BadRequest(f"data: there is no directory '{directory}'")
            session.put(directory, "/data", progress=self._progress)
        except BaseException:
            if session.created:
                with contextlib.suppress(Error):
                    session.close()
            raise

    def _restored(
        self, path: str, name: str, asks: Asks, given: Body, unpacked: Unpacked | None = None
    ) -> Session:
        archive = in_thread(_archive.Reader, path)
        with archive:
            options = self._restorable(_saving.options_of(archive.manifest, given))
            return restored(self, archive, name, asks, options, unpacked)

    def _restorable(self, options: Body) -> Body:
        """Of the options of a saved session, those that a session here can have."""
        return options

    @opening
    def attach(
        self,
        name: str,
        *,
        tools: Tools | None = None,
        on_input: OnInput | None = None,
        approve: Approve | None = None,
        tool_time: ToolTime | None = None,
    ) -> Session:
        """Attaches to an open session or branch.

        Args:
            name: Name of the session, or ``SESSION/BRANCH``.
            tools: Default for calls of this object, see :meth:`Session.run`.
            on_input: Default for calls of this object.
            approve: Default for calls of this object.
            tool_time: Default for calls of this object.

        Raises:
            NoSuchSession: No open session has this name.
        """
        asks = Asks(tools, on_input, approve, tool_time)
        return Session(self, self._request(_requests.attach(name)), asks)

    def close_session(self, name: str) -> Between | None:
        """Ends the session of this name, like :meth:`Session.close`.

        Args:
            name: Name of the session or branch.

        Raises:
            NoSuchSession: No open session has this name.
        """
        return self._request(_requests.close().of({"session": name}))

    @spelled(ContainerOptions)
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
        check: bool = False,
        echo: bool = False,
        **options: Unpack[ContainerOptions],
    ) -> Result:
        """Runs code in a clean container, which is removed afterwards. Otherwise like :meth:`Session.run`.

        Args:
            code: Python source code.
            timeout: Time limit in seconds. Defaults to the controller's option ``timeout``.
            on_stdout: See :meth:`Session.run`.
            on_stderr: See :meth:`Session.run`.
            on_display: See :meth:`Session.run`.
            run_id: See :meth:`Session.run`.
            tools: See :meth:`Session.run`.
            on_input: See :meth:`Session.run`.
            approve: See :meth:`Session.run`.
            tool_time: See :meth:`Session.run`.
            check: See :meth:`Session.run`.
            echo: See :meth:`Session.run`.
            **options: See :class:`ContainerOptions`.
        """
        given = chosen(options, CONTAINER_OPTIONS, self._endpoint.far)
        asks = NO_ASKS.but(tools, on_input, approve, tool_time)
        run_id = run_id or _requests.new_run_id()
        asking = asks.mode and self._asking(asks, run_id, None)
        stream = stream_of(on_stdout, on_stderr, on_display, asking, echo)
        call = _requests.run({}, code, timeout, run_id, stream, asks=asks.mode)
        if given:
            call.body["options"] = given
        result = self._run(call, stream)
        return result.check() if check else noted(result)

    def interrupt(self, run_id: str) -> bool:
        """Interrupts a call, running or waiting. Starts no controller.

        Args:
            run_id: Id of the call.

        Returns:
            Whether the call was running.

        Raises:
            NoSuchRun: No running or stored call has this id.
        """
        return self._request(_requests.interrupt(run_id), start=False)

    def info(self) -> ControllerInfo:
        """Describes the controller: its version, its engine and what it can do."""
        info = self._request(_requests.info())
        return dataclasses.replace(info, features=tuple(sorted(self.features())))

    def sessions(self, all_users: bool = False) -> list[SessionInfo]:
        """Lists this user's open sessions.

        Args:
            all_users: Those of every user of the controller, which only root sees.
        """
        return self._request(_requests.sessions(all_users))

    def _rows(self, session: str) -> list[SessionInfo]:
        """Those that there are of a session, among others."""
        return self.sessions()

    def _listed(self, group: str) -> list[SessionInfo]:
        """Those whose names begin with the group and a dot, among others."""
        return self.sessions()

    def _names(self, group: str = "") -> list[str]:
        return [row.session for row in self._listed(group)]

    def _sweep(self) -> None:
        """Removes what is left of sessions that have ended."""

    def _find(self, run_id: str, group: str) -> None:
        """Looks where a call of a session of the group is. Raises NoSuchRun."""

    def result(self, run_id: str, timeout: float | None = None) -> Result | None:
        """Returns the result of an earlier call, also of another client.

        Args:
            run_id: Id of the call.
            timeout: Seconds to wait for a running call. Defaults to no limit.

        Returns:
            The result, or None if the call is still running after ``timeout``.

        Raises:
            NoSuchRun: The controller does not know the id, or no longer has its result.
        """
        result = self._request(_requests.result(run_id, timeout))
        return result and self._brought(result)

    @overload
    def artifact(
        self, result: Result, path: str, *, on_progress: Progress | None = None, progress: bool = False
    ) -> bytes: ...

    @overload
    def artifact(
        self,
        result: Result,
        path: str,
        local: Target,
        *,
        on_progress: Progress | None = None,
        progress: bool = False,
    ) -> None: ...

    def artifact(
        self,
        result: Result,
        path: str,
        local: Target | None = None,
        *,
        on_progress: Progress | None = None,
        progress: bool = False,
    ) -> bytes | None:
        """Fetches an artifact from the controller, and checks that it is the one that the call left.

        For a controller on another machine, whose paths in ``result.artifacts`` mean nothing here. The controller
        knows a call as long as :meth:`Client.result` does.

        Args:
            result: Result of the call.
            path: Path in the container, a key of ``result.artifacts``.
            local: Path or binary file object to copy to. Nothing is written unless the file is whole.
            on_progress: Called with the number of bytes copied and the total.
            progress: Whether to show how far it is: by tqdm where that is installed, by a line otherwise.

        Returns:
            The bytes, or None if they were copied to ``local``.

        Raises:
            NoSuchFile: The call published no such file, or a later call has replaced it.
            NoSuchRun: The controller no longer knows the call.
        """
        with (
            tempfile.SpooledTemporaryFile(_wire.FILE_CHUNK) as held,
            _progress.shown(progress, path, on_progress) as tell,
        ):
            digest, offset, whole = hashlib.sha256(), 0, 1
            while offset < whole:
                piece, whole = self._request(_requests.artifact(result.run_id, path, offset))
                if not piece:
                    break
                digest.update(piece)
                in_thread(held.write, piece)
                offset += len(piece)
                if tell is not None:
                    tell(offset, whole)
            info = result.artifact_info.get(path)
            if info is None or digest.hexdigest() != info.sha256:
                raise NoSuchFile(f"'{path}' is not there as the call left it: a later call has replaced it")
            held.seek(0)
            target = _files.Bytes() if local is None else local
            with _files.target(target) as write:
                while piece := in_thread(held.read, _wire.FILE_CHUNK):
                    in_thread(write, piece)
        return target.getvalue() if isinstance(target, _files.Bytes) else None

    def features(self) -> frozenset[str]:
        """Returns the names of the controller's features, which PROTOCOL.md lists. A newer controller may have more."""
        return self._request(_requests.features())

    def shutdown(self) -> None:
        """Ends all sessions and the controller, and returns when they have ended. Starts no controller."""
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
        attempts = Attempts(self._endpoint, request.once, self._reconnect_timeout if start else 0)
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
                if stream is not None and lost.sent:
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
            return self._brought(result)
        except BaseException as error:
            own = isinstance(error, Error) and (stream is None or error is not stream.failure)
            if not own and not is_leave(error):
                self._abandon(call.body["run_id"], error)
            raise
        finally:
            if stream is not None:
                stream.end()

    def _brought(self, result: Result) -> Result:
        """With its artifacts as files of this machine; what cannot be copied is skipped."""
        if self._landing is None or not result.artifacts:
            return result
        artifacts, skipped = {}, dict(result.skipped)
        for path in result.artifacts:
            local = _bringing.place(self._landing, result, path)
            try:
                if not in_thread(_bringing.is_there, local, result.artifact_info[path]):
                    in_thread(_bringing.make_room, local)
                    self.artifact(result, path, local, progress=self._progress)
                artifacts[path] = local
            except (Unavailable, SessionClosed):
                raise
            except (OSError, Error) as error:
                skipped[path] = f"it could not be copied to {local}: {error}"
        return dataclasses.replace(result, artifacts=artifacts, skipped=skipped)

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
