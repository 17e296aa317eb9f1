"""Output as a person at a terminal would have read it, for a model. The record keeps the bytes as they were."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from . import magics

FEW = 3  # times that a line is shown; more often it is counted
ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()*+][0-9A-Za-z]|[0-Z\\^_=>a-z])"
)
FRAME = re.compile(r'(?P<margin>[ |]*)  File "(?P<file>[^"\n]*)", line \d+, in ')
MODULES = re.compile(r"^\nExtension modules: .* \(total: \d+\)(?:\n|\Z)", re.M)
LIBRARY = re.compile(r"(?:^|/)lib(?:64)?/python3[^/]*/")
PACKAGE = re.compile(r"(?:^|/)(?:site|dist)-packages/([^/]+)")


def output(text: str) -> str:
    """Without colours, each line in its last state, and the same line again and again once, with a count.

    What a crash says of all libraries that were loaded is left out: where it happened is above.
    """
    if "\x1b" in text or "\r" in text:
        text = "\n".join(map(_last_state, text.split("\n")))
    return "\n".join(_counted(MODULES.sub("", text).split("\n")))


def plain(text: str) -> str:
    """Without colours and other orders to a terminal."""
    return ESCAPES.sub("", text) if "\x1b" in text else text


def traceback(text: str) -> str:
    """The frames of the user's code, and in place of those inside a library how many there are of which.

    A traceback that has no frame of the user's stays as it is.
    """
    lines = magics.as_written(plain(text)).split("\n")
    kept = list(_without_libraries(lines))
    return "\n".join(kept if any(map(FRAME.match, kept)) else lines)


def _last_state(line: str) -> str:
    """What was written last over a line that goes back to its beginning."""
    return next(filter(None, map(plain, reversed(line.split("\r")))), "")


def _counted(lines: Iterable[str]) -> Iterator[str]:
    for line, same in groupby(lines):
        count = sum(1 for _ in same)
        if count <= FEW:
            yield from [line] * count
        else:
            yield line
            yield f"[the line above {count - 1} more times]"


def _without_libraries(lines: list[str]) -> Iterator[str]:
    hidden: list[str] = []
    margin, is_hidden = "", False
    for line in lines:
        frame = FRAME.match(line)
        if frame is not None:
            margin, is_hidden = frame["margin"], _is_library(frame["file"])
            if is_hidden:
                hidden.append(_library(frame["file"]))
                continue
        elif is_hidden and line.startswith((f"{margin}    ", f"{margin}  [Previous line repeated")):
            continue
        else:
            is_hidden = False
        if hidden:
            yield f"{margin}  [... {_frames(hidden)} ...]"
            hidden.clear()
        yield line


def _is_library(file: str) -> bool:
    return file.startswith("<frozen ") or LIBRARY.search(file) is not None or PACKAGE.search(file) is not None


def _library(file: str) -> str:
    package = PACKAGE.search(file)
    return package[1].removesuffix(".py") if package else "Python's library"


def _frames(libraries: list[str]) -> str:
    names = ", ".join(dict.fromkeys(libraries))
    return f"{len(libraries)} frame{'s' * (len(libraries) > 1)} in {names}"
