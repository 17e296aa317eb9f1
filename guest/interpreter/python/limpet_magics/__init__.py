"""The commands of IPython in a cell, which have become calls of get_ipython(), or of ``limpet_magics.shell``.

Those of commands.py cost next to nothing. Any other makes IPython's own shell, once: a quarter of a second, and 25 to 45 MB.
"""

import sys

from limpet_magics import code, commands

__all__ = ["Shell", "ipython", "shell"]


class Shell:
    """Stands in for IPython's shell, which is made when a cell asks for more than what is here."""

    @property
    def user_ns(self):
        return sys.modules["__main__"].__dict__

    def run_line_magic(self, magic_name, line, _stack_depth=1):
        own = commands.LINE.get(magic_name)
        if own is None:
            return ipython(f"%{magic_name}").run_line_magic(magic_name, line)
        return own(line if own in commands.PYTHON else code.expand(line, code.caller()))

    def run_cell_magic(self, magic_name, line, cell):
        own = commands.CELL.get(magic_name)
        if own is None:
            return ipython(f"%%{magic_name}").run_cell_magic(magic_name, line, cell)
        return own(line if own in commands.PYTHON else code.expand(line, code.caller()), cell)

    def system(self, cmd):
        commands.system(code.expand(cmd, code.caller()))

    def getoutput(self, cmd, split=True, depth=0):
        return commands.output_of(code.expand(cmd, code.caller()), split)

    def __setattr__(self, name, value):
        setattr(ipython(f"get_ipython().{name}"), name, value)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(ipython(f"get_ipython().{name}"), name)


# The name that code knows a notebook by.
Shell.__name__ = Shell.__qualname__ = "ZMQInteractiveShell"
shell = Shell()


def ipython(wanted):
    """IPython's shell, of which a process has one."""
    try:
        from limpet_magics.ipython_shell import Shell
    except ModuleNotFoundError as error:
        if error.name != "IPython":
            raise
        raise commands.UsageError(f"{wanted} needs IPython, which this Python does not have: install it there") from None
    return Shell.instance()
