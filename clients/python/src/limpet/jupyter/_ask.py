"""Inspection, and what asks the sandbox.

Attributes and documentation are looked up there: that is one more call of the session, made only while it is idle.
"""

from __future__ import annotations

import importlib.resources
import json
import re
from typing import Any

from ..errors import Error
from ._sandbox import ASK_TIMEOUT, Sandbox

DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


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
    text = in_sandbox(sandbox, "describe", name, source)
    return text if isinstance(text, str) else None


def in_sandbox(sandbox: Sandbox, function: str, *arguments: Any, timeout: float = ASK_TIMEOUT) -> Any:
    """What a function of _inside.py returns there, as plain data; None when it cannot be had. It may lie.

    It comes as a display: the value of a cell would take the place of ``_``.
    """
    source = importlib.resources.files(__package__).joinpath("_inside.py").read_text("utf-8")
    code = (
        f"(lambda inside: (exec({source!r}, inside), display({{'text/plain': __import__('json').dumps("
        f"inside[{function!r}](globals(), *{arguments!r}))}}, raw=True)))({{}}) and None"
    )
    try:
        result = sandbox.ask(code, timeout)
        return json.loads(result.displays[0].data["text/plain"]) if result and result.displays else None
    except (Error, ValueError, TypeError, KeyError, RecursionError):
        return None
