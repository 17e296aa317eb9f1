"""IPython's commands in Python, ``!ls`` and ``%time f()``: as calls of what the sandbox has for them."""

from __future__ import annotations

import ast
import re

from ...jupyter._magics import CELL, LINE

_LIKELY = re.compile(r"^[ \t]*(?:%%?[A-Za-z]|!\S|[\w., ]+=[ \t]*[!%])", re.M)
_CELL = re.compile(r"%%([A-Za-z_]\w*)[ \t]*([^\n]*)(?:\n(.*))?\Z", re.S)
_LINE = re.compile(r"([ \t]*)%([A-Za-z_]\w*)[ \t]*(.*)\Z")
_SYSTEM = re.compile(r"([ \t]*)!(.*)\Z")
_OUTPUT = re.compile(r"([ \t]*[\w., ]+=[ \t]*)!(.*)\Z")
_MAGICS = "__import__('limpet_magics')"
_PROGRAMS = {"pip", "conda", "uv"}
_MOST = 64 << 10  # characters of code that is looked at


def translated(code: str) -> str:
    """Code without such commands; what is Python as it stands is left alone."""
    if not _LIKELY.search(code) or len(code) > _MOST or _is_python(code):
        return code
    cell = _CELL.match(code.lstrip("\n"))
    if cell is not None and cell[1] in CELL:
        return f"{_MAGICS}.cell({cell[1]!r}, {cell[2]!r}, {cell[3] or ''!r})"
    return "\n".join(map(_line, code.split("\n")))


def _line(line: str) -> str:
    system, output, magic = _SYSTEM.match(line), _OUTPUT.match(line), _LINE.match(line)
    if system is not None:
        return f"{system[1]}{_MAGICS}.system({system[2]!r})"
    if output is not None:
        return f"{output[1]}{_MAGICS}.getoutput({output[2]!r})"
    if magic is not None and magic[2] in LINE:
        return f"{magic[1]}{_MAGICS}.line({magic[2]!r}, {magic[3]!r})"
    if magic is not None and magic[2] in _PROGRAMS:
        return f"{magic[1]}{_MAGICS}.system({magic[2] + ' ' + magic[3]!r})"
    return line


def _is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
