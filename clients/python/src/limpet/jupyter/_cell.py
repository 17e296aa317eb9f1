"""What a cell is: Python, commands of ours (``%limpet``), or a question (``name?``)."""

from __future__ import annotations

import ast
import re
import shlex

from IPython.core.inputtransformer2 import TransformerManager

QUESTION = re.compile(r"\s*(?:\?{1,2}([\w.]*)|([\w.]+)\?{1,2})\s*\Z")
NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
ASKING = ("pinfo", "pinfo2", "psearch")  # what IPython makes of name? and na*me?
USAGE = """\
A cell is Python, or one of these:

name?         what is known of a name: its type, value or signature, and documentation
!command      runs a command in the sandbox
%limpet help  copies of the variables, branches and files"""
IGNORED = {"matplotlib", "autoreload", "load_ext", "config"}  # of IPython's shell, which is not there
IN_PLACE_OF = {
    "system": "(lambda command: (__import__('os').system(command), None)[1])",
    "getoutput": "(lambda command: __import__('subprocess').getoutput(command).splitlines())",
}
PACKAGES = (
    "%{name} is not there: packages come with the image of the session, which --image chooses when the kernel "
    "is installed"
)
MAGIC = (
    "%{name} is a command of IPython, which does not run here. There are %limpet (see %limpet help), !command, "
    "name? and plain Python"
)


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


def question(code: str) -> str | None:
    """The name that is asked for, empty for a question mark alone; None when the cell is something else."""
    found = QUESTION.match(code)
    return (found.group(1) or found.group(2)) if found else None


def python(code: str) -> tuple[str, list[str]]:
    """The cell as Python, and what it asks for besides, as of question().

    Refused when it needs IPython's shell; what is no Python either way stays as it is.
    """
    if not any(sign in code for sign in "%!?") or _parses(code):
        return code, []
    try:
        shell_code = TransformerManager().transform_cell(code)
        tree = ast.parse(shell_code)
    except (SyntaxError, ValueError, RecursionError):
        return code, []
    lines = shell_code.encode().split(b"\n")
    calls = sorted(_shell_calls(tree), key=lambda call: (call.lineno, call.col_offset))
    for call in reversed(calls):
        _replace(lines, call)
    asked = [name for name in map(_asked, calls) if name is not None]
    return b"\n".join(lines).decode(), asked


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


def _asked(call: ast.Call) -> str | None:
    """As of question(), of one of those calls."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "show_usage":
        return ""
    magic, *texts = [str(getattr(argument, "value", "")) for argument in call.args] or [""]
    if call.func.attr != "run_line_magic" or magic not in ASKING:
        return None
    text = "".join(texts)
    if magic == "psearch" or not NAME.fullmatch(text):
        raise Refused(ONE_NAME.format(text=text))
    return text


def _replace(lines: list[bytes], call: ast.Call) -> None:
    """Puts plain Python in the place of a call, which is on one line as IPython writes it."""
    assert isinstance(call.func, ast.Attribute)
    method = call.func.attr
    if method in IN_PLACE_OF:
        begin, end, python = call.func.col_offset, call.func.end_col_offset, IN_PLACE_OF[method]
    elif _asked(call) is not None:
        begin, end, python = call.col_offset, call.end_col_offset, "None"
    elif method in ("run_line_magic", "run_cell_magic") and call.args:
        name = getattr(call.args[0], "value", "")
        if method == "run_cell_magic" or name not in IGNORED:
            sentence = PACKAGES if name in ("pip", "conda", "mamba", "uv") else MAGIC
            raise Refused(
                sentence.replace("%{name}", ("%%" if method == "run_cell_magic" else "%") + str(name))
            )
        begin, end, python = call.col_offset, call.end_col_offset, "None"
    else:
        return
    line = lines[call.lineno - 1]
    lines[call.lineno - 1] = line[:begin] + python.encode() + line[end:]
