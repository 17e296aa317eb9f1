"""Events in their order, for any number of readers at their own pace."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator

Event = tuple[str, bytes]
"""Its name, and its data as JSON."""

_BEAT = 15.0  # seconds after which a reader hears that there is nothing new


class Log:
    """Keeps events up to a size, and loses the oldest beyond it.

    Args:
        most: Bytes.
    """

    def __init__(self, most: int) -> None:
        self.mark = f"{random.getrandbits(32):08x}"
        """Tells the ids of this log from those of one before it."""
        self.closed = False
        self._most = most
        self._events: deque[Event] = deque()
        self._first = 1  # the number of the oldest event
        self._size = 0
        self._waiting: set[asyncio.Future[bool]] = set()

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

    async def follow(self, after: int) -> AsyncIterator[bytes]:
        """Frames of a stream of server-sent events, from the one after that number on; at times an empty comment."""
        while True:
            at = max(after + 1, self._first)
            last = self._first + len(self._events) - 1
            if at <= last:
                after = last
                yield b"".join(self._frame(number) for number in range(at, last + 1))
            elif self.closed:
                return
            elif not await self._news():
                yield b":\n\n"

    def _frame(self, number: int) -> bytes:
        name, data = self._events[number - self._first]
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self.mark.encode(), number, name.encode(), data)

    async def _news(self) -> bool:
        """Waits; whether there may be some."""
        loop = asyncio.get_running_loop()
        news: asyncio.Future[bool] = loop.create_future()
        beat = loop.call_later(_BEAT, _answer, news, False)
        self._waiting.add(news)
        try:
            return await news
        finally:
            beat.cancel()
            self._waiting.discard(news)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for news in waiting:
            _answer(news, True)


def _answer(news: asyncio.Future[bool], there_is: bool) -> None:
    if not news.done():
        news.set_result(there_is)
