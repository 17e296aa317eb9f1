"""Ports of a sandbox's loopback, as sockets of this process and as addresses of this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType

from .._protocol import _wire
from .._protocol._requests import Request
from ..errors import BadRequest, Error, Internal, Unavailable
from . import _passing
from ._dialling import is_dialled

_PIECE = 256 << 10
_BACKLOG = 128
_PAUSE = 0.05  # seconds after a connection that could not be taken


def check_port(port: int) -> None:
    """Raises BadRequest for what is no port."""
    if not isinstance(port, int) or not 0 < port < 65536:
        raise BadRequest(f"a port is a number from 1 to 65535, not {port!r}")


def connected(path: str, target: Mapping[str, str], port: int) -> socket.socket:
    """A connection to a port of a session, through the controller that listens at ``path``. Blocks."""
    request = Request(_wire.CONNECT, {"port": port}, lambda body: None)
    if is_dialled(path):
        with contextlib.closing(_passing.Passing(path)) as dialled:
            made = dialled.stream(request, target)
            made.settimeout(None)
            return made
    passing = _passing.connect(path)
    if passing is None:
        raise Unavailable(f"no controller at {path} passes connections on")
    with contextlib.closing(passing):
        held = passing.descriptor(request, target)
    if held is None:
        raise Internal("the controller passed no connection")
    made = socket.socket(fileno=os.dup(held.number))
    made.setblocking(True)
    return made


class Forwarding:
    """A port of a session at an address of this machine. Made by ``forward()``; a context manager that ends it.

    Each connection to :attr:`address` becomes one to the port, for as long as both sides want. What is under way when
    the block ends goes on.
    """

    address: str
    """``127.0.0.1:PORT``, or the path of the socket."""

    def __init__(self, connect: Callable[[], socket.socket], to: int | str) -> None:
        self._connect = connect
        self._path = None if isinstance(to, int) else to
        self._listener = _listen(to)
        self._closed = threading.Event()
        self.address = self._path or f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, name="limpet-forward", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it. Does nothing if it is closed already."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()
        self._listener.close()
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
            self._path = None

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                near, _ = self._listener.accept()
            except OSError:  # one connection broke off, or there is no descriptor left for now
                self._closed.wait(_PAUSE)
                continue
            try:
                threading.Thread(target=self._serve, args=(near,), name="limpet-forward", daemon=True).start()
            except RuntimeError:  # there is no thread left for now
                near.close()

    def _serve(self, near: socket.socket) -> None:
        with near:
            try:
                far = self._connect()
            except (Error, OSError):
                return  # as where nobody listens: the connection ends
            with far:
                back = threading.Thread(target=_copy, args=(far, near), name="limpet-forward", daemon=True)
                back.start()
                _copy(near, far)
                back.join()

    def __enter__(self) -> str:
        return self.address

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> str:
        return self.address

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _listen(to: int | str) -> socket.socket:
    listener = socket.socket(socket.AF_INET if isinstance(to, int) else socket.AF_UNIX)
    try:
        if isinstance(to, int):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", to) if isinstance(to, int) else to)
        if not isinstance(to, int):
            os.chmod(to, 0o600)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Until one side ends, and then says so to the other. One that breaks off ends both ways."""
    try:
        while piece := source.recv(_PIECE):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
