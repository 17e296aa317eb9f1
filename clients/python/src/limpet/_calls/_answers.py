"""What this client has answered: a question that comes again, after a connection was lost, is not asked twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Protocol

from .._protocol._wire import ASKS

_CALLS = 64  # whose callers have gone and may come back with the same run_id

Body = dict[str, Any]


class Channel(Protocol):
    """The request by which a call is joined; used from any thread."""

    def answer(self, body: Body) -> None:
        """What does not arrive is asked for again at the next request."""

    def fail(self, error: Exception) -> None:
        """The request is to raise that."""


class Answers:
    """To the questions of one call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: set[int] = set()
        # No more than ASKS questions wait, and answers arrive in order: an older one has arrived.
        self._sent: OrderedDict[int, Body] = OrderedDict()
        self._channel: Channel | None = None

    def attach(self, channel: Channel) -> None:
        """Answers go there from now on."""
        with self._lock:
            self._channel = channel

    def detach(self, channel: Channel) -> None:
        with self._lock:
            if self._channel is channel:
                self._channel = None

    def begin(self, number: int) -> bool:
        """Whether a question is to be answered: not when it is being answered, or has been."""
        with self._lock:
            known = self._sent.get(number)
            if known is None:
                new = number not in self._pending
                self._pending.add(number)
                return new
            if self._channel is not None:
                self._channel.answer(known)
            return False

    def finish(self, number: int, body: Body) -> None:
        with self._lock:
            self._pending.discard(number)
            self._sent[number] = body
            while len(self._sent) > ASKS:
                self._sent.popitem(last=False)
            if self._channel is not None:
                self._channel.answer(body)

    def leave(self, number: int, channel: Channel | None, error: Exception | None = None) -> None:
        """It stays unanswered; with ``error`` the request of that channel raises it."""
        with self._lock:
            self._pending.discard(number)
            if error is not None and channel is not None and self._channel is channel:
                channel.fail(error)


class Memory:
    """The answers to calls of a client, by their run_id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: OrderedDict[str, Answers] = OrderedDict()

    def of(self, run_id: str) -> Answers:
        with self._lock:
            answers = self._calls.setdefault(run_id, Answers())
            self._calls.move_to_end(run_id)
            while len(self._calls) > _CALLS:
                self._calls.popitem(last=False)
            return answers

    def forget(self, run_id: str) -> None:
        """The call has ended."""
        with self._lock:
            self._calls.pop(run_id, None)
