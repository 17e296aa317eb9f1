"""What a call sends while it runs, made ready for the caller's callbacks."""

from __future__ import annotations

import codecs
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._protocol import _wire
from ..errors import ProtocolMismatch
from ..results import Display, Result, display_from_wire
from ._answers import Channel
from ._asking import Asking
from ._tools import check_callable

_CREDIT_EVERY = 16  # of the 64 output events that may be under way

Callback = Callable[[Any], Any]
Delivery = tuple[Callback, Any]


def stream_of(
    on_stdout: Callback | None,
    on_stderr: Callback | None,
    on_display: Callback | None,
    asking: Asking | None,
    echo: bool = False,
) -> Stream | None:
    """None when a call has nobody who would hear of it before its end. ``echo``: text without a callback is printed."""
    check_callable(on_stdout=on_stdout, on_stderr=on_stderr, on_display=on_display)
    if echo:
        on_stdout = on_stdout or functools.partial(_print, "stdout")
        on_stderr = on_stderr or functools.partial(_print, "stderr")
    if on_stdout is None and on_stderr is None and on_display is None and asking is None:
        return None
    return Stream(on_stdout, on_stderr, on_display, asking)


def _print(stream: str, text: str) -> None:
    print(text, end="", file=getattr(sys, stream), flush=True)


class Stream:
    """Turns the events of one call into calls of callbacks, and counts the credit to give back.

    It calls nothing itself, so that callbacks may be awaited.
    """

    def __init__(
        self,
        on_stdout: Callback | None,
        on_stderr: Callback | None,
        on_display: Callback | None,
        asking: Asking | None = None,
    ) -> None:
        self._outputs = {1: _Output("stdout", on_stdout), 2: _Output("stderr", on_stderr)}
        self._displays = _Displays(on_display)
        self._uncredited = 0
        self._lost = False
        self.wanted = not (on_stdout is on_stderr is on_display is None)
        self.failure: BaseException | None = None  # what a callback raised
        self.asking = asking

    def event(self, kind: int, body: Mapping[str, Any]) -> Delivery | None:
        """The callback an event is for and its argument."""
        if kind == _wire.OUTPUT:
            self._uncredited += 1
            try:
                return self._outputs[body["stream"]].text(body["data"])
            except (KeyError, TypeError) as error:
                raise ProtocolMismatch(f"an output event is malformed: {error!r}") from error
        if kind == _wire.DISPLAY:
            return self._displays.event(display_from_wire(body))
        if kind == _wire.ASK and self.asking is not None:
            return self.asking.question, body
        raise ProtocolMismatch(f"the controller sent a message of kind {kind} to a call")

    def credit(self) -> int:
        """Events to give credit for now, mostly 0."""
        if self._uncredited < _CREDIT_EVERY:
            return 0
        count, self._uncredited = self._uncredited, 0
        return count

    def attach(self, channel: Channel) -> None:
        """The call is about to be joined by that request."""
        if self.asking is not None:
            self.asking.attach(channel)

    def detach(self) -> None:
        if self.asking is not None:
            self.asking.detach()

    def end(self) -> None:
        """Nobody waits for the call any more."""
        self.failure = None  # whose frames hold this: both go at once
        if self.asking is not None:
            self.asking.end()

    def lost(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The connection was lost. The body to ask again with: what is missed comes from the record."""
        if self.asking is not None:
            self.asking.check()
        self._lost = True
        return {name: value for name, value in body.items() if name != "stream"}

    def rest(self, result: Result) -> Iterator[Delivery]:
        """What is left when the record has come: an unfinished character, or all that was missed."""
        for output in self._outputs.values():
            yield from output.missed(result) if self._lost else output.end()
        if self._lost:
            yield from self._displays.missed(result.displays)


class _Output:
    """One of stdout and stderr."""

    def __init__(self, name: str, callback: Callback | None) -> None:
        self._name = name
        self._callback = callback
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._bytes = 0  # that came
        self._delivered = 0  # characters

    def text(self, data: bytes, final: bool = False) -> Delivery | None:
        if self._callback is None:
            return None
        self._bytes += len(data)
        return self._deliver(self._decoder.decode(data, final))

    def end(self) -> Iterator[Delivery]:
        delivery = self.text(b"", final=True)
        if delivery:
            yield delivery

    def missed(self, result: Result) -> Iterator[Delivery]:
        """From the record, which has the beginning, in as many characters for bytes that are no UTF-8."""
        if self._callback is None:
            return
        text: str = getattr(result, self._name)
        seen = self._bytes - len(self._decoder.getstate()[0])
        delivery = self._deliver(text[self._delivered :])
        if delivery:
            yield delivery
        lost = getattr(result, f"{self._name}_bytes") - max(seen, _size(text))
        if self._cut(result) and lost > 0:
            file = getattr(result, f"{self._name}_file")
            where = f"the whole text is in {file}" if file else "they are lost"
            notice = f"{lost} more bytes of {self._name} came while the controller was away; {where}"
            yield self._callback, f"\n[limpet: {notice}]\n"

    def _cut(self, result: Result) -> bool:
        """Whether the record has only the beginning; its `truncated` does not say which stream was cut."""
        if result.stdout_file or result.stderr_file:
            return getattr(result, f"{self._name}_file") is not None
        return result.truncated

    def _deliver(self, text: str) -> Delivery | None:
        self._delivered += len(text)
        return (self._callback, text) if self._callback and text else None


def _size(text: str) -> int:
    """Bytes that were decoded to it. For what is no UTF-8 one a character, which is nearly always so."""
    return len(text.encode("utf-8", "surrogatepass")) - 2 * text.count("\ufffd")


class _Displays:
    """Those that were shown, each as the record of this moment would have it."""

    def __init__(self, callback: Callback | None) -> None:
        self._callback = callback
        self._shown: list[Display] = []
        self._clearing = False

    def event(self, display: Display) -> Delivery | None:
        if self._callback is None:
            return None
        self._note(dataclasses.replace(display, update=False), display.update)
        return self._callback, display

    def missed(self, displays: list[Display]) -> Iterator[Delivery]:
        """New ones, and those that look different now."""
        if self._callback is None:
            return
        for position, display in enumerate(displays):
            if position >= len(self._shown):
                yield self._callback, display
            elif display != self._shown[position]:
                yield self._callback, dataclasses.replace(display, update=True)

    def _note(self, display: Display, update: bool) -> None:
        clear = update and display.display_id is None
        if clear and display.metadata.get("wait"):
            self._clearing = True
            return
        if clear or self._clearing:
            self._shown.clear()
            self._clearing = False
        if not clear and not (update and self._replace(display)):
            self._shown.append(display)

    def _replace(self, display: Display) -> bool:
        for position, shown in enumerate(self._shown):
            if shown.display_id == display.display_id:
                self._shown[position] = display
                return True
        return False
