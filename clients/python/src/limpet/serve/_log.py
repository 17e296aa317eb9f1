"""Events in their order, for any number of readers at their own pace."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable

Event = tuple[str, bytes]
"""Its name, and its data as JSON."""

_BEAT = 15.0  # seconds after which a reader hears that there is nothing new


_EACH = 128  # bytes that an event takes beside its data
_LOG = 4096  # and a log beside its events
_PIECE = 256 << 10  # bytes of events that are made ready for one reader at a time


class Room:
    """What logs keep together. Beyond it the log that has got nothing for longest gives way.

    Args:
        of_one: Bytes that the logs of one owner keep.
        in_all: And those of all. Beyond it the owner whose logs keep most loses some.
    """

    def __init__(self, of_one: int, in_all: int) -> None:
        self.taken: Counter[str] = Counter()
        """Bytes, by their owners."""
        self._of_one, self._in_all = of_one, in_all
        self._logs: dict[str, OrderedDict[Log, None]] = {}  # those with events

    def take(self, log: Log, size: int) -> None:
        """A log has got an event, and takes so much more, or less."""
        self.taken[log.owner] += size
        logs = self._logs.setdefault(log.owner, OrderedDict())
        logs[log] = None
        logs.move_to_end(log)
        while (oldest := self._oldest(log)) is not None:
            oldest.give_way()

    def leave(self, log: Log, size: int) -> None:
        """A log has lost its events. All that it has lost took so much."""
        self._logs[log.owner].pop(log, None)
        self.taken[log.owner] -= size
        if not self.taken[log.owner]:
            del self.taken[log.owner], self._logs[log.owner]

    def _oldest(self, log: Log) -> Log | None:
        """Which other log gives way to this one, if any has to."""
        if self.taken[log.owner] > self._of_one:
            owner = log.owner
        elif self.taken.total() > self._in_all:
            owner = max(self.taken, key=self.taken.__getitem__)
        else:
            return None
        oldest = next(iter(self._logs[owner]), log)
        return None if oldest is log else oldest


class Log:
    """Keeps events up to a size, and loses the oldest beyond it.

    Args:
        most: Bytes.
        room: Has its bytes too, until it is left.
        owner: Whose it is.
    """

    def __init__(self, most: int, room: Room | None = None, owner: str = "") -> None:
        self.mark = f"{random.getrandbits(32):08x}"
        """Tells the ids of this log from those of one before it."""
        self.owner = owner
        self.closed = False
        self.give_way: Callable[[], None] = self.clear
        """Makes room for other logs."""
        self._most = most
        self._room = room
        self._events: deque[Event] = deque()
        self._first = 1  # the number of the oldest event
        self._size = 0
        self._waiting: set[asyncio.Future[bool]] = set()
        if room is not None:
            room.take(self, _LOG)

    def append(self, name: str, data: bytes) -> None:
        """One more."""
        before = self._size
        self._events.append((name, data))
        self._size += len(data) + _EACH
        while self._size > self._most and len(self._events) > 1:
            self._size -= len(self._events.popleft()[1]) + _EACH
            self._first += 1
        if self._room is not None:
            self._room.take(self, self._size - before)
        self._wake()

    def clear(self) -> None:
        """Loses all events."""
        if self._room is not None:
            self._room.leave(self, self._size)
        self._first += len(self._events)
        self._events.clear()
        self._size = 0

    def leave(self) -> None:
        """Nobody finds it any more: those who read it keep it, and its room is free."""
        if self._room is not None:
            self._room.leave(self, self._size + _LOG)
            self._room = None

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
                pieces, size, after = [], 0, at - 1
                while after < last and size < _PIECE:
                    after += 1
                    pieces.append(self._frame(after))
                    size += len(pieces[-1])
                yield b"".join(pieces)
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
