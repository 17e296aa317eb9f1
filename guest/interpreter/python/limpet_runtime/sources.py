"""Where the source of a class of the cells is: functions say it themselves, a class has no more than its module."""

import linecache

from limpet_runtime.errors import CELL


def is_member(function, kind):
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(CELL) and function.__qualname__ == f"{kind.__qualname__}.{code.co_name}"


def cells():
    """Names of the cells whose source is there, the newest first."""
    return sorted((name for name in linecache.cache if name.startswith(CELL)), key=lambda name: -int(name[len(CELL) : -1]))


def defines(line, name):
    words = line.replace("(", " ").replace(":", " ").replace("[", " ").split()
    return words[:2] == ["class", name]


def cell_of(kind):
    """The name of the cell that has defined a class: that of its own functions, or the newest with a class of that name."""
    for member in vars(kind).values():
        function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if is_member(function, kind):
            return function.__code__.co_filename
    first = vars(kind).get("__firstlineno__")  # from Python 3.13 on; that of its first decorator
    for name in cells():
        lines = linecache.getlines(name)
        if any(defines(line, kind.__name__) for line in (lines[first - 1 :] if first else lines)):
            return name
    return None


def adapt_inspect(inspect):
    original = inspect.getfile

    def getfile(object):
        name = cell_of(object) if isinstance(object, type) and object.__module__ == "__main__" else None
        return name or original(object)

    getfile.__doc__ = original.__doc__
    inspect.getfile = getfile
