"""Cells as models and E2B's users write them, as Python: code fences, and IPython's ``!ls`` and ``%time f()``.

IPython's commands become calls of what the sandbox has for them, as in a notebook, whose kernel has IPython's own
parser for them.
"""

from __future__ import annotations

import ast
import keyword
import re

from .magics import SHELL

PYTHON = {"capture", "time", "timeit"}  # what they are given to run is a cell of its own
SHELLS = ("bash", "sh", "shell")  # whose fences have commands in them
NO_PYTHON = (
    "The cell is text and not Python: send nothing but code, with remarks after # and shell commands after !."
)
"""Said of it to a model."""

_LIKELY = re.compile(r"^[ \t]*(?:%%?[A-Za-z]|!\S|[\w., ]+=[ \t]*[!%]|pip3?[ \t]+install\b)", re.M)
_CELL = re.compile(r"%%([A-Za-z_]\w*)[ \t]*([^\n]*)(?:\n(.*))?\Z", re.S)
_LINE = re.compile(r"([ \t]*(?:[\w., ]+=[ \t]*)?)%([A-Za-z_]\w*)[ \t]*(.*)\Z")
_SYSTEM = re.compile(r"([ \t]*)!(.*)\Z")
_OUTPUT = re.compile(r"([ \t]*[\w., ]+=[ \t]*)!(.*)\Z")
_PIP = re.compile(r"([ \t]*)pip3?[ \t]+(install\b.*)\Z")
_PROGRAMS = {"conda", "uv"}
_MOST = 64 << 10  # characters of code that is looked at

_FENCE = re.compile(r"\s*(`{3,}|~{3,})[ \t]*([\w+.-]*)[^\n`]*(?:\n|\Z)")
_FENCE_END = re.compile(r"(?:\A|\n)[ \t]*(?:`{3,}|~{3,})\s*\Z")
_BLOCK = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+.-]*)[^\n`]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.M | re.S)
_CODE = re.compile(r"""[=(){}\[\]]|\"{3}|'{3}""")  # no remark beside a fence has that
_PYTHON = ("", "py", "python", "python3", "ipython")  # and of whose blocks in a text it is Python

_PROMPTED = re.compile(r"\A\s*>>>(?: |\Z)")
_PROMPT = re.compile(r"^[ \t]*(?:>>>|\.\.\.)(?: (.*))?$", re.M)

_QUOTED = re.compile(
    r"""(?<!\w)[rbfuRBFU]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*')|\#[^\n]*""", re.S
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-]\w+)*")
_IDEOGRAPHIC = re.compile(r"[，。；：？！、]")  # no Python has them outside of texts


def of_model(code: str) -> str:
    """A cell that a model has written: without the fence around it, then as :func:`translated` has it.

    Of a text with fences, the code that is in these.
    """
    if len(code) > _MOST or not _BLOCK.search(code) or _parsed(code) is not None:
        return translated(code)
    fence = _FENCE.match(code)
    inside = _FENCE_END.sub("", code[fence.end() :]) if fence is not None else ""
    if fence is not None and (fence[1] not in inside or _parsed(translated(inside)) is not None):
        return _fenced(fence[2], inside)
    blocks = [block for block in _BLOCK.finditer(code) if block[2].lower() in (*_PYTHON, *SHELLS)]
    around = _BLOCK.sub("", code)
    if blocks and (is_prose(around) or not _CODE.search(around)):
        return "\n".join(_fenced(block[2], block[3]) for block in blocks)
    return translated(code) if fence is None else _fenced(fence[2], inside)


def _fenced(language: str, code: str) -> str:
    code = _dedented(code).rstrip("\n")
    return _cell("bash", "", code) if language.lower() in SHELLS else translated(code)


def translated(code: str) -> str:
    """Code without commands of IPython, the indentation of all lines, and prompts; what is Python is left alone."""
    code = _dedented(code)
    if _PROMPTED.match(code):
        code = "\n".join(line[1] or "" for line in _PROMPT.finditer(code))
    if not _LIKELY.search(code) or len(code) > _MOST or _parsed(code) is not None:
        return code
    cell = _CELL.match(code.lstrip("\n"))
    if cell is not None:
        body = cell[3] or ""
        return _cell(cell[1], cell[2], translated(body) if cell[1] in PYTHON else body)
    lines = code.split("\n")
    done = [_line(line) for line in lines]
    for number in _inside_texts(_parsed("\n".join(done))):
        done[number] = lines[number]
    return "\n".join(done)


def _dedented(code: str) -> str:
    """Code without the indentation of its first line, as notebooks take it."""
    lines = code.split("\n")
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    if not indent:
        return code
    return "\n".join(line[len(indent) :] if line.startswith(indent) else line for line in lines)


def is_prose(code: str) -> bool:
    """Whether most lines of code that is no Python are words one after the other."""
    lines = [line for line in _QUOTED.sub("", code[:_MOST]).splitlines() if line.strip()]
    return bool(lines) and 2 * sum(map(_has_sentence, lines)) > len(lines)


def _has_sentence(line: str) -> bool:
    """Python never has two names side by side, but for its keywords."""
    words = line.split()
    pairs = zip(words, (word.rstrip(",;:.!?") for word in words[1:]), strict=False)
    beside = [
        pair for pair in pairs if all(map(_WORD.fullmatch, pair)) and not any(map(keyword.iskeyword, pair))
    ]
    return len(beside) >= 2 or (_IDEOGRAPHIC.search(line) is not None and "(" not in line)


def _cell(name: str, text: str, body: str) -> str:
    return f"{SHELL}.run_cell_magic({name!r}, {text!r}, {body!r})"


def _line(line: str) -> str:
    system, output, magic = _SYSTEM.match(line), _OUTPUT.match(line), _LINE.match(line)
    if system is not None:
        return f"{system[1]}{SHELL}.system({system[2]!r})"
    if output is not None:
        return f"{output[1]}{SHELL}.getoutput({output[2]!r})"
    pip = _PIP.match(line)
    if pip is not None:
        return f"{pip[1]}{SHELL}.run_line_magic('pip', {pip[2]!r})"
    if magic is not None and magic[2] in _PROGRAMS:
        return f"{magic[1]}{SHELL}.system({magic[2] + ' ' + magic[3]!r})"
    if magic is not None:
        return f"{magic[1]}{SHELL}.run_line_magic({magic[2]!r}, {magic[3]!r})"
    return line


def _inside_texts(tree: ast.AST | None) -> set[int]:
    """Lines that begin inside of a text; none where the code is no Python."""
    return {
        number
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno is not None
        for number in range(node.lineno, node.end_lineno)
    }


def _parsed(code: str) -> ast.AST | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
