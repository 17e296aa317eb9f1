"""What a call sends while it runs, made ready for the caller's callbacks."""

from __future__ import annotations

import codecs
from typing import Any, Callable, Iterator, Mapping, Optional

from . import _wire
from .errors import ProtocolMismatch
from .results import Result, display_from_wire

_CREDIT_EVERY = 16  # of the 64 output events that may be under way

Callback = Callable[[Any], Any]
Delivery = tuple[Callback, Any]


class Stream:
    """Turns the events of one call into calls of callbacks, and counts the credit to give back.

    It calls nothing itself, so that callbacks may be awaited.
    """

    def __init__(
        self, on_stdout: Optional[Callback], on_stderr: Optional[Callback], on_display: Optional[Callback]
    ) -> None:
        self._outputs = {1: _Output("stdout", on_stdout), 2: _Output("stderr", on_stderr)}
        self._on_display = on_display
        self._uncredited = 0
        self._shown = 0
        self._lost = False
        self.wanted = not (on_stdout is on_stderr is on_display is None)
        self.failure: Optional[BaseException] = None  # what a callback raised

    def event(self, kind: int, body: Mapping[str, Any]) -> Optional[Delivery]:
        """The callback an event is for and its argument."""
        if kind == _wire.OUTPUT:
            self._uncredited += 1
            try:
                return self._outputs[body["stream"]].text(body["data"])
            except (KeyError, TypeError) as error:
                raise ProtocolMismatch(f"an output event is malformed: {error!r}") from error
        if kind == _wire.DISPLAY:
            self._shown += 1
            display = display_from_wire(body)
            return (self._on_display, display) if self._on_display else None
        raise ProtocolMismatch(f"the controller sent a message of kind {kind} to a call")

    def credit(self) -> int:
        """Events to give credit for now, mostly 0."""
        if self._uncredited < _CREDIT_EVERY:
            return 0
        count, self._uncredited = self._uncredited, 0
        return count

    def lost(self) -> None:
        """The connection was lost. What is missed comes from the record at the end."""
        self._lost = True

    def rest(self, result: Result) -> Iterator[Delivery]:
        """What is left when the record has come: an unfinished character, or all that was missed."""
        for output in self._outputs.values():
            delivery = (
                output.missed(getattr(result, output.name)) if self._lost else output.text(b"", final=True)
            )
            if delivery:
                yield delivery
        if self._lost and self._on_display:
            for display in result.displays[self._shown :]:
                yield self._on_display, display


class _Output:
    """One of stdout and stderr."""

    def __init__(self, name: str, callback: Optional[Callback]) -> None:
        self.name = name
        self._callback = callback
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._delivered = 0  # characters

    def text(self, data: bytes, final: bool = False) -> Optional[Delivery]:
        if self._callback is None:
            return None
        return self._deliver(self._decoder.decode(data, final))

    def missed(self, text: str) -> Optional[Delivery]:
        return self._deliver(text[self._delivered :]) if self._callback else None

    def _deliver(self, text: str) -> Optional[Delivery]:
        self._delivered += len(text)
        return (self._callback, text) if self._callback and text else None
