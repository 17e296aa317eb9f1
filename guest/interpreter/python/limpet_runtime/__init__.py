"""The part of the interpreter that is about Python objects; the rest is C.

Cells share this process, so nothing here may rely on what a cell can change: the C side puts builtins,
sys.modules and linecache back before it calls in, and holds the functions it calls itself. What is not needed at
once comes by way of library.py.
"""

import builtins
import io
import sys

import _limpet
from limpet_runtime import asks, display, hooks


class Quitter:
    """exit and quit: they end the cell as sys.exit() does, and leave sys.stdin open."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"Use {self.name}() to end the cell; the session goes on."

    def __call__(self, code=None):
        raise SystemExit(code)


class Stream(io.TextIOWrapper):
    """sys.stdout and sys.stderr: text does not wait in them, and a cell cannot take them from later ones."""

    mode = "w"

    def __init__(self, stream):
        super().__init__(stream, "utf-8", "backslashreplace", newline="\n", write_through=True)

    def close(self):
        self.flush()

    def detach(self):
        return self.buffer

    def reconfigure(self, **changes):
        super().reconfigure(**{**changes, "write_through": True})


def install_streams():
    io.BufferedIOBase.register(_limpet.Stream)
    sys.stdout = sys.__stdout__ = Stream(_limpet.stdout)
    sys.stderr = sys.__stderr__ = Stream(_limpet.stderr)
    sys.displayhook = _limpet.displayhook


def install_builtins():
    builtins.display = display.display
    builtins.update_display = display.update_display
    builtins.clear_output = display.clear_output
    builtins.exit = Quitter("exit")
    builtins.quit = Quitter("quit")


install_streams()
install_builtins()
asks.install()
hooks.install()
