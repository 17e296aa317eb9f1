"""The text of a command: Python, or ``$name`` and ``{expression}`` with values in their place, as IPython has them."""

import linecache
import re
import string
import sys

from limpet_runtime import aio, cells, errors

TOP_LEVEL_AWAIT = 0x2000  # as a flag of compile()
FUTURES = 0x1FE0000  # of a code's flags: what `from __future__ import` left there
DOLLAR = re.compile(r"\$(\$?[^\W\d][\w.]*)")


def caller():
    """The frame of the code that has the command: the nearest one that is neither ours nor IPython's."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(errors.OURS):
        frame = frame.f_back
    return frame


def run(frame, source, filename):
    """The value of the last expression, or None. Names are those of the frame. Source may have commands of its own."""
    flags = TOP_LEVEL_AWAIT | frame.f_code.co_flags & FUTURES
    try:
        head, tail = cells.compile_cell(source, filename, flags)
    except SyntaxError:
        from limpet_magics import ipython

        head, tail = cells.compile_cell(ipython("a command").transform_cell(source), filename, flags)
    if any(code and code.co_flags & aio.CO_COROUTINE for code in (head, tail)):
        return aio.run(head, tail, frame.f_globals)
    if head:
        exec(head, frame.f_globals, frame.f_locals)
    return eval(tail, frame.f_globals, frame.f_locals) if tail else None


def run_below(frame, body, filename):
    """Runs what is below a command. Where that ends a cell, errors show the lines of the cell as they were written."""
    name, above = frame.f_code.co_filename, frame.f_lineno
    lines = linecache.getlines(name)
    if not name.startswith(errors.CELL) or len(lines) != above:
        return run(frame, body, filename)
    source = "\n" * above + body
    linecache.cache[name] = len(source), None, [*lines, *body.splitlines(True)], name
    return run(frame, source, name)


class Names(dict):
    """Those of a frame: its own, those of its module, and Python's."""

    def __init__(self, frame):
        super().__init__(frame.f_builtins)
        self.update(frame.f_globals)
        self.update(frame.f_locals)


def expand(text, frame):
    """The text with values in it. One with an expression that has no value is left as it is, for the shell."""
    if "$" not in text and "{" not in text:
        return text
    names = Names(frame)
    try:
        return "".join(part for piece in string.Formatter().parse(text) for part in parts(*piece, names))
    except Exception:
        return text


def parts(literal, expression, spec, conversion, names):
    yield DOLLAR.sub(lambda found: dollar(found[1], names), literal)
    if expression is not None:
        value = eval(expression, names)
        yield format(string.Formatter().convert_field(value, conversion), expand_spec(spec, names))


def expand_spec(spec, names):
    return "".join(part for piece in string.Formatter().parse(spec) for part in parts(*piece, names))


def dollar(name, names):
    """The value of a variable of Python; the shell's are left to it. ``$$name`` is the shell's in any case."""
    if name.startswith("$"):
        return name
    first, *attributes = name.split(".")
    if first not in names:
        return f"${name}"
    value = names[first]
    while attributes and hasattr(value, attributes[0]):
        value = getattr(value, attributes.pop(0))
    return ".".join([str(value), *attributes])
