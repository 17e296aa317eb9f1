# Generated from limpet/_async/session.py by scripts/generate-blocking: change that file.
"""A session: Python that stays alive between calls."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .. import _codec, _files, _requests, _values
from .._asks import NO_ASKS, Approve, Asks, OnInput, ToolTime
from .._files import Path, Source, Target
from .._opened import Opened, Trial
from .._requests import OnError, Request
from .._stream import stream_of
from .._tools import Tools
from .._wire import FILE_CHUNK
from ..errors import Error, NoSuchFile, NoSuchSession, SessionClosed, TooLarge
from ..results import Display, Result
from ..state import Checkpoint, Committed, Namespace, Rollback
from .connecting import in_thread
from .files import Files, Progress
from .trees import get_tree, put_tree

if TYPE_CHECKING:
    from .client import Client

T = TypeVar("T")


class Session(Opened):
    """Python that stays alive between calls. Made by :meth:`Client.open` and :meth:`Session.branch`.

    May be used from several threads: calls queue in order, and :meth:`interrupt` may come while :meth:`run`
    waits. As a context manager it ends the session, unless that was there before and was attached to.

    A request whose connection is lost is asked again at the next controller when that does no harm. Otherwise
    (reset, put, checkpoint, rollback, drop, branch, commit) it raises Unavailable, and whether it was carried
    out is unknown: :meth:`checkpoints`, :meth:`namespace` and :meth:`Client.sessions` tell.
    """

    def __init__(self, client: Client, opened: Mapping[str, Any], asks: Asks = NO_ASKS) -> None:
        super().__init__(opened, asks)
        self._client = client
        self.files = Files(self)

    def run(
        self,
        code: str,
        timeout: float | None = None,
        *,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        on_display: Callable[[Display], Any] | None = None,
        run_id: str | None = None,
        on_error: OnError = "keep",
        tools: Tools | Asks | None = None,
        on_input: OnInput | None = None,
        approve: Approve | None = None,
        tool_time: ToolTime | None = None,
    ) -> Result:
        """Runs code and returns its result, whatever the code did.

        Callbacks, ``approve`` and ``on_input`` are called in this thread. Tools run in threads of this process,
        coroutine functions on a loop of their own.

        A function that raises :class:`Leave` ends only this wait: the code waits for its answer until somebody
        runs it with the same ``run_id``. So it does when this process dies. None of them runs twice for one
        question in one client, whatever is lost meanwhile.

        Ctrl-C interrupts the code, not just the wait: once its result has come KeyboardInterrupt is raised,
        with the result as ``limpet_result``. A second Ctrl-C stops waiting at once. Whatever else a signal
        handler or a callback raises does the same.

        When the controller goes away this finds or starts the next one and asks it for the same call; output
        that was missed then comes in one piece at the end. The code never runs in another session.

        Args:
            code: Python source code.
            timeout: Seconds, by default the session's.
            on_stdout: Gets text while the code runs. It may use this client, but not wait for another call of the
                same session.
            on_stderr: Likewise.
            on_display: Gets a :class:`Display` while the code runs, likewise.
            run_id: 32 hexadecimal digits. The same one never runs twice but gets the same result.
            on_error: With ``"rollback"`` a call that does not end ``ok`` leaves nothing behind in the variables;
                files stay as they are.
            tools: Functions that the code may call as ``limpet_tools.NAME(...)``: a dict, or a list of what has names,
                of functions, coroutine functions, methods and LangChain tools; several may run at once. Arguments and
                results are plain data: None, bool, int, float, str, bytes, list and dict with text keys, 1 MiB at
                most. An exception is raised in the code, with its message and without its traceback, which goes to
                the logger ``limpet.tools``. This and what follows is by default as :meth:`Client.open` was told.
            on_input: Answers ``input()`` with a line; None or EOFError is the end of input. A parameter ``password``
                is True for what is not to be shown. Without it ``input()`` raises EOFError.
            approve: Asked before each call of a tool, with a :class:`ToolCall`. True allows it,
                ``call.with_arguments(...)`` allows another one; False, a text that says why, or an exception denies it
                with PermissionError.
            tool_time: ``"pause"``, so that no time counts towards ``timeout`` while the code waits for an answer, or
                ``"count"``.

        Raises:
            NoSuchSession: The session has ended.
            Unavailable: No controller was found for ``reconnect_timeout`` seconds.
            Error: The sandbox failed in another way.
        """
        self._check()
        asks = self._asks.but(tools, on_input, approve, tool_time)
        run_id = run_id or _requests.new_run_id()
        asking = asks.mode and self._client._asking(asks, run_id, self.name)
        stream = stream_of(on_stdout, on_stderr, on_display, asking)
        call = _requests.run(self._target, code, timeout, run_id, stream, on_error, asks.mode)
        return self._client._run(call, stream)

    def set(self, name: str, value: Any, timeout: float | None = None) -> None:
        """Binds a variable of the session to a value of this process, as one more call.

        Args:
            name: Of the variable.
            value: Plain data: None, bool, int, float, complex, str, bytes, and lists, tuples, sets and dicts of such;
                NumPy arrays, Arrow tables and pandas frames and series, also within them. The sandbox needs the same
                packages. Large values go through a file of the session, without a detour through text.
            timeout: Seconds, by default the session's.

        Raises:
            TypeError: The value, or something in it, is nothing of the kind.
            CallFailed: The sandbox could not take it; the text says why.
        """
        self._check()
        _values.check_name(name)
        parts = in_thread(_codec.dump, value)
        file = _values.new_file()
        if sum(map(len, parts)) <= _values.SMALL:
            cell = _values.cell_that_takes(self, name, parts, file)
        else:
            self.put(_values.Source(parts), file)
            cell = _values.cell_that_takes(self, name, None, file)
        _values.check(self.run(cell, timeout))

    def value(self, expression: str, timeout: float | None = None, *, limit: int = _values.LIMIT) -> Any:
        """Evaluates an expression in the session and gives its value, as one more call.

        Nothing that the sandbox sends is run here: the value is made of plain data, arrays and tables, as of
        :meth:`set`. NumPy's numbers come as Python's.

        Args:
            expression: Such as the name of a variable.
            timeout: Seconds, by default the session's.
            limit: Bytes that a value may have.

        Raises:
            CallFailed: The expression raised an exception, or its value cannot be sent.
            TooLarge: The value has more bytes than ``limit``.
            ImportError: The value needs NumPy, pandas or PyArrow, which is not installed here.
        """
        self._check()
        file = _values.new_file()
        result = self.run(_values.cell_that_gives(self, expression, file), timeout)
        data = _values.sent(result)
        return in_thread(_values.read, self._fetched(file, limit) if data is None else data, result)

    def try_each(
        self, codes: Iterable[str], timeout: float | None = None, *, on_error: OnError = "keep"
    ) -> list[Result]:
        """Runs each code in a branch of its own, all from the state of this moment; results in that order.

        The session itself stays as it is until ``commit(i)`` makes what the i-th left its state, or
        ``commit(None)`` gives all up. The branches are kept until then, until the next try_each() or until
        the session is closed; when anything is raised here they are gone at once. Only variables are apart:
        files and artifacts are those of the session, and what one writes the next one sees.

        Args:
            codes: Python source codes.
            timeout: Seconds for each, by default the session's.
            on_error: As of :meth:`run`.
        """
        trial = Trial(self.name, codes)
        self._close_branches(self._take_candidates())
        if not trial.codes:
            return []
        try:
            self.checkpoint(trial.checkpoint)
            branches = [self.branch(name, trial.checkpoint) for name in trial.names]
            results = [
                branch.run(code, timeout, on_error=on_error)
                for branch, code in zip(branches, trial.codes, strict=True)
            ]
        except BaseException:
            self._close_branches(trial.branches)
            raise
        finally:
            self._quietly(_requests.drop(trial.checkpoint).of(self._target))
        self._candidates = trial.branches
        return results

    def commit(self, branch: Session | str | int | None) -> Committed | None:
        """Makes the state of a branch the state of this session; the branch ends.

        Args:
            branch: A session made by :meth:`branch`, its name, or the number of a candidate of the last
                :meth:`try_each`, whose other candidates end too. None only ends them, and changes nothing.
        """
        if branch is None:
            self._check()
            self._close_branches(self._take_candidates())
            return None
        name = self._branch_name(branch)
        committed = self._request(_requests.commit(name))
        if isinstance(branch, Opened):
            branch._closed = True
        if name in self._candidates:
            self._close_branches(other for other in self._take_candidates() if other != name)
        return committed

    def branch(self, name: str, at: Checkpoint | str | None = None) -> Session:
        """A session ``SESSION/NAME`` with the variables of a checkpoint, by default those of this moment.

        From there on it has variables of its own, while the container, the files and the artifacts stay
        those of this session. Calls of one container run one at a time.

        Args:
            name: Of the branch, as that of a session.
            at: A checkpoint, its id or name.

        Raises:
            BranchExists: It is open already.
        """
        return Session(self._client, self._request(_requests.branch(name, at)), self._asks)

    def checkpoint(self, name: str | None = None, files: bool = False) -> Checkpoint:
        """Keeps a copy of the variables, until it is dropped or has to make room for a newer one.

        Args:
            name: To call it by, one that is not kept already.
            files: Whether to keep a copy of ``/session`` as well.

        Returns:
            The checkpoint. Its ``dropped`` has the ids of those that had to go for it.

        Raises:
            CheckpointFailed: There can be none; the text says why.
        """
        return self._request(_requests.checkpoint(name, files))

    def checkpoints(self) -> list[Checkpoint]:
        """Lists the checkpoints of this session and of its branches, oldest first."""
        return self._request(_requests.checkpoints())

    def rollback(self, checkpoint: Checkpoint | str) -> Rollback:
        """Goes back to the variables of a checkpoint, and to its files where it has them.

        Args:
            checkpoint: The checkpoint, its id or its name. It is kept.

        Raises:
            NoSuchCheckpoint: It is not kept any more.
        """
        return self._request(_requests.rollback(checkpoint))

    def drop(self, checkpoint: Checkpoint | str) -> None:
        """Discards a checkpoint.

        Args:
            checkpoint: The checkpoint, its id or its name.
        """
        return self._request(_requests.drop(checkpoint))

    def namespace(self) -> Namespace:
        """The variables, in the order they were bound; runs no code of theirs.

        A list of :class:`Variable` without names that begin with an underscore; ``more`` of the list is how
        many were left out.
        """
        return self._request(_requests.namespace())

    def interrupt(self) -> bool:
        """Interrupts the running call, which returns with status ``interrupted``.

        Returns:
            Whether a call was running.
        """
        return self._request(_requests.interrupt())

    def reset(self) -> None:
        """Ends a running call and starts a new interpreter. Files stay."""
        return self._request(_requests.reset())

    def close(self) -> None:
        """Ends the session and its branches and removes its container; published artifacts stay.

        Of a branch it ends that branch alone. Does nothing if it is closed already.
        """
        if self._closed:
            return
        try:
            self._request(_requests.close())
        except (NoSuchSession, SessionClosed):
            if self._client._closed:
                raise
        self._closed = True

    def put(self, local: Source, path: Path, *, on_progress: Progress | None = None) -> None:
        """Copies a local file, directory, bytes or a binary file object into the sandbox.

        A file replaces one that is there. A directory is merged into one that is there, and each of its files replaced
        as a whole. Nothing is copied where it has links that lead out of it: BadRequest names them.

        Args:
            local: The file, its contents, or a directory.
            path: In the container, relative to ``/session``. Directories are made.
            on_progress: Called with the bytes so far and those of a whole directory.
        """
        self._check()
        if _files.is_directory(local):
            put_tree(self, os.fspath(local), path, on_progress)
            return
        if _files.is_elsewhere(path):
            with _files.readable(local) as file:
                self.files.write(path, file, on_progress=on_progress)
            return
        with _files.source(local) as read:
            remote, offset = _files.remote_path(path), 0
            chunk = in_thread(read, FILE_CHUNK)
            while True:
                following = in_thread(read, FILE_CHUNK)
                self._request(_requests.put(remote, offset, chunk, last=not following))
                if not following:
                    return
                offset, chunk = offset + len(chunk), following

    @overload
    def get(
        self, path: Path, *, offset: int = 0, size: int | None = None, on_progress: Progress | None = None
    ) -> bytes: ...

    @overload
    def get(
        self,
        path: Path,
        local: Target,
        *,
        offset: int = 0,
        size: int | None = None,
        on_progress: Progress | None = None,
    ) -> None: ...

    def get(
        self,
        path: Path,
        local: Target | None = None,
        *,
        offset: int = 0,
        size: int | None = None,
        on_progress: Progress | None = None,
    ) -> bytes | None:
        """Reads a file of the sandbox, or a part of it, or copies a directory.

        A directory is merged into one that is there. Nothing is copied where it has links that lead out of it:
        BadRequest names them.

        Args:
            path: In the container, relative to ``/session``.
            local: A local file or a binary file object to which it is copied, or where a directory goes. Nothing is
                written when it cannot be read.
            offset: Where to begin, in bytes.
            size: How many bytes at most; by default all that follow.
            on_progress: Called with the bytes so far and those of the whole file or directory.

        Returns:
            The bytes, or None where they were copied to ``local``.

        Raises:
            NoSuchFile: No regular file is there.
        """
        self._check()
        if _files.is_elsewhere(path):
            return self._get_elsewhere(path, local, offset, size, on_progress)
        remote, end = _files.remote_path(path), None if size is None else offset + size
        target = _files.Bytes() if local is None else local
        with contextlib.ExitStack() as stack:
            write: Callable[[bytes], Any] | None = None
            while True:
                try:
                    chunk, whole = self._request(_requests.get(remote, offset, end))
                except NoSuchFile:
                    if write is not None or not _files.is_path(local) or not self._is_directory(path):
                        raise
                    get_tree(self, path, os.fspath(local), on_progress)
                    return None
                write = write or stack.enter_context(_files.target(target))
                in_thread(write, chunk)
                offset += len(chunk)
                if on_progress is not None:
                    on_progress(offset, whole)
                if not chunk or offset >= (whole if end is None else min(end, whole)):
                    break
        return target.getvalue() if isinstance(target, _files.Bytes) else None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.created:
            return
        try:
            self.close()
        except Error:
            if error is None:
                raise

    def _is_directory(self, path: Path) -> bool:
        try:
            return (self.files.stat(path)).type == "directory"
        except Error:
            return False

    def _get_elsewhere(
        self, path: Path, local: Target | None, offset: int, size: int | None, on_progress: Progress | None
    ) -> bytes | None:
        """What get() does outside /session."""
        if local is None or offset or size is not None:
            data = (self.files.read(path, on_progress=on_progress))[offset:]
            data = data if size is None else data[:size]
            if local is None:
                return data
            with _files.target(local) as write:
                in_thread(write, data)
        elif (self.files.stat(path)).type == "directory" and _files.is_path(local):
            get_tree(self, path, os.fspath(local), on_progress)
        else:
            with _files.writable(local) as file:
                self.files.read(path, file, on_progress=on_progress)
        return None

    def _fetched(self, file: str, limit: int) -> bytearray:
        """A file that a call has left for us, which is removed."""
        data, at = bytearray(), 0
        try:
            while True:
                chunk, size = self._request(_requests.get(file, at))
                if size > limit:
                    raise TooLarge(f"the value has {size} bytes, and {limit} are allowed")
                if not at:
                    data = bytearray(size)
                data[at : at + len(chunk)] = chunk
                at += len(chunk)
                if not chunk or at >= size:
                    return data
        finally:
            self.run(_values.cell_that_removes(self, file))

    def _request(self, request: Request[T]) -> T:
        self._check()
        return self._client._request(request.of(self._target))

    def _close_branches(self, names: Iterable[str]) -> None:
        for name in names:
            self._quietly(_requests.close().of({"session": name}))

    def _quietly(self, request: Request[None]) -> None:
        """Cleaning up: what cannot be cleaned up ends with the session."""
        with contextlib.suppress(Error):
            self._client._request(request, start=False)
