"""The output of code in the memory of an adapter: code that writes for ever must not fill it."""

from __future__ import annotations

import io

LIMIT = 10 << 20  # characters of a stream
CUT = "[only the beginning of {stream} is kept, {size} characters]"


class Kept:
    """The beginning of a text that comes in pieces."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._kept = io.StringIO()  # pieces may be small
        self._room = limit
        self._limit = limit
        self.cut = False
        """Whether there was more."""

    def add(self, text: str) -> None:
        self.cut = self.cut or len(text) > self._room
        self._room -= self._kept.write(text[: self._room])

    @property
    def text(self) -> str:
        return self._kept.getvalue()

    def note(self, stream: str) -> str:
        """A line for whoever reads the text, or nothing where it is whole."""
        return f"{CUT.format(stream=stream, size=self._limit)}\n" if self.cut else ""
