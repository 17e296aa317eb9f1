"""Completion and inspection.

Names come from the namespace of the session, which runs no code. Attributes and documentation are asked for in
the sandbox: that is one more call of the session, made only while it is idle.
"""

from __future__ import annotations

import ast
import builtins
import importlib.resources
import json
import keyword
import re
from typing import Any

from ..errors import Error
from ._sandbox import Sandbox

NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*\.?\Z")
DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")
LONGEST = 1000  # characters of a line that are looked at
COMMON = [*keyword.kwlist, *(name for name in dir(builtins) if not name.startswith("_"))]


def complete(sandbox: Sandbox, code: str, cursor: int) -> tuple[list[str], int]:
    """What may stand before the cursor, and where that begins."""
    line = code[:cursor].rpartition("\n")[2][-LONGEST:]
    found = NAME.search(line)
    if found is None or line[: found.start()].endswith("."):  # behind a call or an index, which is not run
        return [], cursor
    text = found.group()
    if "." in text:
        matches = [name for name in _in_sandbox(sandbox, "complete", text) or () if isinstance(name, str)]
    else:
        matches = sorted({name for name in [*_names(sandbox), *COMMON] if name.startswith(text)})
    return matches, cursor - len(text)


def name_at(code: str, cursor: int) -> str | None:
    """The dotted name that the cursor is in or behind."""
    begin = re.search(r"[\w.]*\Z", code[:cursor])
    end = re.match(r"\w*", code[cursor:])
    assert begin and end
    name = (begin.group() + end.group()).strip(".")
    if not name and code[:cursor].endswith("("):
        return name_at(code, cursor - 1)
    return name if DOTTED.match(name) else None


def describe(sandbox: Sandbox, name: str, source: bool = False) -> str | None:
    """What is known of a name, with its source where that is wanted."""
    facts = _in_sandbox(sandbox, "describe", name, source)
    if not isinstance(facts, dict):
        return None
    return "\n".join(f"{title}: {_indented(str(text))}" for title, text in facts.items() if text is not None)


def _indented(text: str) -> str:
    return text if "\n" not in text else "\n" + "\n".join(f"    {line}" for line in text.splitlines())


def _names(sandbox: Sandbox) -> list[str]:
    try:
        return sandbox.names()
    except Error:
        return []


def _in_sandbox(sandbox: Sandbox, function: str, *arguments: Any) -> Any:
    """What a function of _inside.py returns there, as plain data; None when it cannot be had. It may lie."""
    source = importlib.resources.files(__package__).joinpath("_inside.py").read_text("utf-8")
    code = (
        f"(lambda inside: (exec({source!r}, inside), __import__('json').dumps("
        f"inside[{function!r}](globals(), *{arguments!r})))[1])({{}})"
    )
    try:
        result = sandbox.ask(code)
        return json.loads(ast.literal_eval(result.result)) if result and result.result else None
    except (Error, ValueError, SyntaxError, TypeError, RecursionError):
        return None
