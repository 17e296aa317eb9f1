"""How often somebody may ask."""

from __future__ import annotations

import time

from ._problems import Problem

_MANY = 10_000  # owners that are remembered before those without a debt are forgotten


class Rates:
    """At most so many requests of each in so long a time, spread as they like: GCRA, one number for each.

    Args:
        window_ms: The time.
        most: Requests in it; 0 is any number.
    """

    def __init__(self, window_ms: int, most: int) -> None:
        self._window = window_ms / 1000
        self._step = self._window / most if most else 0.0
        self._until: dict[str, float] = {}

    def count(self, who: str) -> None:
        """One more. Raises Problem where it is one too many, which then does not count."""
        if not self._step:
            return
        now = time.monotonic()
        until = max(self._until.get(who, now), now) + self._step
        if until - now > self._window + 1e-9:
            wait = until - now - self._window
            raise Problem(429, "LimitReached", f"too many requests; go on in {wait:.1f} s", wait)
        self._until[who] = until
        if len(self._until) > _MANY:
            self._until = {each: when for each, when in self._until.items() if when > now}
