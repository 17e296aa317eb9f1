"""Functions of a file, for code in the sandbox."""

from __future__ import annotations

import contextlib
import inspect
import runpy
import sys
from collections.abc import Iterable
from typing import Any

from .. import Asks
from .._adapters.arguments import WrongOption


def of_file(path: str | None, allowed: Iterable[str], options: tuple[str, str]) -> dict[str, Any]:
    """Those that the file defines, without names that begin with an underscore; none without a file.

    Args:
        path: Of the file.
        allowed: Names that have to be among them.
        options: What the two are called on the command line, for WrongOption.
    """
    functions = {} if path is None else _defined(path, options[0])
    unknown = sorted(set(allowed) - functions.keys())
    if unknown:
        raise WrongOption(f"argument {options[1]}: {options[0]} has no function '{unknown[0]}'")
    return functions


def _defined(path: str, option: str) -> dict[str, Any]:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is the protocol's
            names = runpy.run_path(path, run_name="limpet_mcp_tools")
    except Exception as error:
        raise WrongOption(f"argument {option}: {path}: {type(error).__name__}: {error}") from error
    functions = {
        name: value
        for name, value in names.items()
        if inspect.isfunction(value) and value.__module__ == "limpet_mcp_tools" and not name.startswith("_")
    }
    if not functions:
        raise WrongOption(f"argument {option}: {path} defines no function")
    try:
        Asks(functions)
    except (TypeError, ValueError) as error:
        raise WrongOption(f"argument {option}: {path}: {error}") from error
    return functions
