"""Functions of a file, for code in the sandbox."""

from __future__ import annotations

import contextlib
import inspect
import runpy
import sys
from typing import Any

from .. import Asks
from .._adapters.arguments import WrongOption


def of_file(path: str) -> dict[str, Any]:
    """Those that the file defines, without names that begin with an underscore. WrongOption where it has none."""
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is the protocol's
            names = runpy.run_path(path, run_name="limpet_mcp_tools")
    except Exception as error:
        raise WrongOption(f"argument --tools: {path}: {type(error).__name__}: {error}") from error
    functions = {
        name: value
        for name, value in names.items()
        if inspect.isfunction(value) and value.__module__ == "limpet_mcp_tools" and not name.startswith("_")
    }
    if not functions:
        raise WrongOption(f"argument --tools: {path} defines no function")
    try:
        Asks(functions)
    except (TypeError, ValueError) as error:
        raise WrongOption(f"argument --tools: {path}: {error}") from error
    return functions
