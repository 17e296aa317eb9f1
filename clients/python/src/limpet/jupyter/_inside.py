"""Runs in the sandbox: its source is sent there, followed by the name of a function to call.

``variables`` is the namespace of the session. Nothing is left in it.
"""

from __future__ import annotations

from typing import Any

Found = tuple[list[str], int]
"""What may stand at the end of a text, and how many of its characters that replaces."""


def attributes(variables: dict[str, object], text: str) -> Found:
    """Those that complete a dotted name, as rlcompleter finds them, which runs __getattr__ and __dir__."""
    import rlcompleter

    names = {name.rstrip("() :") for name in rlcompleter.Completer(variables).attr_matches(text)}
    return sorted(names), len(text)


def inferred(variables: dict[str, object], code: str) -> Found:
    """What jedi makes of the end of the code, which it reads and does not run."""
    import os
    import sys
    import tempfile

    limit = sys.getrecursionlimit()
    try:
        import jedi
    except ImportError:
        return [], 0
    finally:
        sys.setrecursionlimit(limit)  # which jedi sets
    jedi.settings.cache_directory = os.path.join(tempfile.gettempdir(), "jedi")
    found = jedi.Interpreter(code, [variables]).complete()
    length = found[0].get_completion_prefix_length() if found else 0
    typed = code[len(code) - length :]
    return [each.name for each in found if not each.name.startswith("_") or typed.startswith("_")], length


def keys(variables: dict[str, object], text: str, typed: str) -> Found:
    """Those of a mapping, or the columns of a table: of a name, an attribute, or what is in a plain container there."""
    import ast

    value = value_of(variables, ast.parse(text, mode="eval").body)
    own = getattr(value, "_ipython_key_completions_", None)
    if callable(own) and not isinstance(value, type):
        found = own()
    elif isinstance(value, dict):
        found = value
    else:
        found = getattr(getattr(value, "dtype", None), "names", None) or getattr(value, "columns", None)
    names = [key for key in ([] if found is None else found) if isinstance(key, str)]
    return [name for name in names if name.startswith(typed) and name.isprintable()], len(typed)


def value_of(variables: dict[str, object], node: Any) -> object:
    """None where there is none, and where code of a cell would have to compute it."""
    import ast
    import contextlib

    if isinstance(node, ast.Name):
        return variables.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(value_of(variables, node.value), node.attr, None)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        container: Any = value_of(variables, node.value)
        with contextlib.suppress(LookupError, TypeError):
            return container[node.slice.value] if type(container) in (dict, list, tuple) else None
    return None


def paths(variables: dict[str, object], typed: str) -> Found:
    """Files of the sandbox; behind the name of a directory is a slash."""
    import os

    folder, _, name = typed.rpartition("/")
    where = os.path.expanduser(typed[: len(typed) - len(name)]) or "."
    found = []
    with os.scandir(where) as entries:
        for entry in entries:
            if entry.name.startswith(name) and (name or not entry.name.startswith(".")):
                found.append(entry.name + "/" * entry.is_dir())
    return sorted(found), len(name)


def commands(variables: dict[str, object], typed: str) -> Found:
    """Those of IPython, with their percent signs."""
    known = __import__("limpet_magics").ipython("%").magics_manager.lsmagic()
    names = [sign + name for kind, sign in (("line", "%"), ("cell", "%%")) for name in known[kind]]
    return sorted(name for name in names if name.startswith(typed)), len(typed)


def describe(variables: dict[str, object], name: str, source: bool) -> str | None:
    """What IPython says of a name; None where there is no such name, or no IPython."""
    try:
        shell = __import__("limpet_magics").ipython("name?")
        text: str = shell.object_inspect_mime(name, int(source))["text/plain"]
        return text
    except (KeyError, ValueError):
        return None
