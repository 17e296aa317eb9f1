"""How a cell ended, as Jupyter's error message."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pygments import highlight
from pygments.formatters import TerminalFormatter
from pygments.lexers import PythonTracebackLexer

from .._adapters import magics
from ..errors import Error, NoSuchSession, SessionClosed
from ..results import ErrorInfo

FRAME = re.compile(r'^((?:  \| | )*  File "<)cell (\d+)(>", line )', re.MULTILINE)
NO_INPUT = "limpet: this frontend takes no input; write the value into the cell"
AGAIN = "Restart the kernel to go on in an empty session"


def of_python(error: ErrorInfo, place: Callable[[int], str], takes_input: bool = True) -> dict[str, Any]:
    """``place`` gives the name of a call in tracebacks, from its number in the session."""
    text = magics.as_written(error.traceback)
    text = FRAME.sub(lambda found: found[1] + place(int(found[2])) + found[3], text)
    if text:
        lines = highlight(text, PythonTracebackLexer(), TerminalFormatter()).rstrip("\n").split("\n")
    else:
        lines = [_headline(error.name, error.message)]
    if error.name == "EOFError" and not takes_input:
        lines.append(NO_INPUT)
    return {"ename": error.name, "evalue": error.message, "traceback": lines}


def of_limpet(error: Error) -> dict[str, Any]:
    """The sandbox failed, or was asked for what it cannot do."""
    gone = isinstance(error, (NoSuchSession, SessionClosed))
    message = f"{error.message}. {AGAIN}" if gone else error.message
    return of_us(error.name, message)


def of_us(name: str, message: str) -> dict[str, Any]:
    return {"ename": name, "evalue": message, "traceback": [_headline(name, message)]}


def _headline(name: str, message: str) -> str:
    return f"\x1b[91m{name}\x1b[39;49;00m: {message}"
