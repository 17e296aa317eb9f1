"""What a cell is: Python with IPython's commands in it, or commands of ours (``%limpet``)."""

from __future__ import annotations

import ast
import re
import shlex

from IPython.core.inputtransformer2 import TransformerManager

OF_VSCODE = "def __jupyter_exec_background__():"
THREAD = "Thread(target=bg_main, daemon=True).start()"


class Refused(Exception):
    """The cell is not run; the message says why."""


def commands(code: str) -> list[list[str]] | None:
    """The words of each %limpet line; None when the cell has none."""
    lines = [line.strip() for line in code.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    ours = [line for line in lines if re.match(r"%limpet\b", line)]
    if not ours:
        return None
    if len(ours) != len(lines):
        if _parses(code):  # it is a part of a text or of an expression
            return None
        raise Refused("%limpet needs a cell without Python in it")
    try:
        return [shlex.split(line)[1:] for line in ours]
    except ValueError as error:
        raise Refused(f"%limpet: {error}") from error


def awaited(code: str) -> str:
    """Code of VS Code, which wants the answer of a thread that it starts: nothing is shown once a call has ended."""
    return code.replace(THREAD, "bg_main()") if code.startswith(OF_VSCODE) else code


def python(code: str) -> str:
    """The cell as Python, with calls of get_ipython() in place of what only IPython understands.

    What is no Python either way stays as it is.
    """
    code = awaited(code)
    if not any(sign in code for sign in "%!?") or _parses(code):
        return code
    try:
        shell_code: str = TransformerManager().transform_cell(code)
    except (SyntaxError, ValueError, RecursionError):
        return code
    return shell_code if _parses(shell_code) else code


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True
