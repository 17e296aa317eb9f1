"""Files that the controller opens for a client on its machine, so that their contents do not go through messages."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from .._protocol import _wire
from .._protocol._requests import HELLO, Body, Request, answer
from ..errors import Error, file_failed
from ..files import encoded
from ._address import connected
from ._dialling import SECONDS, Command, is_dialled
from ._keys import is_remote
from ._recovery import FIRST_PAUSE, HANDSHAKE_TIMEOUT, ConnectionLost
from ._transport import Wire

FEATURE = "descriptors"
_STEP = 16 << 20  # bytes copied at once
_PIECE = 1 << 20  # of what the kernel cannot copy itself


class Held:
    """A descriptor that is open for as long as this is: a thread may still work for a task that has been cancelled."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)

    def size(self) -> int:
        return os.fstat(self.number).st_size


class Passing:
    """A connection of its own, beside which descriptors come. It blocks, and belongs to one transfer."""

    def __init__(self, path: str) -> None:
        self._wire = Wire(_wire.MAX_REPLY)
        self._number = 0
        self._passed: list[Held] = []
        self._sips = False  # reads no byte after an answer: what follows is none
        self._command = Command(path) if is_dialled(path) else None
        self._socket = (
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            if self._command is None
            else self._command.socket
        )
        try:
            self._connect(path)
        except BaseException:
            self.close()
            raise

    def ask(self, request: Request[Any], target: Mapping[str, str]) -> Any:
        request = request.of(target)
        return request.read(self._ask(request.kind, request.body))

    def give_up(self, request: Request[Any], target: Mapping[str, str]) -> None:
        """ask() where nothing is left to be told."""
        with contextlib.suppress(OSError, ConnectionLost, Error):
            self.ask(request, target)

    def descriptor(self, request: Request[Any], target: Mapping[str, str]) -> Held | None:
        """Of a file that the controller opens, or None where it passes none."""
        self.ask(request, target)
        return self._passed.pop() if self._passed else None

    def stream(self, request: Request[Any], target: Mapping[str, str]) -> socket.socket:
        """What the connection itself becomes where it is a command's, through which no descriptor comes."""
        assert self._command is not None
        self._sips = True
        self.ask(request, target)
        self._command.attend()
        made, self._socket = self._socket, socket.socket()
        return made

    def close(self) -> None:
        """Ends it, also for a thread that waits here for a controller that stands still."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _connect(self, path: str) -> None:
        if self._command is None:
            self._socket.settimeout(HANDSHAKE_TIMEOUT)
            deadline = time.monotonic() + HANDSHAKE_TIMEOUT
            while not connected(self._socket, path, deadline):
                time.sleep(FIRST_PAUSE)
            self._shake_hands()
            return
        self._socket.settimeout(SECONDS)
        try:
            self._shake_hands()
        except (OSError, ConnectionLost) as error:
            raise self._command.failure(isinstance(error, TimeoutError)) from error

    def _shake_hands(self) -> None:
        while not self._wire.ready:
            self._socket.sendall(self._wire.pending())
            self._fill()
            self._wire.message()
        self._socket.sendall(self._wire.pending())
        self.passes = FEATURE in (self._ask(_wire.HELLO, HELLO).get("features") or ())
        self._socket.settimeout(None)

    def _ask(self, kind: int, body: Mapping[str, Any]) -> Body:
        self._number += 1
        self._socket.sendall(self._wire.encode(kind, self._number, body))
        while (message := self._wire.message()) is None:
            self._fill()
        return answer((message[0], message[2]))

    def _fill(self) -> None:
        if self._command is not None:
            self._note(self._socket.recv_into(self._wire.space()[: 1 if self._sips else None]))
            return
        size, beside, _, _ = self._socket.recvmsg_into(
            [self._wire.space()], socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, data in beside:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._passed.append(Held(int.from_bytes(data[:4], sys.byteorder)))
        self._note(size)

    def _note(self, size: int) -> None:
        if not size:
            raise ConnectionLost("it closed the connection", sent=True)
        self._wire.received(size)


def connect(path: str) -> Passing | None:
    """To a controller that passes descriptors. None where there is none: there are other ways."""
    if is_remote(path) or is_dialled(path):
        return None
    try:
        passing = Passing(path)
    except (OSError, Error, ConnectionLost):
        return None
    if passing.passes:
        return passing
    passing.close()
    return None


def large(local: str) -> Held | None:
    """A descriptor of a regular file with more than goes in a message, or None."""
    status = os.stat(local)
    if not stat.S_ISREG(status.st_mode) or status.st_size <= _wire.FILE_CHUNK:
        return None
    return Held(os.open(local, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))


def is_plain(local: str) -> bool:
    """Whether it is, or can become, a regular file."""
    try:
        return stat.S_ISREG(os.stat(local).st_mode)
    except FileNotFoundError:
        return True


def copied(source: Held, target: Held) -> Iterator[int]:
    """Copies a regular file, holes as holes, in steps. What there is of it after each."""
    size, at = source.size(), 0
    while at < size:
        at, end = _next_run(source.number, at, size)
        while at < end:
            count = _copy(source.number, target.number, at, min(end - at, _STEP))
            if not count:  # it has become shorter
                size = end = at
            at += count
            yield at
    os.ftruncate(target.number, at)


def refuse(error: OSError, path: str | bytes) -> None:
    """Raises what it means when a file of a session takes no more. Other errors are what they are."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        said = f"{os.strerror(error.errno)}; remove files, or open the session with more `disk`"
        name = os.fsdecode(path)
        raise file_failed(f"'{name}': {said}", errno.errorcode[error.errno], encoded(name)) from error


def _next_run(source: int, at: int, size: int) -> tuple[int, int]:
    """Where data begins and ends. A file system that cannot say has no holes."""
    try:
        at = min(os.lseek(source, at, os.SEEK_DATA), size)
    except OSError as error:
        return (size, size) if error.errno == errno.ENXIO else (at, size)
    with contextlib.suppress(OSError):
        return at, max(min(os.lseek(source, at, os.SEEK_HOLE), size), at)
    return at, size


def _copy(source: int, target: int, at: int, count: int) -> int:
    os.lseek(target, at, os.SEEK_SET)
    try:
        return os.sendfile(target, source, at, count)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return os.write(target, os.pread(source, min(count, _PIECE), at))
