"""Python that is the text of a command."""

import linecache
import sys

from limpet_runtime import aio, cells, errors

TOP_LEVEL_AWAIT = 0x2000  # as a flag of compile()
FUTURES = 0x1FE0000  # of a code's flags: what `from __future__ import` left there


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
