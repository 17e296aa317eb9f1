"""What both clients do when the connection to the controller is lost: a controller may die and come back."""

from __future__ import annotations

import time

from .._protocol import _wire
from ..errors import Unavailable
from ._address import Endpoint

HANDSHAKE_TIMEOUT = 10.0  # seconds in which whoever listens must take the connection and say hello
START_TIMEOUT = 60.0  # limpetd --detach returns when the socket answers; this only bounds a broken one
CONNECT_TIMEOUT = START_TIMEOUT + 2 * HANDSHAKE_TIMEOUT  # all steps together
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between attempts to connect again
ABANDON_TIMEOUT = 5.0  # seconds a cancelled task waits for the call it interrupted; it is killed after 2

# What may not be asked again when the first may have been carried out, and how people call it.
ONCE = {
    _wire.RESET: "reset",
    _wire.PUT: "put",
    _wire.SHUTDOWN: "shutdown",
    _wire.CHECKPOINT: "checkpoint",
    _wire.ROLLBACK: "rollback",
    _wire.DROP: "drop",
    _wire.BRANCH: "branch",
    _wire.COMMIT: "commit",
    _wire.FORK: "fork",
}


class ConnectionLost(Exception):
    """The connection ended. ``sent``: the request may have reached the controller."""

    def __init__(self, why: object, sent: bool) -> None:
        super().__init__(str(why))
        self.sent = sent


class Attempts:
    """Of one request: whether it is sent once more, and for how long a controller is looked for."""

    _deadline: float | None = None
    _pause = 0.0
    _asked = 0.0

    def __init__(self, endpoint: Endpoint, once: str | None, patience: float) -> None:
        """``once``: what may not be asked twice is called so.

        ``patience``: seconds from a loss on; the first new attempt is made even if there are none.
        """
        self._endpoint = endpoint
        self._once = once
        self._patience = patience

    def limit(self, seconds: float) -> float:
        """For one step of connecting: that many, or what is left of the patience when that is less."""
        if self._deadline is None:
            return seconds
        return min(seconds, max(self._deadline - time.monotonic(), LONGEST_PAUSE))

    def asks(self) -> None:
        """There is a connection, and the request is about to be sent."""
        self._asked = time.monotonic()

    def pause(self, error: ConnectionLost | Unavailable) -> float:
        """Seconds until the next attempt. Raises Unavailable when there is to be none.

        A controller that could not be reached in the first place is not waited for.
        """
        now = time.monotonic()
        if isinstance(error, ConnectionLost):
            why = self._endpoint.unreachable(error)
            why.__cause__ = error
            if error.sent and self._once is not None:
                unknown = f"whether the {self._once} was carried out is unknown"
                raise Unavailable(f"{why}; {unknown}") from error
            lasted = error.sent and now - self._asked > LONGEST_PAUSE
            if self._deadline is None or lasted:  # not when controllers die of the request at once
                self._deadline, self._pause = now + self._patience, 0.0
        else:
            why = error
        if self._deadline is None or (self._pause and now + self._pause >= self._deadline):
            raise why
        pause = self._pause
        self._pause = min(2 * pause or FIRST_PAUSE, LONGEST_PAUSE)
        return pause
