"""Questions of a cell to the client that runs it: for a line of input here, for functions of the host in tools.py."""

import builtins
import io
import sys

import _limpet

EXCEPTIONS = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}
NOBODY = "nobody answers input() in this call: pass on_input to it"

builtin_input = builtins.input


class ToolError(Exception):
    """What a function of the host raised, where Python has no exception of that name."""

    __module__ = "limpet_tools"

    def __init__(self, name, message):
        super().__init__(name, message)
        self.name = name
        self.message = message

    def __str__(self):
        return f"{self.name}: {self.message}"


def exception_of(name, message):
    try:
        return EXCEPTIONS[name](message)
    except (KeyError, TypeError):  # of another name, or made of more than a text
        return ToolError(name, message)


def ask(kind, name="", payload=None):
    error, value = _limpet.ask(kind, name, payload)
    if error is not None:
        raise exception_of(*error)
    return value


def ask_line(kind, prompt):
    """A line without its end, or None at the end of input."""
    line = ask(kind, prompt)
    if line is not None and not isinstance(line, str):
        raise TypeError(f"{kind} was answered with {type(line).__name__}, not with text")
    return line


def need_line(kind, prompt):
    if not _limpet.is_answered():
        raise EOFError(NOBODY)
    line = ask_line(kind, str(prompt))
    if line is None:
        raise EOFError("EOF when reading a line")
    return line


class Lines(io.RawIOBase):
    """What sys.stdin reads from: asks for a line when one is wanted. Always at its end where nobody answers."""

    name = "<stdin>"

    def __init__(self):
        self.rest = b""

    def readable(self):
        return True

    def fileno(self):
        return 0

    def close(self):
        pass

    def readinto(self, target):
        if not self.rest and _limpet.is_answered():
            line = ask_line("input", "")
            self.rest = b"" if line is None else line.encode("utf-8", "surrogateescape") + b"\n"
        size = min(len(target), len(self.rest))
        target[:size] = self.rest[:size]
        self.rest = self.rest[size:]
        return size


class Stdin(io.TextIOWrapper):
    """sys.stdin: impossible to close."""

    def __init__(self):
        super().__init__(io.BufferedReader(Lines()), encoding="utf-8", errors="surrogateescape")

    def close(self):
        pass


stdin = Stdin()


def input(prompt="", /):
    """Ask whoever runs this call for a line of input, and return it without its end.

    A cell that has put something else in place of sys.stdin reads from there. EOFError at the end of input, and at
    once where nobody answers.
    """
    if sys.stdin is not stdin:
        return builtin_input(prompt)
    if not _limpet.is_answered():
        print(prompt, end="")  # for whoever reads why there was no answer
    return need_line("input", prompt)


def adapt_getpass(module):
    original = module.getpass

    def getpass(prompt="Password: ", stream=None, **options):
        """Ask whoever runs this call for a secret, which is not shown while it is typed."""
        if sys.stdin is not stdin:
            return original(prompt, stream, **options)
        return need_line("secret", prompt)

    module.getpass = getpass


def install():
    sys.stdin = sys.__stdin__ = stdin
    builtins.input = input
