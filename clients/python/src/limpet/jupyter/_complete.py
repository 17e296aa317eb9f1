"""Completion.

Names come from the namespace of the session, which runs no code, and from the cell. What else there may be is looked up
in the sandbox: that is one more call of the session, made only while it is idle.
"""

from __future__ import annotations

import builtins
import keyword
import re

from ..errors import Error
from . import _ask
from ._sandbox import ASK_TIMEOUT, Sandbox

INFER_TIMEOUT = 10.0  # seconds: the first time, what completes is imported, and reads the libraries
LONGEST = 1000  # characters of a line that are looked at
MOST = 200_000  # characters of a cell that are read
FOUND_MOST = 2000
NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*\.?\Z")
WORD = re.compile(r"[^\W\d]\w*")
COMMAND = re.compile(r"\s*(%{1,2}\w*)\Z")
SHELL = re.compile(r"\s*(?:[%!]|[\w, ]+=\s*[%!]).*?([^\s'\"=]*)\Z")
IMPORT = re.compile(r"\s*(from|import)\b")
STRING = re.compile(r"""[^'"#]*(?:(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")[^'"#]*)*(['"])([^'"\\]*)\Z""")
KEY_OF = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*|\[(?:\d+|'[^'\\]*'|\"[^\"\\]*\")\])*\Z")
NOT_PYTHON = re.compile(r"^[ \t]*[%!].*", re.MULTILINE)
COMMON = [*keyword.kwlist, *(name for name in dir(builtins) if not name.startswith("_"))]
Found = tuple[list[str], int]
NOTHING: Found = [], 0


def complete(sandbox: Sandbox, code: str, cursor: int) -> tuple[list[str], int]:
    """What may stand before the cursor, and where that begins."""
    before, after = code[:cursor][-MOST:], code[cursor:]
    line = before.rpartition("\n")[2][-LONGEST:]
    matches, length = _found(sandbox, before, line, after)
    return matches, cursor - length


def _found(sandbox: Sandbox, before: str, line: str, after: str) -> Found:
    command = COMMAND.match(line)
    if command:
        names, length = _inside(sandbox, "commands", command[1])
        return sorted([*names, *(["%limpet"] if "%limpet".startswith(command[1]) else [])]), length
    shell = SHELL.match(line)
    if shell:
        return _inside(sandbox, "paths", shell[1])
    string = STRING.match(line)
    if string:
        return _in_string(sandbox, line[: string.start(1)], string[1], string[2], after)
    name = NAME.search(line)
    begin = line[: name.start()] if name else line
    if begin.endswith(".") or IMPORT.match(line):  # behind a call or an index, which is not run
        return _inferred(sandbox, before)
    if not name:
        return NOTHING
    first, dot, _ = name.group().partition(".")
    if not dot:
        return _names(sandbox, before, first)
    if first in _of_session(sandbox) or hasattr(builtins, first):
        return _inside(sandbox, "attributes", name.group())
    return _inferred(sandbox, before)


def _in_string(sandbox: Sandbox, begin: str, quote: str, typed: str, after: str) -> Found:
    """A key, where the string is an index; otherwise a path."""
    container = KEY_OF.search(begin[:-1]) if begin.endswith("[") else None
    if container is None:
        return _inside(sandbox, "paths", typed)
    keys, length = _inside(sandbox, "keys", container.group(), typed)
    end = "" if after.startswith(quote) else quote + "]" * (not after.startswith("]"))
    return [key + end for key in keys if quote not in key and "\\" not in key], length


def _names(sandbox: Sandbox, before: str, typed: str) -> Found:
    of_cell = WORD.findall(before[: len(before) - len(typed)])
    names = {name for name in [*_of_session(sandbox), *of_cell, *COMMON] if name.startswith(typed)}
    return sorted(names), len(typed)


def _of_session(sandbox: Sandbox) -> list[str]:
    try:
        return sandbox.names()
    except Error:
        return []


def _inferred(sandbox: Sandbox, before: str) -> Found:
    """From the code, without the lines that only a notebook understands; the others stay where they are."""
    return _inside(sandbox, "inferred", NOT_PYTHON.sub("", before), timeout=INFER_TIMEOUT)


def _inside(sandbox: Sandbox, function: str, *arguments: str, timeout: float = ASK_TIMEOUT) -> Found:
    """What a function of _inside.py finds, which may be anything."""
    answer = _ask.in_sandbox(sandbox, function, *arguments, timeout=timeout)
    if not isinstance(answer, list) or len(answer) != 2:
        return NOTHING
    names, length = answer
    longest = max(len(text) for text in arguments)
    if not isinstance(names, list) or not isinstance(length, int) or not 0 <= length <= longest:
        return NOTHING
    return [name for name in names if isinstance(name, str)][:FOUND_MOST], length
