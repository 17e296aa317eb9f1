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


def install_streams():
    io.TextIOBase.register(_limpet.Stream)
    io.BufferedIOBase.register(_limpet.BinaryStream)
    sys.stdout = sys.__stdout__ = _limpet.stdout
    sys.stderr = sys.__stderr__ = _limpet.stderr
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
