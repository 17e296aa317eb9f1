"""A session: Python that stays alive between calls. The blocking session is generated from this file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._calls._asks import NO_ASKS, Approve, Asks, OnInput, ToolTime
from .._calls._stream import stream_of
from .._calls._tools import Tools
from .._copying import _files, _progress
from .._copying._files import Path, Source, Target
from .._protocol import _requests
from .._protocol._opened import Opened, Trial
from .._protocol._requests import OnError, Request
from .._protocol._wire import FILE_CHUNK
from .._serialization import _codec, _values
from ..errors import Error, NoSuchFile, NoSuchSession, SessionClosed, TooLarge
from ..results import Between, Display, Result
from ..state import Checkpoint, Committed, Namespace, Rollback
from .connecting import in_thread
from .direct import get_file, put_file
from .exporting import AsyncExporting
from .files import AsyncFiles, Progress
from .network import AsyncNetworking
from .packages import AsyncPackages
from .trees import get_tree, put_tree

if TYPE_CHECKING:
    from .client import AsyncClient

T = TypeVar("T")


class AsyncSession(AsyncPackages, AsyncExporting, AsyncNetworking):
    """A live Python session. Created by :meth:`AsyncClient.open` and :meth:`AsyncSession.branch`.

    A session may be used from several tasks: calls queue in order, and :meth:`interrupt` may be called while
    :meth:`run` waits. As an async context manager, a session that this object opened is closed at the end of the
    block; a session that existed before stays open.

    If the connection is lost, idempotent requests are retried with the next controller. The others (reset, put,
    checkpoint, rollback, drop, branch, commit) raise Unavailable, and it is unknown whether they were carried out:
    :meth:`checkpoints`, :meth:`namespace` and :meth:`AsyncClient.sessions` show the state.
    """

    def __init__(self, client: AsyncClient, opened: Mapping[str, Any], asks: Asks = NO_ASKS) -> None:
        super().__init__(client, opened, asks)
        self.files = AsyncFiles(self)

    async def run(
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
        language: str | None = None,
        check: bool | None = None,
        echo: bool = False,
    ) -> Result:
        """Runs code and returns its result. Python errors, timeouts and crashes are results, not exceptions.

        Callbacks, ``approve`` and ``on_input`` may be functions or coroutine functions. Coroutines, including those of
        tools, run on this loop and are cancelled with the call. Tools that are plain functions run in threads.

        If one of these functions raises :class:`Leave`, ``run()`` raises it and the code keeps waiting for the answer,
        until a later ``run()`` with the same ``run_id`` provides it. The same happens if this process dies. A client
        never calls a function twice for the same question.

        If the task is cancelled or a callback raises, the code is interrupted. The exception is raised when the
        result of the call has arrived (as its attribute ``limpet_result``), or after 5 seconds. A second cancellation
        ends the wait at once.

        If the controller goes away, ``run()`` finds or starts the next one and asks it for the same call. Output
        that was missed arrives in one piece at the end. The code never runs in another session.

        Args:
            code: Python source code.
            timeout: Time limit in seconds. Defaults to the timeout of the session.
            on_stdout: Called with text while the code runs. May use this client, but must not wait for another call
                of the same session.
            on_stderr: Like ``on_stdout``, for standard error.
            on_display: Called with each :class:`Display` while the code runs.
            run_id: Id of the call, 32 hexadecimal digits. The same id never runs twice; it returns the same result.
            on_error: ``"rollback"`` restores the variables unless the call ends with status ``ok``. Files are not
                restored.
            tools: Functions that the code may call as ``limpet_tools.NAME(...)``: a dict, or a list of objects with
                names. Functions, coroutine functions, methods and LangChain tools are allowed, and several may run at
                once. Arguments and results are plain data of at most 1 MiB: None, bool, int, float, str, bytes, list,
                and dict with text keys. An exception is raised in the code with its message; the traceback goes to
                the logger ``limpet.tools``. This argument and the following ones default to those of
                :meth:`AsyncClient.open`.
            on_input: Answers ``input()`` with a line. None or EOFError is the end of input. A parameter ``password``
                is True if the answer must not be shown. Without ``on_input``, ``input()`` raises EOFError.
            approve: Called with a :class:`ToolCall` before each call of a tool. True allows the call, and
                ``call.with_arguments(...)`` allows it with other arguments. False, a text with the reason, or an
                exception denies the call, which then raises PermissionError in the code.
            tool_time: ``"pause"`` stops the time limit while the code waits for an answer; ``"count"`` does not.
            language: Runs the code in the context of that language, see :meth:`AsyncSession.context`. Defaults to the
                language of this session.
            check: Whether to raise CallFailed, or CallTimeout, unless the call ends with status ``ok``, as
                :meth:`Result.check` does. Defaults to that of
                :meth:`AsyncClient.open`.
            echo: Whether to print what the code writes as it comes, to this program's own streams.

        Raises:
            BadRequest: The image does not have the language; the message lists those that it has.
            NoSuchSession: The session has ended.
            Unavailable: No controller was found within ``reconnect_timeout`` seconds.
            Error: The sandbox failed in another way.
        """
        self._check()
        if language is not None:
            place = await self._in(language)
            try:
                return await place.run(
                    code, timeout, on_stdout=on_stdout, on_stderr=on_stderr, on_display=on_display, run_id=run_id,
                    on_error=on_error, tools=tools, on_input=on_input, approve=approve, tool_time=tool_time,
                    check=self._checks if check is None else check, echo=echo,
                )  # fmt: skip
            except (NoSuchSession, SessionClosed):
                self._languages.pop(language, None)
                raise
        asks = self._asks.but(tools, on_input, approve, tool_time)
        run_id = run_id or _requests.new_run_id()
        asking = asks.mode and self._client._asking(asks, run_id, self.name)
        stream = stream_of(on_stdout, on_stderr, on_display, asking, echo)
        call = _requests.run(self._target, code, timeout, run_id, stream, on_error, asks.mode)
        return self._checked(await self._client._run(call, stream), check)

    async def set(self, name: str, value: Any, timeout: float | None = None) -> None:
        """Sets a variable of the session to a value of this process. Counts as one call.

        Args:
            name: Name of the variable.
            value: Plain data: None, bool, int, float, complex, str, bytes, and lists, tuples, sets and dicts of these;
                also times, Decimal, Path, NumPy arrays, Arrow tables, pandas frames and series.
            timeout: Time limit in seconds. Defaults to the timeout of the session.

        Raises:
            TypeError: The value, or a part of it, has another type.
            CallFailed: The sandbox could not read the value; the message gives the reason.
        """
        self._check_python("set()")
        _values.check_name(name)
        parts = await in_thread(_codec.dump, value)
        file = _values.new_file()
        is_large = sum(map(len, parts)) > _values.SMALL
        if is_large:
            await self.put(_values.Source(parts), file)
        within = None if is_large else parts
        _values.check(await self._with_codec(lambda cells: cells.takes(name, within, file), timeout))

    async def value(
        self, expression: str, timeout: float | None = None, *, limit: int = _values.LIMIT
    ) -> Any:
        """Evaluates an expression in the session and returns its value. Counts as one call.

        Values are plain data, arrays and tables, as for :meth:`set`. Nothing that the sandbox sends is unpickled or run
        in this process. NumPy scalars become Python numbers.

        Args:
            expression: A Python expression, such as the name of a variable.
            timeout: Time limit in seconds. Defaults to the timeout of the session.
            limit: Maximum size of the value in bytes.

        Returns:
            The value.

        Raises:
            CallFailed: The expression raised an exception, or its value has a type that cannot be sent.
            TooLarge: The value is larger than ``limit``.
            ImportError: The value needs NumPy, pandas or PyArrow, which this process does not have.
        """
        self._check_python("value()")
        file = _values.new_file()
        result = await self._with_codec(lambda cells: cells.gives(expression, file), timeout)
        data = _values.sent(result)
        held = await self._fetched(file, limit) if data is None else data
        return await in_thread(_values.read, held, result)

    async def try_each(
        self, codes: Iterable[str], timeout: float | None = None, *, on_error: OnError = "keep"
    ) -> list[Result]:
        """Runs each code in a branch of its own, all from the current state.

        The session does not change until ``commit(i)`` makes the state of the i-th branch its state, or
        ``commit(None)`` discards all branches. The branches also end with the next ``try_each()``, when the session
        is closed, and when this method raises. Only variables are separate: the branches share files and artifacts.

        Args:
            codes: Python source codes.
            timeout: Time limit of each code in seconds. Defaults to the timeout of the session.
            on_error: See :meth:`run`.

        Returns:
            The results, in the order of the codes.
        """
        trial = Trial(self.name, codes)
        await self._close_branches(self._take_candidates())
        if not trial.codes:
            return []
        try:
            await self.checkpoint(trial.checkpoint)
            branches = [await self.branch(name, trial.checkpoint) for name in trial.names]
            results = [
                await branch.run(code, timeout, on_error=on_error, check=False)
                for branch, code in zip(branches, trial.codes, strict=True)
            ]
        except BaseException:
            await self._close_branches(trial.branches)
            raise
        finally:
            await self._quietly(_requests.drop(trial.checkpoint).of(self._target))
        self._candidates = trial.branches
        return results

    async def commit(self, branch: AsyncSession | str | int | None) -> Committed | None:
        """Makes the state of a branch the state of this session, and ends the branch.

        Args:
            branch: A session returned by :meth:`branch`, its name, or the index of a branch of the last
                :meth:`try_each`, whose other branches end too. None ends these branches and changes nothing.

        Returns:
            The new state of the session; None if ``branch`` is None.
        """
        if branch is None:
            self._check()
            await self._close_branches(self._take_candidates())
            return None
        name = self._branch_name(branch)
        committed = await self._request(_requests.commit(name))
        if isinstance(branch, Opened):
            branch._closed = True
        if name in self._candidates:
            await self._close_branches(other for other in self._take_candidates() if other != name)
        return committed

    async def checkpoint(self, name: str | None = None, files: bool = False) -> Checkpoint:
        """Takes a checkpoint of the variables. It is kept until it is dropped or its memory is needed for newer ones.

        Args:
            name: Name of the checkpoint, not in use by another one.
            files: Whether to keep a copy of ``/session`` as well.

        Returns:
            The checkpoint. ``dropped`` lists the ids of checkpoints that were removed to make room.

        Raises:
            CheckpointFailed: The checkpoint could not be taken; the message gives the reason.
        """
        return await self._request(_requests.checkpoint(name, files))

    async def checkpoints(self) -> list[Checkpoint]:
        """Lists the checkpoints of this session and of its branches, oldest first."""
        return await self._request(_requests.checkpoints())

    async def rollback(self, checkpoint: Checkpoint | str) -> Rollback:
        """Restores the variables of a checkpoint, and ``/session`` if the checkpoint has a copy.

        Args:
            checkpoint: The checkpoint, its id or its name. The checkpoint is kept.

        Returns:
            What was restored.

        Raises:
            NoSuchCheckpoint: The checkpoint no longer exists.
        """
        return await self._request(_requests.rollback(checkpoint))

    async def drop(self, checkpoint: Checkpoint | str) -> None:
        """Removes a checkpoint.

        Args:
            checkpoint: The checkpoint, its id or its name.
        """
        return await self._request(_requests.drop(checkpoint))

    async def namespace(self) -> Namespace:
        """Lists the variables in the order they were bound, without running any code of the session.

        Returns:
            A list of :class:`Variable`, without names that begin with an underscore. Its attribute ``more`` is the
            number of variables left out.
        """
        return await self._request(_requests.namespace())

    async def interrupt(self) -> bool:
        """Interrupts the running call, which returns with status ``interrupted``.

        Returns:
            Whether a call was running.
        """
        return await self._request(_requests.interrupt())

    async def reset(self) -> None:
        """Ends the running call and starts a new interpreter. Files are kept."""
        return await self._request(_requests.reset())

    async def close(self) -> Between | None:
        """Ends the session and its branches, and removes its container. Published artifacts are kept.

        Functions that the code has registered with ``atexit`` run first, for 5 seconds at most, unless a call runs.
        On a branch, ends only the branch. Does nothing if the session is already closed.

        Returns:
            What these functions wrote, and what threads wrote since the last call; None where nothing was.
        """
        if self._closed:
            return None
        said = None
        try:
            said = await self._request(_requests.close())
        except (NoSuchSession, SessionClosed):
            if self._client._closed:
                raise
        self._closed = True
        return said

    async def put(
        self, local: Source, path: Path, *, on_progress: Progress | None = None, progress: bool = False
    ) -> None:
        """Copies a local file, directory, bytes or a binary file object into the sandbox.

        A file replaces an existing file. A directory is merged into an existing directory, and each of its files is
        replaced as a whole. Nothing is copied if the directory has links that lead out of it: BadRequest names them.

        Args:
            local: Path of the file or directory, the contents of a file, or a binary file object.
            path: Path in the container, relative to ``/session``. Missing directories are created. Below ``/data``,
                which code cannot write to, unless the session has a directory of the controller's machine there.
            on_progress: Called with the number of bytes copied and the total.
            progress: Whether to show how far it is: by tqdm where that is installed, by a line otherwise.
        """
        self._check()
        with _progress.shown(progress, f"put {os.fspath(path)}", on_progress) as tell:
            await self._put(local, path, tell)

    async def _put(self, local: Source, path: Path, on_progress: Progress | None) -> None:
        if _files.is_directory(local):
            await put_tree(self, os.fspath(local), path, on_progress)
            return
        if _files.is_elsewhere(path) and not _files.is_data(path):
            with _files.readable(local) as file:
                await self.files.write(path, file, on_progress=on_progress)
            return
        remote, offset = os.fspath(path), 0
        if _files.is_path(local) and await put_file(self, os.fspath(local), remote, on_progress):
            return
        whole = _files.size(local)
        with _files.source(local) as read:
            chunk = await in_thread(read, FILE_CHUNK)
            while True:
                following = await in_thread(read, FILE_CHUNK)
                await self._request(_requests.put(remote, offset, chunk, last=not following))
                offset, chunk = offset + len(chunk), following
                if on_progress is not None:
                    on_progress(offset, max(offset + len(chunk), whole if following else 0))
                if not following:
                    return

    @overload
    async def get(
        self,
        path: Path,
        *,
        offset: int = 0,
        size: int | None = None,
        on_progress: Progress | None = None,
        progress: bool = False,
    ) -> bytes: ...

    @overload
    async def get(
        self,
        path: Path,
        local: Target,
        *,
        offset: int = 0,
        size: int | None = None,
        on_progress: Progress | None = None,
        progress: bool = False,
    ) -> None: ...

    async def get(
        self,
        path: Path,
        local: Target | None = None,
        *,
        offset: int = 0,
        size: int | None = None,
        on_progress: Progress | None = None,
        progress: bool = False,
    ) -> bytes | None:
        """Reads a file of the sandbox, or a part of it, or copies a directory.

        A directory is merged into an existing directory. Nothing is copied if the directory has links that lead out
        of it: BadRequest names them.

        Args:
            path: Path in the container, relative to ``/session``.
            local: Path or binary file object to copy to. Nothing is written if the file cannot be read.
            offset: First byte to read.
            size: Maximum number of bytes. Defaults to the rest of the file.
            on_progress: Called with the number of bytes copied and the total.
            progress: Whether to show how far it is: by tqdm where that is installed, by a line otherwise.

        Returns:
            The bytes, or None if they were copied to ``local``.

        Raises:
            NoSuchFile: There is no regular file at this path.
        """
        self._check()
        with _progress.shown(progress, f"get {os.fspath(path)}", on_progress) as tell:
            return await self._get(path, local, offset, size, tell)

    async def _get(
        self, path: Path, local: Target | None, offset: int, size: int | None, on_progress: Progress | None
    ) -> bytes | None:
        if _files.is_elsewhere(path):
            return await self._get_elsewhere(path, local, offset, size, on_progress)
        remote, end = os.fspath(path), None if size is None else offset + size
        target = _files.Bytes() if local is None else local
        with contextlib.ExitStack() as stack:
            write: Callable[[bytes], Any] | None = None
            while True:
                try:
                    chunk, whole = await self._request(_requests.get(remote, offset, end))
                except NoSuchFile:
                    if write is not None or not _files.is_path(local) or not await self._is_directory(path):
                        raise
                    await get_tree(self, path, os.fspath(local), on_progress)
                    return None
                if (
                    len(chunk) < whole
                    and offset == 0
                    and end is None
                    and _files.is_path(local)
                    and await get_file(self, remote, os.fspath(local), on_progress)
                ):
                    return None
                write = write or stack.enter_context(_files.target(target))
                await in_thread(write, chunk)
                offset += len(chunk)
                if on_progress is not None:
                    on_progress(offset, whole)
                if not chunk or offset >= (whole if end is None else min(end, whole)):
                    break
        return target.getvalue() if isinstance(target, _files.Bytes) else None

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.created:
            return
        try:
            await self.close()
        except Error:
            if error is None:
                raise

    async def _is_directory(self, path: Path) -> bool:
        try:
            return (await self.files.stat(path)).type == "directory"
        except Error:
            return False

    async def _get_elsewhere(
        self, path: Path, local: Target | None, offset: int, size: int | None, on_progress: Progress | None
    ) -> bytes | None:
        """What get() does outside /session."""
        if local is None or offset or size is not None:
            data = (await self.files.read(path, on_progress=on_progress))[offset:]
            data = data if size is None else data[:size]
            if local is None:
                return data
            with _files.target(local) as write:
                await in_thread(write, data)
        elif (await self.files.stat(path)).type == "directory" and _files.is_path(local):
            await get_tree(self, path, os.fspath(local), on_progress)
        else:
            with _files.writable(local) as file:
                await self.files.read(path, file, on_progress=on_progress)
        return None

    async def _with_codec(self, cell: Callable[[_values.Cells], str], timeout: float | None) -> Result:
        """Runs a cell of ours, whose codec travels once."""
        result = await self.run(cell(_values.Cells(self)), timeout, check=False)
        if _values.lacks_codec(result):
            result = await self.run(cell(_values.Cells(self, whole=True)), timeout, check=False)
        self._codec = result.epoch if result.state == "kept" else None
        return result

    async def _fetched(self, file: str, limit: int) -> bytearray:
        """A file that a call has left for us, which is removed."""
        data, at = bytearray(), 0
        try:
            while True:
                chunk, size = await self._request(_requests.get(file, at))
                if size > limit:
                    raise TooLarge(f"the value has {size} bytes; the limit is {limit}")
                if not at:
                    data = bytearray(size)
                data[at : at + len(chunk)] = chunk
                at += len(chunk)
                if not chunk or at >= size:
                    return data
        finally:
            await self._with_codec(lambda cells: cells.removes(file), None)

    async def _close_branches(self, names: Iterable[str]) -> None:
        for name in names:
            await self._quietly(_requests.close().of({"session": name}))

    async def _quietly(self, request: Request[Any]) -> None:
        """Cleaning up: what cannot be cleaned up ends with the session."""
        with contextlib.suppress(Error):
            await self._client._request(request, start=False)
