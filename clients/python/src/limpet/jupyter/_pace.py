"""Large outputs one after the other: a server of Jupyter drops what comes faster than its limit."""

from __future__ import annotations

import time
from collections import deque

WINDOW = 3.0  # seconds, over which the server counts
MOST = 2_400_000  # bytes in it; more than a megabyte a second is dropped
LARGE = 100_000  # bytes: what is less is sent at once


class Pace:
    """When large outputs were sent."""

    def __init__(self) -> None:
        self._sent: deque[tuple[float, int]] = deque()

    def wait(self, size: int) -> None:
        """Until this many bytes more may be sent."""
        if size < LARGE:
            return
        while self._sent and sum(each for _, each in self._sent) + size > MOST:
            when, _ = self._sent.popleft()
            time.sleep(max(0.0, when + WINDOW - time.monotonic()))
        self._sent.append((time.monotonic(), size))
