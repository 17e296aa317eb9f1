"""How far a copy is, shown to whoever waits for it: by tqdm where that is installed, by one line otherwise."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

Bytes = Callable[[int, int], Any]
MB = 1e6


class _Line:
    """A line of standard error, again and again in a terminal, and once elsewhere."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._said = ""

    def __call__(self, done: int, whole: int) -> None:
        self._said = f"{self._what}: {done / MB:.1f} of {whole / MB:.1f} MB"
        if sys.stderr.isatty():
            print(f"\r{self._said}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._said:
            print("" if sys.stderr.isatty() else self._said, file=sys.stderr, flush=True)


class _Bar:
    """One of tqdm's, which is a widget in notebooks."""

    def __init__(self, tqdm: Any, what: str) -> None:
        self._bar = tqdm(desc=what, total=0, unit="B", unit_scale=True)

    def __call__(self, done: int, whole: int) -> None:
        self._bar.total = whole
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


@contextlib.contextmanager
def shown(progress: bool, what: str, on_progress: Bytes | None) -> Iterator[Bytes | None]:
    """What is to be told of each step: whoever asked for that, and with ``progress`` the person at the screen."""
    if not progress:
        yield on_progress
        return
    what = what.encode("utf-8", "backslashreplace").decode()
    try:
        screen: _Bar | _Line = _Bar(importlib.import_module("tqdm.auto").tqdm, what)
    except ImportError:
        screen = _Line(what)

    def tell(done: int, whole: int) -> None:
        screen(done, whole)
        if on_progress is not None:
            on_progress(done, whole)

    try:
        yield tell
    finally:
        screen.close()


def said(text: str) -> None:
    """What an installer writes, as it comes."""
    print(text, end="", file=sys.stderr, flush=True)
