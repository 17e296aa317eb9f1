"""What both clients say of a program that is to be run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import IO

from . import _requests
from ._requests import Body

Command = str | Sequence[str | bytes | os.PathLike[str]]
Input = str | bytes | IO[bytes]

REQUEST = 4 << 20  # bytes of input that one request carries
_READS = 'f=$0; [ -e "$f" ] || f=$HOME/${0##*/}; exec <"$f"; rm -f -- "$f"; exec "$@"'


def reading(command: Command, file: str) -> Command:
    """The command with that file of ``/session``, which is removed, as its input."""
    argv = ["bash", "-c", command] if isinstance(command, str) else command
    return ["bash", "-c", _READS, file, *argv]


def program(
    command: Command,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    stdin: str | bytes | None,
) -> Body:
    """The fields of a request that say what is to be run: a text is a line for bash, a list the arguments."""
    body = _requests.given(
        cwd=None if cwd is None else os.fspath(cwd),
        env=None if env is None else dict(env),
        stdin=stdin.encode() if isinstance(stdin, str) else stdin,
    )
    if isinstance(command, str):
        line = _sendable(command)
        return {**body, "command": line} if isinstance(line, str) else {**body, "argv": ["bash", "-c", line]}
    if isinstance(command, (bytes, bytearray)):
        raise TypeError("a command is a text for bash, or a list of arguments; bytes may be items of that")
    return {**body, "argv": [_sendable(os.fspath(each)) for each in command]}


def _sendable(text: str | bytes) -> str | bytes:
    """Names of files that are not UTF-8, which Python writes with surrogates, as the bytes they are."""
    if isinstance(text, bytes):
        return text
    data = text.encode("utf-8", "surrogateescape")
    return text if data == text.encode("utf-8", "replace") else data
