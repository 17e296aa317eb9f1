"""The commands of IPython that a cell may have, and what is said of the others.

They run in the sandbox, whose ``limpet_magics`` has a function for each.
"""

from __future__ import annotations

import ast
import re

SHELL = ("cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir")
LINE = {"cd", "env", "pip", "pwd", "run", "set_env", "time", "timeit", "who", "who_ls", "whos", *SHELL}
CELL = {"bash", "capture", "html", "latex", "markdown", "sh", "svg", "time", "timeit", "writefile"}
PYTHON = {"capture", "time", "timeit"}  # what they are given to run is a cell of its own
FUNCTIONS = {
    "run_line_magic": "__import__('limpet_magics').line",
    "run_cell_magic": "__import__('limpet_magics').cell",
    "system": "__import__('limpet_magics').system",
    "getoutput": "__import__('limpet_magics').getoutput",
}
"""By the method of IPython's shell in whose place they are put, with its arguments."""

SIGNS = {"line": "%", "cell": "%%", "system": "!", "getoutput": "!"}
TEXTS = r"""((?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|, )*)"""
CALL = re.compile(r"__import__\('limpet_magics'\)\.(" + "|".join(SIGNS) + r")\(" + TEXTS + r"\)")
MARKS = re.compile(r"(__import__\('limpet_magics'\).*\n) +[~^]+\n")  # below a line that will be another one

NAMES = " ".join([*(f"%{name}" for name in sorted(LINE)), *(f"%%{name}" for name in sorted(CELL))])
UNKNOWN = (
    "{magic} is a command of IPython that is not there. There are " + NAMES + ", %limpet (see %limpet help), "
    "!command, name? and plain Python"
)
PACKAGES = (
    "{magic} is not there: packages come with the image of the session, or by %pip install where the session allows "
    "that. On the host, 'limpet image build --pip requirements.txt --name mine' makes an image, and "
    "'limpet jupyter install --image mine' a kernel that has it"
)
INSTALLERS = {"conda", "mamba", "micromamba", "uv"}
IGNORED = {"autoreload", "config", "load_ext", "matplotlib", "reload_ext"}
INLINE = {"", "agg", "inline"}  # figures are shown so anyway


def refusal(name: str, mark: str) -> str | None:
    """Why there is no such command; None when there is. ``mark`` is its percent signs."""
    if name in INSTALLERS:
        return PACKAGES.format(magic=mark + name)
    if name in (CELL if mark == "%%" else LINE | IGNORED):
        return None
    return UNKNOWN.format(magic=mark + name)


def note(name: str, text: str) -> str | None:
    """What to say of a line that is ignored; None where nothing else than what it asks for would happen."""
    if name == "matplotlib":
        is_so_anyway = text.strip() in INLINE
        return None if is_so_anyway else f"%matplotlib {text} is ignored: figures are shown as pictures"
    return f"%{name} {text} is ignored: IPython's shell, which it sets up, is not in the sandbox"


def as_written(traceback: str) -> str:
    """With the commands in place of the calls that were made of them."""
    return CALL.sub(_as_written, MARKS.sub(r"\1", traceback))


def _as_written(call: re.Match[str]) -> str:
    first, *rest = ast.literal_eval(f"[{call[2]}]") or [""]
    text = rest[0].partition("\n")[0] if rest else ""
    return f"{SIGNS[call[1]]}{first} {text}".rstrip()
