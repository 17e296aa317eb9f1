"""Events in their order, for any number of readers at their own pace."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

Event = tuple[str, bytes]
"""Its name, and its data as JSON."""

_BEAT = 15.0  # seconds after which a reader hears that there is nothing new


class Log:
    """Keeps events up to a size, and loses the oldest beyond it.

    Args:
        most: Bytes.
    """

    def __init__(self, most: int) -> None:
        self.mark = os.urandom(4).hex()
        """Tells the ids of this log from those of one before it."""
        self.closed = False
        self._most = most
        self._events: deque[Event] = deque()
        self._first = 1  # the number of the oldest event
        self._size = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def append(self, name: str, data: bytes) -> None:
        """One more."""
        self._events.append((name, data))
        self._size += len(data)
        while self._size > self._most and len(self._events) > 1:
            self._size -= len(self._events.popleft()[1])
            self._first += 1
        self._wake()

    def close(self) -> None:
        """Nothing follows: readers come to an end."""
        self.closed = True
        self._wake()

    def after(self, last_event_id: str | None) -> int:
        """The number of the event that a reader has had last; 0 where it knows nothing of this log."""
        mark, _, number = (last_event_id or "").partition("-")
        return int(number) if mark == self.mark and number.isdigit() and len(number) < 20 else 0

    async def follow(self, after: int, ending: asyncio.Event | None = None) -> AsyncIterator[bytes]:
        """Frames of a stream of server-sent events, from the one after that number on; at times an empty comment.

        Args:
            after: See after().
            ending: Once this is set nothing more is waited for.
        """
        while True:
            at = max(after + 1, self._first)
            if at < self._first + len(self._events):
                frames = []
                for number in range(at, self._first + len(self._events)):
                    name, data = self._events[number - self._first]
                    frames.append(
                        b"id: %s-%d\nevent: %s\ndata: %s\n\n"
                        % (self.mark.encode(), number, name.encode(), data)
                    )
                    after = number
                yield b"".join(frames)
            elif self.closed or (ending is not None and ending.is_set()):
                return
            elif not await self._news(ending):
                yield b":\n\n"

    async def _news(self, ending: asyncio.Event | None) -> bool:
        """Waits; whether there may be some."""
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(news)
        end = None if ending is None else asyncio.ensure_future(ending.wait())
        try:
            waited: list[asyncio.Future[Any]] = [news] if end is None else [news, end]
            done, _ = await asyncio.wait(waited, timeout=_BEAT, return_when=asyncio.FIRST_COMPLETED)
            return bool(done)
        finally:
            self._waiting.discard(news)
            if end is not None:
                end.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await end

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for news in waiting:
            if not news.done():
                news.set_result(None)
