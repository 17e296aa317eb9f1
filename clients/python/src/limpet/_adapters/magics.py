"""Commands of IPython in cells: calls of its shell, or of what stands in for that in the sandbox, `limpet_magics`."""

from __future__ import annotations

import ast
import re

SHELL = "__import__('limpet_magics').shell"
"""In a session that is no notebook's, which has no get_ipython()."""

SIGNS = {"run_line_magic": "%", "run_cell_magic": "%%", "system": "!", "getoutput": "!"}
TEXTS = r"""((?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|, )*)"""
CALL = re.compile(rf"(?:get_ipython\(\)|{re.escape(SHELL)})\.({'|'.join(SIGNS)})\({TEXTS}\)")
MARKS = re.compile(
    r"((?:get_ipython\(\)|__import__\('limpet_magics'\)).*\n) +[~^]+\n"
)  # below a line that will be another one


def as_written(traceback: str) -> str:
    """With the commands in place of the calls that were made of them."""
    return CALL.sub(_as_written, MARKS.sub(r"\1", traceback))


def _as_written(call: re.Match[str]) -> str:
    first, *rest = ast.literal_eval(f"[{call[2]}]") or [""]
    text = rest[0].partition("\n")[0] if rest else ""
    return f"{SIGNS[call[1]]}{first} {text}".rstrip()
