"""The session of a connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from .. import AsyncClient, AsyncSession, Error, NoSuchSession, Result
from .._adapters import times
from ._tasks import Tasks

T = TypeVar("T")
Callbacks = dict[str, Any]
Begin = Callable[[Callbacks], Awaitable[Result]]
"""Makes a call of code or of a command that tells these callbacks."""

CLOSE_TIME = 10.0  # seconds for which a controller is waited for in the end
ANSWER_TIME = 600.0
"""Seconds for which code waits for an answer that the client brings with another request."""


class Home:
    """Whose sessions they are: here those of the user who has started the server, who may see and do all.

    Args:
        client: Of the controller.
        options: For ``AsyncClient.open()``.
    """

    shows_paths = True
    """Whether clients learn where artifacts are on this machine."""

    def __init__(self, client: AsyncClient, options: dict[str, Any]) -> None:
        self.client = client
        self.timeout = options.get("timeout") or times.STANDARD
        """Seconds of a call for which the model says no others."""
        self._options = options

    async def open(self, name: str | None) -> AsyncSession:
        """A session of this name, or a new one."""
        return await self.client.open(name, **self._options)

    async def close(self, session: AsyncSession) -> None:
        """Ends a session."""
        await session.close()

    def name_of(self, session: str | None) -> str | None:
        """What its owner calls a session."""
        return session

    def check(self, code: str) -> None:
        """Whether this may be run. Raises Error."""

    async def run(
        self, session: AsyncSession, run_id: str, kind: str, code: str, begin: Begin, callbacks: Callbacks
    ) -> Result:
        """Makes a call. ``kind`` is ``python`` or ``command``."""
        return await begin(callbacks)

    def ran(self, result: Result) -> None:
        """A call has ended."""


class Place:
    """Opens the session with the first call that needs it, and knows the calls that run there for this connection.

    Args:
        home: Where the session comes from.
        name: Of the session, which is kept at the end; None for one of the connection's own, which ends with it.
    """

    def __init__(self, home: Home, name: str | None) -> None:
        self.home = home
        self.client = home.client
        self.name = name
        self.tasks = Tasks()
        self._opening: asyncio.Task[AsyncSession] | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._waiting: dict[str, tuple[str, asyncio.TimerHandle]] = {}

    @property
    def is_open(self) -> bool:
        """Whether a session has been opened, or one of this name may be there."""
        return self._opening is not None or self.name is not None

    @property
    def has_session(self) -> bool:
        """Whether a call may have done something."""
        opening = self._opening
        return opening is not None and opening.done() and not opening.exception()

    async def session(self, branch: str | None = None) -> AsyncSession:
        """The session, or a branch of it."""
        opening = self._opening
        if opening is None:  # not cancelled with the call: a session that nobody knows of would be left
            opening = self._opening = asyncio.ensure_future(self.home.open(self.name))
            opening.add_done_callback(_note_failure)
        try:
            session = await asyncio.shield(opening)
        except Exception:
            if self._opening is opening:
                self._opening = None
            raise
        if branch is None:
            return session
        try:
            return await self.client.attach(f"{session.name}/{branch}")
        except NoSuchSession:
            raise NoSuchSession(f"there is no branch '{branch}'; the tool 'branch' opens one") from None

    async def is_gone(self) -> bool:
        """Asks whether the session has ended. The next call then opens another one."""
        opening = self._opening
        if opening is None:
            return False
        session = await asyncio.shield(opening)
        try:
            if (await self.client.attach(session.name)).instance == session.instance:
                return False
        except NoSuchSession:
            pass
        except Error:
            return False  # nobody knows
        if self._opening is opening:
            self._opening = None
        return True

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for something of the client, and cancels it once when it is cancelled itself.

        The SDK cancels again and again, and the second time the client would no longer wait for its interrupt to
        arrive.
        """
        task = asyncio.ensure_future(work)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        task.add_done_callback(_note_failure)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    def waits(self, run_id: str) -> str:
        """This call waits for an answer, which comes with another request or never: then it is interrupted.

        Returns:
            The name of the question, for ``answered()``.
        """
        question = os.urandom(8).hex()
        timer = asyncio.get_running_loop().call_later(ANSWER_TIME, self._expire, question)
        self._waiting[question] = run_id, timer
        return question

    def answered(self, question: str) -> bool:
        """Whether the answer to this was still waited for."""
        _, timer = self._waiting.pop(question, (None, None))
        if timer is not None:
            timer.cancel()
        return timer is not None

    def _expire(self, question: str) -> None:
        task = asyncio.ensure_future(self._give_up(question))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _give_up(self, question: str) -> None:
        run_id, _ = self._waiting.get(question, ("", None))
        if not self.answered(question):
            return
        with contextlib.suppress(Error):
            await self.client.interrupt(run_id)

    @property
    def is_busy(self) -> bool:
        """Whether something runs here, or waits for an answer."""
        return bool(self._calls or self._waiting or self.tasks.are_running)

    async def end(self) -> None:
        """Ends what this connection has begun: its calls, and its session unless that has a name."""
        self.tasks.end()
        with contextlib.suppress(Error, asyncio.TimeoutError):
            await asyncio.wait_for(self._leave(), CLOSE_TIME)
        if self._calls:
            await asyncio.wait(self._calls, timeout=1)

    async def _leave(self) -> None:
        if self.name is not None:
            await asyncio.gather(*map(self._give_up, list(self._waiting)))
        elif self._opening is not None:
            await self.home.close(await self._opening)


def _note_failure(task: asyncio.Task[Any]) -> None:
    """Nobody may wait for it any more: asyncio is not to complain that nobody saw the exception."""
    if not task.cancelled():
        task.exception()
