"""The session of a connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from .. import AsyncClient, AsyncSession, Error, NoSuchSession

T = TypeVar("T")

CLOSE_TIME = 10.0  # seconds for which a controller is waited for in the end
ANSWER_TIME = 600.0
"""Seconds for which code waits for an answer that the client brings with another request."""


class Place:
    """Opens the session with the first call that needs it, and knows the calls that run there for this connection.

    Args:
        address: Of the controller.
        name: Of the session, which is kept at the end; None for one of the connection's own, which ends with it.
        options: For ``AsyncClient.open()``.
    """

    def __init__(self, address: str | None, name: str | None, options: dict[str, Any]) -> None:
        self.client = AsyncClient(address)
        self.name = name
        self._options = options
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
            opening = self._opening = asyncio.ensure_future(self.client.open(self.name, **self._options))
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

    async def end(self) -> None:
        """Ends what this connection has begun: its calls, and its session unless that has a name."""
        with contextlib.suppress(Error, asyncio.TimeoutError):
            await asyncio.wait_for(self._leave(), CLOSE_TIME)
        if self._calls:
            await asyncio.wait(self._calls, timeout=1)
        await self.client.close()

    async def _leave(self) -> None:
        if self.name is not None:
            await asyncio.gather(*map(self._give_up, list(self._waiting)))
        elif self._opening is not None:
            await (await self._opening).close()


def _note_failure(task: asyncio.Task[Any]) -> None:
    """Nobody may wait for it any more: asyncio is not to complain that nobody saw the exception."""
    if not task.cancelled():
        task.exception()
