"""Running Python that is the text of a command."""

import linecache

from limpet_runtime import aio, cells

TOP_LEVEL_AWAIT = 0x2000  # as a flag of compile()
FUTURES = 0x1FE0000  # of a code's flags: what `from __future__ import` left there


def run(frame, source, filename):
    """The value of the last expression, or None. Names are those of the frame."""
    flags = TOP_LEVEL_AWAIT | frame.f_code.co_flags & FUTURES
    head, tail = cells.compile_cell(source, filename, flags)
    if any(code and code.co_flags & aio.CO_COROUTINE for code in (head, tail)):
        return aio.run(head, tail, frame.f_globals)
    if head:
        exec(head, frame.f_globals, frame.f_locals)
    return eval(tail, frame.f_globals, frame.f_locals) if tail else None


def run_below(frame, header, body):
    """What is below a command: its errors show the lines of the cell as they were written."""
    name = frame.f_code.co_filename
    source = "\n" * frame.f_lineno + body
    above = linecache.getlines(name)[: frame.f_lineno - 1]
    linecache.cache[name] = len(source), None, [*above, f"{header.strip()}\n", *body.splitlines(True)], name
    return run(frame, source, name)
