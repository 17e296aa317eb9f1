"""The cells that were run since the kernel was started, for frontends that ask for them."""

from __future__ import annotations

import fnmatch
from typing import Any

SESSION = 1  # its number: there is no other
MOST = 10000
Line = tuple[int, int, str | tuple[str, str | None]]


class History:
    def __init__(self) -> None:
        self.cells: list[tuple[int, str, str | None]] = []

    def add(self, count: int, code: str) -> None:
        self.cells.append((count, code, None))
        del self.cells[:-MOST]

    def add_result(self, text: str) -> None:
        """Of the cell that was added last."""
        if self.cells:
            count, code, _ = self.cells[-1]
            self.cells[-1] = count, code, text

    def find(self, access: str, output: bool, **wanted: Any) -> list[Line]:
        """As a history_request asks: the last ``n``, a range, or those that match a pattern."""
        if access == "range":
            cells = self._range(wanted.get("session") or 0, wanted.get("start") or 0, wanted.get("stop"))
        else:
            cells = self.cells
            if access == "search":
                cells = self._matching(wanted.get("pattern") or "*", bool(wanted.get("unique")))
            if wanted.get("n") is not None:
                cells = cells[-wanted["n"] :] if wanted["n"] > 0 else []
        return [(SESSION, count, (code, text) if output else code) for count, code, text in cells]

    def _range(self, session: int, start: int, stop: int | None) -> list[tuple[int, str, str | None]]:
        """Session 0 is this one, and so is its number."""
        if session not in (0, SESSION):
            return []
        return [cell for cell in self.cells if start <= cell[0] and (stop is None or cell[0] < stop)]

    def _matching(self, pattern: str, unique: bool) -> list[tuple[int, str, str | None]]:
        found = [cell for cell in self.cells if fnmatch.fnmatchcase(cell[1], pattern)]
        return list({code: (count, code, text) for count, code, text in found}.values()) if unique else found
