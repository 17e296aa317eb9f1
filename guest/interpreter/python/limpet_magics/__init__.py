"""The commands of IPython that the cells of a notebook may use: its kernel puts calls of these in their place.

``%name text`` is ``line("name", "text")``, ``%%name text`` with what is below it ``cell("name", "text", body)``,
``!command`` is ``system("command")`` and ``x = !command`` has ``getoutput("command")``. They see the names of the frame
that calls.
"""

import sys

from limpet_magics import capture, files, looks, names, program, shell, timing
from limpet_magics.expansion import expand
from limpet_magics.options import UsageError

__all__ = ["CELL", "LINE", "Shell", "UsageError", "cell", "getoutput", "line", "system"]

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


IGNORED = {"autoreload", "config", "load_ext", "matplotlib", "reload_ext"}


class Shell:
    """What cells ask of IPython's shell, which get_ipython() gives them."""

    @property
    def user_ns(self):
        return sys.modules["__main__"].__dict__

    def run_line_magic(self, magic_name, line):
        if magic_name in IGNORED:
            return None
        return self.find(LINE, "%", magic_name)(*seen(magic_name, line))

    def run_cell_magic(self, magic_name, line, cell):
        return self.find(CELL, "%%", magic_name)(*seen(magic_name, line), cell)

    def find(self, all, mark, name):
        if name not in all:
            raise UsageError(f"there is no {mark}{name} here")
        return all[name]

    def system(self, cmd):
        frame = sys._getframe(1)
        shell.system(frame, expand(cmd, frame))

    def getoutput(self, cmd):
        return shell.output_of(expand(cmd, sys._getframe(1)))


# What code knows a notebook by.
Shell.__name__ = Shell.__qualname__ = "ZMQInteractiveShell"


def seen(name, text):
    """The frame of the cell that asks the shell, and the text as it is meant there."""
    frame = sys._getframe(2)
    return frame, text if name in PYTHON else expand(text, frame)


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
