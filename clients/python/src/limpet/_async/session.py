"""A session: Python that stays alive between calls. The blocking one is generated from this file."""

from __future__ import annotations

import contextlib
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
from ..errors import Error, NoSuchSession, SessionClosed, TooLarge
from ..results import Display, Result
from ..state import Checkpoint, Committed, Namespace, Rollback
from .connecting import in_thread

if TYPE_CHECKING:
    from .client import AsyncClient

T = TypeVar("T")


class AsyncSession(Opened):
    """Python that stays alive between calls. Made by :meth:`AsyncClient.open` and :meth:`AsyncSession.branch`.

    May be used from several tasks: calls queue in order, and :meth:`interrupt` may come while :meth:`run`
    waits. As an async context manager it ends the session, unless that was there before and was attached to.

    A request whose connection is lost is asked again at the next controller when that does no harm. Otherwise
    (reset, put, checkpoint, rollback, drop, branch, commit) it raises Unavailable, and whether it was carried
    out is unknown: :meth:`checkpoints`, :meth:`namespace` and :meth:`AsyncClient.sessions` tell.
    """

    def __init__(self, client: AsyncClient, opened: Mapping[str, Any], asks: Asks = NO_ASKS) -> None:
        super().__init__(opened, asks)
        self._client = client

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
    ) -> Result:
        """Runs code and returns its result, whatever the code did.

        Callbacks, ``approve`` and ``on_input`` may be functions or coroutine functions. Coroutines, those of tools
        too, run on this loop and are cancelled with the call; tools that are functions run in threads.

        A function that raises :class:`Leave` ends only this wait: the code waits for its answer until somebody
        runs it with the same ``run_id``. So it does when this process dies. None of them runs twice for one
        question in one client, whatever is lost meanwhile.

        When the task is cancelled, or a callback raises, the code is interrupted; what was raised goes on
        once its result has come (``limpet_result``), or after 5 seconds. A second cancellation waits no
        longer.

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
                the logger ``limpet.tools``. This and what follows is by default as :meth:`AsyncClient.open` was told.
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
        return await self._client._run(call, stream)

    async def set(self, name: str, value: Any, timeout: float | None = None) -> None:
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
        parts = await in_thread(_codec.dump, value)
        file = _values.new_file()
        if sum(map(len, parts)) <= _values.SMALL:
            cell = _values.cell_that_takes(self, name, parts, file)
        else:
            await self.put(_values.Source(parts), file)
            cell = _values.cell_that_takes(self, name, None, file)
        _values.check(await self.run(cell, timeout))

    async def value(
        self, expression: str, timeout: float | None = None, *, limit: int = _values.LIMIT
    ) -> Any:
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
        result = await self.run(_values.cell_that_gives(self, expression, file), timeout)
        data = _values.sent(result)
        return await in_thread(
            _values.read, await self._fetched(file, limit) if data is None else data, result
        )

    async def try_each(
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
        await self._close_branches(self._take_candidates())
        if not trial.codes:
            return []
        try:
            await self.checkpoint(trial.checkpoint)
            branches = [await self.branch(name, trial.checkpoint) for name in trial.names]
            results = [
                await branch.run(code, timeout, on_error=on_error)
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
        """Makes the state of a branch the state of this session; the branch ends.

        Args:
            branch: A session made by :meth:`branch`, its name, or the number of a candidate of the last
                :meth:`try_each`, whose other candidates end too. None only ends them, and changes nothing.
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

    async def branch(self, name: str, at: Checkpoint | str | None = None) -> AsyncSession:
        """A session ``SESSION/NAME`` with the variables of a checkpoint, by default those of this moment.

        From there on it has variables of its own, while the container, the files and the artifacts stay
        those of this session. Calls of one container run one at a time.

        Args:
            name: Of the branch, as that of a session.
            at: A checkpoint, its id or name.

        Raises:
            BranchExists: It is open already.
        """
        return AsyncSession(self._client, await self._request(_requests.branch(name, at)), self._asks)

    async def checkpoint(self, name: str | None = None, files: bool = False) -> Checkpoint:
        """Keeps a copy of the variables, until it is dropped or has to make room for a newer one.

        Args:
            name: To call it by, one that is not kept already.
            files: Whether to keep a copy of ``/session`` as well.

        Returns:
            The checkpoint. Its ``dropped`` has the ids of those that had to go for it.

        Raises:
            CheckpointFailed: There can be none; the text says why.
        """
        return await self._request(_requests.checkpoint(name, files))

    async def checkpoints(self) -> list[Checkpoint]:
        """Lists the checkpoints of this session and of its branches, oldest first."""
        return await self._request(_requests.checkpoints())

    async def rollback(self, checkpoint: Checkpoint | str) -> Rollback:
        """Goes back to the variables of a checkpoint, and to its files where it has them.

        Args:
            checkpoint: The checkpoint, its id or its name. It is kept.

        Raises:
            NoSuchCheckpoint: It is not kept any more.
        """
        return await self._request(_requests.rollback(checkpoint))

    async def drop(self, checkpoint: Checkpoint | str) -> None:
        """Discards a checkpoint.

        Args:
            checkpoint: The checkpoint, its id or its name.
        """
        return await self._request(_requests.drop(checkpoint))

    async def namespace(self) -> Namespace:
        """The variables, in the order they were bound; runs no code of theirs.

        A list of :class:`Variable` without names that begin with an underscore; ``more`` of the list is how
        many were left out.
        """
        return await self._request(_requests.namespace())

    async def interrupt(self) -> bool:
        """Interrupts the running call, which returns with status ``interrupted``.

        Returns:
            Whether a call was running.
        """
        return await self._request(_requests.interrupt())

    async def reset(self) -> None:
        """Ends a running call and starts a new interpreter. Files stay."""
        return await self._request(_requests.reset())

    async def close(self) -> None:
        """Ends the session and its branches and removes its container; published artifacts stay.

        Of a branch it ends that branch alone. Does nothing if it is closed already.
        """
        if self._closed:
            return
        try:
            await self._request(_requests.close())
        except (NoSuchSession, SessionClosed):
            if self._client._closed:
                raise
        self._closed = True

    async def put(self, local: Source, path: Path) -> None:
        """Copies a local file, bytes or a binary file object to a file of the session, which it replaces.

        Args:
            local: The file, or its contents.
            path: In the container, relative to ``/session``. Directories are made.
        """
        self._check()
        with _files.source(local) as read:
            remote, offset = _files.remote_path(path), 0
            chunk = await in_thread(read, FILE_CHUNK)
            while True:
                following = await in_thread(read, FILE_CHUNK)
                await self._request(_requests.put(remote, offset, chunk, last=not following))
                if not following:
                    return
                offset, chunk = offset + len(chunk), following

    @overload
    async def get(self, path: Path, *, offset: int = 0, size: int | None = None) -> bytes: ...

    @overload
    async def get(self, path: Path, local: Target, *, offset: int = 0, size: int | None = None) -> None: ...

    async def get(
        self, path: Path, local: Target | None = None, *, offset: int = 0, size: int | None = None
    ) -> bytes | None:
        """Reads a file of the session, or a part of it.

        Args:
            path: In the container, relative to ``/session``.
            local: A local file or a binary file object to which it is copied. Nothing is written when it cannot be
                read.
            offset: Where to begin, in bytes.
            size: How many bytes at most; by default all that follow.

        Returns:
            The bytes, or None where they were copied to ``local``.

        Raises:
            NoSuchFile: No regular file is there.
        """
        self._check()
        remote, end = _files.remote_path(path), None if size is None else offset + size
        target = _files.Bytes() if local is None else local
        with contextlib.ExitStack() as stack:
            write: Callable[[bytes], Any] | None = None
            while True:
                chunk, whole = await self._request(_requests.get(remote, offset, end))
                write = write or stack.enter_context(_files.target(target))
                await in_thread(write, chunk)
                offset += len(chunk)
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

    async def _fetched(self, file: str, limit: int) -> bytearray:
        """A file that a call has left for us, which is removed."""
        data, at = bytearray(), 0
        try:
            while True:
                chunk, size = await self._request(_requests.get(file, at))
                if size > limit:
                    raise TooLarge(f"the value has {size} bytes, and {limit} are allowed")
                if not at:
                    data = bytearray(size)
                data[at : at + len(chunk)] = chunk
                at += len(chunk)
                if not chunk or at >= size:
                    return data
        finally:
            await self.run(_values.cell_that_removes(self, file))

    async def _request(self, request: Request[T]) -> T:
        self._check()
        return await self._client._request(request.of(self._target))

    async def _close_branches(self, names: Iterable[str]) -> None:
        for name in names:
            await self._quietly(_requests.close().of({"session": name}))

    async def _quietly(self, request: Request[None]) -> None:
        """Cleaning up: what cannot be cleaned up ends with the session."""
        with contextlib.suppress(Error):
            await self._client._request(request, start=False)
