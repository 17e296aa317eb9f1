"""What a cell is: Python, commands of ours (``%limpet``), or a question (``name?``)."""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from dataclasses import dataclass, field

from IPython.core.inputtransformer2 import TransformerManager

from .._adapters import magics

QUESTION = re.compile(r"\s*(?:(\?{1,2})([\w.]*)|([\w.]+)(\?{1,2}))\s*\Z")
NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
ASKING = ("pinfo", "pinfo2", "psearch")  # what IPython makes of name? and na*me?
USAGE = """\
A cell is Python, or one of these:

name?         what is known of a name: its type, value or signature, and documentation; name?? has its source as well
!command      runs a command in the sandbox; {expression} and $name in it are Python's
x = !command  the lines that it prints
%limpet help  copies of the variables, branches and files

and these commands of IPython:

""" + textwrap.fill(magics.NAMES, 100)
OF_VSCODE = "def __jupyter_exec_background__():"
THREAD = "Thread(target=bg_main, daemon=True).start()"

ONE_NAME = "{text}? cannot be answered: a question takes one name, with dots where it is an attribute"


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


@dataclass(frozen=True)
class Question:
    """``name?``, or ``name??``, which is about its source too; without a name, what a cell may be."""

    name: str
    source: bool


@dataclass
class Translated:
    """A cell as Python, what it asks for besides, and what is to be said of it."""

    code: str
    asked: list[Question] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def question(code: str) -> Question | None:
    """What is asked for; None when the cell is something else."""
    found = QUESTION.match(code)
    return Question(found[2] or found[3] or "", "??" in code) if found else None


def awaited(code: str) -> str:
    """Code of VS Code, which wants the answer of a thread that it starts: nothing is shown once a call has ended."""
    return code.replace(THREAD, "bg_main()") if code.startswith(OF_VSCODE) else code


def python(code: str) -> Translated:
    """The cell without what only IPython understands.

    Refused when it needs a command that is not there; what is no Python either way stays as it is.
    """
    code = awaited(code)
    translated = Translated(code)
    if not any(sign in code for sign in "%!?") or _parses(code):
        return translated
    try:
        shell_code = TransformerManager().transform_cell(code)
        tree = ast.parse(shell_code)
    except (SyntaxError, ValueError, RecursionError):
        return translated
    lines = shell_code.encode().split(b"\n")
    calls = sorted(_shell_calls(tree), key=lambda call: (call.lineno, call.col_offset))
    replaced = [(call, _in_place_of(call, translated)) for call in calls]
    for call, replacement in reversed(replaced):
        _replace(lines, call, replacement)
    translated.code = b"\n".join(lines).decode()
    return translated


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def _shell_calls(tree: ast.AST) -> list[ast.Call]:
    """get_ipython().NAME(...), which IPython puts in place of its own syntax."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Call)
        and isinstance(node.func.value.func, ast.Name)
        and node.func.value.func.id == "get_ipython"
    ]


def _in_place_of(call: ast.Call, translated: Translated) -> str:
    """Plain Python for one of those calls; questions and notes are put where they belong."""
    assert isinstance(call.func, ast.Attribute)
    method = call.func.attr
    texts = [str(getattr(argument, "value", "")) for argument in call.args]
    asked = _asked(method, texts)
    if asked is not None:
        translated.asked.append(asked)
        return "None"
    if method in ("run_line_magic", "run_cell_magic") and texts:
        refused = magics.refusal(texts[0], "%" if method == "run_line_magic" else "%%")
        if refused is not None:
            raise Refused(refused)
        if texts[0] in magics.IGNORED:
            note = magics.note(*texts)
            translated.notes += [note] if note else []
            return "None"
        if texts[0] in magics.PYTHON:
            texts[-1] = _within(texts[-1], translated)
    return f"{magics.FUNCTIONS.get(method, ast.unparse(call.func))}({', '.join(map(repr, texts))})"


def _within(code: str, translated: Translated) -> str:
    inner = python(code)
    translated.asked += inner.asked
    translated.notes += inner.notes
    return inner.code


def _asked(method: str, texts: list[str]) -> Question | None:
    if method == "show_usage":
        return Question("", False)
    if method != "run_line_magic" or texts[0] not in ASKING:
        return None
    text = "".join(texts[1:])
    if texts[0] == "psearch" or not NAME.fullmatch(text):
        raise Refused(ONE_NAME.format(text=text))
    return Question(text, texts[0] == "pinfo2")


def _replace(lines: list[bytes], call: ast.Call, replacement: str) -> None:
    """Puts other Python in the place of a call, which is on one line as IPython writes it."""
    line = lines[call.lineno - 1]
    lines[call.lineno - 1] = line[: call.col_offset] + replacement.encode() + line[call.end_col_offset :]
