"""Values of a session: what is run inside to take one or to give one, and how the answer is read.

A small value goes within the call itself. A larger one goes by way of a file of the session, which the call removes.
"""

from __future__ import annotations

import base64
import keyword
import os
from collections.abc import Iterator
from pathlib import Path as LocalPath
from typing import Any

from .._protocol._opened import Opened
from ..errors import CallFailed
from ..results import Result
from . import _codec, _tables

SMALL = 256 << 10  # bytes that go within a call
LIMIT = 2 << 30
_TYPE = "application/vnd.limpet.value"
_FAILURE = "application/vnd.limpet.value-failure"
# What an export knows these calls by. They are none of the session's own code.
VALUE = "# limpet.value\n"
SET = "# limpet.set: "
_MODULE = "limpet_runtime.values"
# The codec, and what the cells call. What fails here is told in a sentence: a traceback would show all of this.
_SOURCE = (
    (LocalPath(__file__).parent / "_codec.py").read_text(encoding="utf-8")
    + f"""

def _path(file_name, engine):
    import os

    return os.path.join(os.environ["HOME"] if engine == "local" else "/session", file_name)


def _display(kind, what):
    import builtins

    builtins.display({{kind: what}}, raw=True)


def _told(function):
    def call(*arguments):
        try:
            function(*arguments)
        except Exception as error:
            _display({_FAILURE!r}, f"{{type(error).__name__}}: {{error}}")

    return call


@_told
def take(names, name, small, file_name, engine):
    import base64, os

    if small is not None:
        data = bytearray(base64.b64decode(small))
    else:
        path = _path(file_name, engine)
        with open(path, "rb") as file:
            data = bytearray(os.fstat(file.fileno()).st_size)
            file.readinto(data)
        os.unlink(path)
    names[name] = load(memoryview(data))


@_told
def give(value, limit, file_name, engine):
    import os

    parts = dump(value)
    if sum(map(len, parts)) <= limit:
        _display({_TYPE!r}, b"".join(parts))
        return
    path = _path(file_name, engine)
    try:
        with open(path, "wb", 0) as file:
            for part in parts:
                while part:
                    part = memoryview(part)[file.write(part):]
    except BaseException:
        os.unlink(path)
        raise
    _display({_TYPE!r}, file_name)


@_told
def remove(file_name, engine):
    import os

    os.unlink(_path(file_name, engine))
"""
)
_BEGIN = """
import sys, types
if name not in sys.modules:
    made = types.ModuleType(name)
    exec(source, made.__dict__)
    sys.modules[name] = made
"""


class Cells:
    """The cells of one use of a session. The first in the life of an interpreter brings the codec."""

    def __init__(self, session: Opened, whole: bool = False) -> None:
        self._engine = session.engine
        self._begin = ""
        if whole or session._codec is None:
            self._begin = f"exec({_BEGIN!r}, {{'name': {_MODULE!r}, 'source': {_SOURCE!r}}})\n"

    def takes(self, name: str, parts: list[_codec.Part] | None, file_name: str) -> str:
        """Binds a name to a value, of these parts or of a file."""
        small = None if parts is None else base64.b64encode(b"".join(parts))
        return f"{SET}{name}\n" + self._call(f"take(globals(), {name!r}, {small!r}", file_name)

    def gives(self, expression: str, file_name: str) -> str:
        """Gives the value of an expression, which is evaluated where a traceback shows it."""
        return VALUE + self._call(f"give((\n{expression}\n), {SMALL}", file_name)

    def removes(self, file_name: str) -> str:
        return VALUE + self._call("remove(", file_name).replace("(, ", "(")

    def _call(self, begun: str, file_name: str) -> str:
        """Leaves no names behind."""
        called = f"__import__('sys').modules[{_MODULE!r}].{begun}, {file_name!r}, {self._engine!r})"
        return self._begin + called


def lacks_codec(result: Result) -> bool:
    """Whether the interpreter is another one, or has forgotten: nothing was done."""
    error = result.error
    return error is not None and error.name == "KeyError" and error.message == repr(_MODULE)


def new_file() -> str:
    return f".value-{os.urandom(8).hex()}"


def check_name(name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} cannot be the name of a variable")


def check(result: Result) -> Result:
    """As Result.check(), also of what has failed besides the expression."""
    said = _shown(result.check(), _FAILURE)
    if said is not None:
        raise CallFailed(str(said), result)
    return result


def sent(result: Result) -> bytes | None:
    """What came within the call; None when it is in the file."""
    data = _shown(check(result), _TYPE)
    if data is None:
        raise CallFailed("the sandbox sent no value", result)
    return data if isinstance(data, bytes) else None


def _shown(result: Result, kind: str) -> Any:
    return next((display.data[kind] for display in result.displays if kind in display.data), None)


def read(data: bytes | bytearray, result: Result) -> Any:
    """The value. The sandbox may have sent anything."""
    try:
        return _codec.load(memoryview(data), _tables.check)
    except ValueError as error:
        raise CallFailed(f"the sandbox sent an invalid value: {error}", result) from error


class Source:
    """The parts as one binary file, of which a read may give less than it could."""

    def __init__(self, parts: list[_codec.Part]) -> None:
        self._parts: Iterator[memoryview] = (memoryview(part) for part in parts if len(part))
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        if not self._rest:
            self._rest = next(self._parts, memoryview(b""))
        piece, self._rest = self._rest[:size], self._rest[size:]
        return bytes(piece)
