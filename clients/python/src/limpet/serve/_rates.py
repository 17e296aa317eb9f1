"""How often somebody may ask, and how much of the gateway they may take at one time."""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections import Counter
from collections.abc import Iterator

from ._problems import Problem

_REQUESTS = 512  # of one owner at one time, streams and connections to ports included
_BYTES = 64 << 20  # of the bodies of these, as far as they are in memory
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


class Charges:
    """What requests take while they last, by their owners. Over it an owner is refused, and nobody else."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """One of somebody who is not known yet. It takes nothing any more when it ends."""
        token = _CHARGE.set(_Charge(self))
        try:
            yield
        finally:
            _CHARGE.get().settle()
            _CHARGE.reset(token)

    def owned(self, who: str) -> None:
        """The request that is answered is theirs. Raises Problem where they have too many."""
        charge = _CHARGE.get(None)
        if charge is None or charge.who is not None:
            return
        if self._requests[who] >= _REQUESTS:
            raise Problem(429, "LimitReached", f"{_REQUESTS} requests are under way; wait for some to end", 1)
        charge.who = who
        self._requests[who] += 1

    def add(self, who: str, size: int) -> None:
        """More bytes. Raises Problem where they are too many."""
        if self._bytes[who] + size > _BYTES:
            raise Problem(
                429, "LimitReached", f"the requests under way have {_BYTES} bytes; wait for some to end", 1
            )
        self._bytes[who] += size

    def remove(self, who: str, size: int) -> None:
        """A request has ended."""
        self._requests[who] -= 1
        self._bytes[who] -= size
        if not self._requests[who]:
            del self._requests[who], self._bytes[who]


class _Charge:
    """Of one request."""

    def __init__(self, charges: Charges) -> None:
        self.charges = charges
        self.who: str | None = None
        self.size = 0

    def settle(self) -> None:
        if self.who is not None:
            self.charges.remove(self.who, self.size)
            self.who = None


_CHARGE: contextvars.ContextVar[_Charge] = contextvars.ContextVar("limpet_charge")


def hold(size: int) -> None:
    """More of a body is in memory until its request has been answered. Raises Problem."""
    charge = _CHARGE.get(None)
    if charge is not None and charge.who is not None:
        charge.charges.add(charge.who, size)
        charge.size += size
