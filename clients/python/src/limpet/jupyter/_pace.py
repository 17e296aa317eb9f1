"""Large outputs and many messages one after the other: a server of Jupyter drops what comes faster than its limits."""

from __future__ import annotations

import time
from collections import deque

WINDOW = 3.0  # seconds, over which the server counts
MOST = 2_400_000  # bytes in it; more than a megabyte a second is dropped
LARGE = 100_000  # bytes: what is less is sent at once
MANY = 1500  # messages of one kind in the window; more than a thousand a second are dropped
TEXT = 24_000_000  # bytes of text in it: nobody looks at more


class Pace:
    """When outputs were sent, of which the window takes `most` bytes."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._sent: deque[tuple[float, int]] = deque()
        self._size = 0

    def wait(self, size: int) -> None:
        """Until this many bytes more may be sent."""
        if size < LARGE:
            return
        self._make_room(size)

    def message(self, size: int) -> None:
        """Until one more message of this many bytes may be sent."""
        self._make_room(size, MANY)

    def _make_room(self, size: int, many: int | None = None) -> None:
        while self._sent and (self._size + size > self._most or len(self._sent) == many):
            when, sent = self._sent.popleft()
            self._size -= sent
            time.sleep(max(0.0, when + WINDOW - time.monotonic()))
        self._sent.append((time.monotonic(), size))
        self._size += size
