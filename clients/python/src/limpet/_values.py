"""Values of a session: what is run inside to take one or to give one, and how the answer is read.

A small value goes within the call itself. A larger one goes by way of a file of the session, which the call removes.
"""

from __future__ import annotations

import base64
import keyword
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path as LocalPath
from typing import Any

from . import _codec, _tables
from ._opened import Opened
from .errors import CallFailed
from .results import Result

SMALL = 256 << 10  # bytes that go within a call
LIMIT = 2 << 30
_TYPE = "application/vnd.limpet.value"
_FAILURE = "application/vnd.limpet.value-failure"
_SOURCE = (LocalPath(__file__).parent / "_codec.py").read_text(encoding="utf-8")
# Each cell brings the text of the codec, and the first one in the life of an interpreter compiles it. What fails here
# is told in a sentence: a traceback would show all of this.
_ALL = """
import base64, os, sys, types
from IPython.display import display
try:
    codec = sys.modules.get("limpet_runtime.values")
    if codec is None:
        codec = types.ModuleType("limpet_runtime.values")
        exec(source, codec.__dict__)
        sys.modules[codec.__name__] = codec
    path = os.path.join(os.environ["HOME"] if engine == "local" else "/session", file_name)
{}
except Exception as error:
    display({{failure: f"{{type(error).__name__}}: {{error}}"}}, raw=True)
"""
_TAKE = """
if small is not None:
    data = bytearray(base64.b64decode(small))
else:
    with open(path, "rb") as file:
        data = bytearray(os.fstat(file.fileno()).st_size)
        file.readinto(data)
    os.unlink(path)
names[name] = codec.load(memoryview(data))
"""
_GIVE = """
parts = codec.dump(value)
if sum(map(len, parts)) <= limit:
    display({kind: b"".join(parts)}, raw=True)
else:
    try:
        with open(path, "wb", 0) as file:
            for part in parts:
                while part:
                    part = memoryview(part)[file.write(part):]
    except BaseException:
        os.unlink(path)
        raise
    display({kind: file_name}, raw=True)
"""


def cell_that_takes(session: Opened, name: str, parts: list[_codec.Part] | None, file_name: str) -> str:
    """The cell that binds a name to a value, of these parts or of a file."""
    small = None if parts is None else base64.b64encode(b"".join(parts))
    return _cell(
        _TAKE, "'names': globals()", name=name, small=small, file_name=file_name, engine=session.engine
    )


def cell_that_gives(session: Opened, expression: str, file_name: str) -> str:
    """The cell that gives the value of an expression, which is evaluated where a traceback shows it."""
    value = f"'value': (\n{expression}\n)"
    return _cell(_GIVE, value, kind=_TYPE, limit=SMALL, file_name=file_name, engine=session.engine)


def cell_that_removes(session: Opened, file_name: str) -> str:
    return _cell("os.unlink(path)", "", file_name=file_name, engine=session.engine)


def _cell(what: str, expression: str, **constants: Any) -> str:
    """Leaves no names behind: all that it uses is in a dict of its own."""
    given = {**constants, "failure": _FAILURE, "source": _SOURCE}
    values = ", ".join(f"{name!r}: {value!r}" for name, value in given.items())
    return f"exec({_ALL.format(textwrap.indent(what, '    '))!r}, {{{values}, {expression}}})"


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
        raise CallFailed(f"the sandbox sent what is no value: {error}", result) from error


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
