"""Runs in the sandbox: its source is sent there, followed by the name of a function to call.

``variables`` is the namespace of the session. Nothing is left in it.
"""

from __future__ import annotations

from typing import Any


def complete(variables: dict[str, object], text: str) -> list[str]:
    """The names that complete `text`, as rlcompleter finds them, which runs __getattr__ and __dir__."""
    import rlcompleter

    if "." not in text:
        found = rlcompleter.Completer(variables).global_matches(text)
    else:
        found = rlcompleter.Completer(variables).attr_matches(text)
    return sorted({name.rstrip("() :") for name in found})


def describe(variables: dict[str, object], name: str, source: bool) -> dict[str, str | None] | None:
    """What is to be said of a name: type, signature, text, documentation, and its source where that is wanted.

    None where there is no such name.
    """
    import builtins
    import contextlib
    import inspect

    value: Any
    first, *rest = name.split(".")
    if first in variables:
        value = variables[first]
    elif hasattr(builtins, first):
        value = getattr(builtins, first)
    else:
        return None
    for attribute in rest:
        if not hasattr(value, attribute):
            return None
        value = getattr(value, attribute)
    facts: dict[str, str | None] = {"Type": type(value).__name__}
    if callable(value):
        with contextlib.suppress(TypeError, ValueError):
            facts["Signature"] = name.rpartition(".")[2] + str(inspect.signature(value))
    else:
        facts["Value"] = repr(value)[:2000]
    facts["Docstring"] = inspect.getdoc(value)
    if source:
        with contextlib.suppress(TypeError, OSError):
            facts["Source"] = inspect.getsource(value)
    return facts
