"""A session of the asyncio client."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, TypeVar, Union

from . import _files, _requests
from ._asks import NO_ASKS, Asks, Function, ToolTime
from ._files import Path, Source, Target
from ._opened import Opened, Trial
from ._requests import OnError, Request
from ._stream import stream_of
from ._tools import Tools
from ._wire import FILE_CHUNK
from .errors import Error, NoSuchSession, SessionClosed
from .results import Display, Result
from .state import Checkpoint, Committed, Namespace, Rollback

if TYPE_CHECKING:
    from ._aio import AsyncClient

T = TypeVar("T")


class AsyncSession(Opened):
    """As :class:`limpet.Session`. Made by :meth:`AsyncClient.open` and :meth:`AsyncSession.branch`.

    May be used from several tasks: calls queue in order, and :meth:`interrupt` may come while :meth:`run`
    waits. As an async context manager it closes the session at the end.
    """

    def __init__(self, client: AsyncClient, opened: Mapping[str, Any], asks: Asks = NO_ASKS) -> None:
        super().__init__(opened, asks)
        self._client = client

    async def run(
        self,
        code: str,
        timeout: Optional[float] = None,
        on_stdout: Optional[Callable[[str], Any]] = None,
        on_stderr: Optional[Callable[[str], Any]] = None,
        on_display: Optional[Callable[[Display], Any]] = None,
        run_id: Optional[str] = None,
        on_error: OnError = "keep",
        *,
        tools: Optional[Tools] = None,
        on_input: Optional[Function] = None,
        approve: Optional[Function] = None,
        tool_time: Optional[ToolTime] = None,
    ) -> Result:
        """As :meth:`limpet.Session.run`; callbacks may be functions or coroutine functions.

        So may ``tools``, ``approve`` and ``on_input``: coroutines run on this loop and are cancelled with the
        call, functions run in threads.

        When the task is cancelled, or a callback raises, the code is interrupted; what was raised goes on
        once its result has come (``limpet_result``), or after 5 seconds. A second cancellation waits no
        longer.
        """
        self._check()
        asks = self._asks.but(tools, on_input, approve, tool_time)
        run_id = run_id or _requests.new_run_id()
        asking = asks.mode and self._client._asking(asks, run_id, self.name)
        stream = stream_of(on_stdout, on_stderr, on_display, asking)
        call = _requests.run(self._target, code, timeout, run_id, stream, on_error, asks.mode)
        return await self._client._run(call, stream)

    async def try_each(
        self, codes: Iterable[str], timeout: Optional[float] = None, on_error: OnError = "keep"
    ) -> list[Result]:
        """As :meth:`limpet.Session.try_each`."""
        trial = Trial(self.name, codes)
        await self._close_branches(self._take_candidates())
        if not trial.codes:
            return []
        try:
            await self.checkpoint(trial.checkpoint)
            branches = [await self.branch(name, trial.checkpoint) for name in trial.names]
            results = [
                await branch.run(code, timeout, on_error=on_error)
                for branch, code in zip(branches, trial.codes)
            ]
        except BaseException:
            await self._close_branches(trial.branches)
            raise
        finally:
            await self._quietly(_requests.drop(trial.checkpoint).of(self._target))
        self._candidates = trial.branches
        return results

    async def commit(self, branch: Union[AsyncSession, str, int, None]) -> Optional[Committed]:
        """As :meth:`limpet.Session.commit`."""
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

    async def branch(self, name: str, at: Union[Checkpoint, str, None] = None) -> AsyncSession:
        """As :meth:`limpet.Session.branch`."""
        return AsyncSession(self._client, await self._request(_requests.branch(name, at)), self._asks)

    async def checkpoint(self, name: Optional[str] = None, files: bool = False) -> Checkpoint:
        """As :meth:`limpet.Session.checkpoint`."""
        return await self._request(_requests.checkpoint(name, files))

    async def checkpoints(self) -> list[Checkpoint]:
        """As :meth:`limpet.Session.checkpoints`."""
        return await self._request(_requests.checkpoints())

    async def rollback(self, checkpoint: Union[Checkpoint, str]) -> Rollback:
        """As :meth:`limpet.Session.rollback`."""
        return await self._request(_requests.rollback(checkpoint))

    async def drop(self, checkpoint: Union[Checkpoint, str]) -> None:
        """As :meth:`limpet.Session.drop`."""
        return await self._request(_requests.drop(checkpoint))

    async def namespace(self) -> Namespace:
        """As :meth:`limpet.Session.namespace`."""
        return await self._request(_requests.namespace())

    async def interrupt(self) -> bool:
        """As :meth:`limpet.Session.interrupt`."""
        return await self._request(_requests.interrupt())

    async def reset(self) -> None:
        """As :meth:`limpet.Session.reset`."""
        return await self._request(_requests.reset())

    async def close(self) -> None:
        """As :meth:`limpet.Session.close`."""
        if self._closed:
            return
        try:
            await self._request(_requests.close())
        except (NoSuchSession, SessionClosed):
            if self._client._closed:
                raise
        self._closed = True

    async def put(self, local: Source, path: Path) -> None:
        """As :meth:`limpet.Session.put`; files are read in a thread."""
        self._check()
        with _files.source(local) as read:
            remote, offset = _files.remote_path(path), 0
            chunk = await asyncio.to_thread(read, FILE_CHUNK)
            while True:
                following = await asyncio.to_thread(read, FILE_CHUNK)
                await self._request(_requests.put(remote, offset, chunk, last=not following))
                if not following:
                    return
                offset, chunk = offset + len(chunk), following

    async def get(self, path: Path, local: Target) -> None:
        """As :meth:`limpet.Session.get`; files are written in a thread."""
        self._check()
        remote, offset = _files.remote_path(path), 0
        with contextlib.ExitStack() as stack:
            write: Optional[Callable[[bytes], Any]] = None
            while True:
                chunk, size = await self._request(_requests.get(remote, offset))
                write = write or stack.enter_context(_files.target(local))
                await asyncio.to_thread(write, chunk)
                offset += len(chunk)
                if not chunk or offset >= size:
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
