"""``%run``."""

import builtins
import os
import sys

from limpet_magics.options import UsageError, leading, words


def run(frame, text):
    """A file in a namespace of its own, whose names then are those of the session; with -i in that of the session."""
    options, rest = leading(text, "i")
    path, *arguments = words(f"-- {rest}")[1] or [""]
    path = found(os.path.expanduser(path))
    with open(path, "rb") as file:
        program = compile(file.read(), path, "exec", dont_inherit=True)
    if "i" in options:
        execute(program, path, arguments, frame.f_globals)
        return
    names = {"__name__": "__main__", "__file__": path, "__builtins__": builtins}
    execute(program, path, arguments, names)
    frame.f_globals.update((name, value) for name, value in names.items() if not name.startswith("__"))


def found(path):
    if not path:
        raise UsageError("%run needs the name of a file")
    if path.endswith(".ipynb"):
        raise UsageError("%run runs files of Python, no notebooks")
    return path if os.path.exists(path) else f"{path.removesuffix('.py')}.py"


def execute(program, path, arguments, names):
    argv, folders = sys.argv, list(sys.path)
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        exec(program, names)
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = argv
        sys.path[:] = folders
