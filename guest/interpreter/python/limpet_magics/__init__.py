"""The commands of IPython that the cells of a notebook may use: its kernel puts calls of these in their place.

``%name text`` is ``line("name", "text")``, ``%%name text`` with what is below it ``cell("name", "text", body)``,
``!command`` is ``system("command")`` and ``x = !command`` has ``getoutput("command")``. They see the names of the frame
that calls.
"""

import sys

from limpet_magics import capture, files, looks, names, program, shell, timing
from limpet_magics.expansion import expand
from limpet_magics.options import UsageError

__all__ = ["CELL", "LINE", "UsageError", "cell", "getoutput", "line", "system"]

LINE = {
    "cd": files.cd,
    "env": files.env,
    "pip": shell.pip,
    "pwd": files.pwd,
    "run": program.run,
    "set_env": files.env,
    "time": timing.time_line,
    "timeit": timing.timeit_line,
    "who": names.who,
    "who_ls": names.who_ls,
    "whos": names.whos,
    **{name: shell.alias(name) for name in ("cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir")},
}
CELL = {
    "bash": shell.script("bash"),
    "capture": capture.capture,
    "html": looks.shown_as("text/html"),
    "latex": looks.shown_as("text/latex"),
    "markdown": looks.shown_as("text/markdown"),
    "sh": shell.script("sh"),
    "svg": looks.shown_as("image/svg+xml"),
    "time": timing.time_cell,
    "timeit": timing.timeit_cell,
    "writefile": files.write,
}
PYTHON = {"time", "timeit"}  # whose own line is code: braces and dollars are its own


def line(name, text):
    frame = sys._getframe(1)
    return LINE[name](frame, text if name in PYTHON else expand(text, frame))


def cell(name, text, body):
    frame = sys._getframe(1)
    return CELL[name](frame, text if name in PYTHON else expand(text, frame), body)


def system(command):
    frame = sys._getframe(1)
    shell.system(frame, expand(command, frame))


def getoutput(command):
    return shell.output_of(expand(command, sys._getframe(1)))
