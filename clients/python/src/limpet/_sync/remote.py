"""The blocking connection to a controller on another machine."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from typing import Any

from .._calls._stream import Stream
from .._connection._curve import Peer
from .._connection._keys import Keys
from .._connection._recovery import HANDSHAKE_TIMEOUT
from .._protocol import _wire
from .._protocol._requests import Message
from .connection import Connection


class RemoteConnection(Connection):
    def __init__(self, address: str, keys: Keys, limit: float = HANDSHAKE_TIMEOUT) -> None:
        """Connects; raises OSError. hello() is the first thing to do, within ``limit`` seconds from now."""
        self._begin(PeerSocket(address, keys, limit), limit)
        try:
            self._socket.connect()
        except BaseException:
            self._socket.close()
            raise

    def ask(self, kind: int, body: Any, stream: Stream | None = None) -> Message:
        """As Connection.ask(), in single steps: there is no socket of which C could read."""
        return self._listen(kind, body, stream)

    def _next(self) -> _wire.Message | None:
        message = self._wire.message()
        if message is None:
            self._fill()
        return message


class PeerSocket:
    """A Peer as a blocking socket. It is read from by one thread; others may send, which that one then does."""

    def __init__(self, address: str, keys: Keys, limit: float) -> None:
        self._peer = Peer(address, keys, _wire.MAX_REPLY)
        self._thread = threading.get_ident()
        self._to_send: deque[bytes] = deque()
        self._rest = memoryview(b"")
        self._timeout: float | None = limit
        self._ended = False
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        self._poller = self._peer.poller(self._woken.fileno())

    def connect(self) -> None:
        """Waits for the handshake of libzmq, of which ours is told afterwards."""
        self._wait()

    def settimeout(self, seconds: float | None) -> None:
        self._timeout = seconds

    def sendall(self, data: bytes) -> None:
        if self._ended:
            raise ConnectionResetError("the connection is closed")
        if data[:1] == b"\xff":  # the greeting
            return
        if threading.get_ident() == self._thread:
            self._peer.send(data)
        else:
            self._to_send.append(data)
            self._rouse()

    def recv_into(self, to: memoryview) -> int:
        """Waits for some bytes; 0: nothing more comes."""
        if not self._rest and not self._wait():
            return 0
        size = min(len(to), len(self._rest))
        to[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def shutdown(self, how: int) -> None:
        """From any thread."""
        self._ended = True
        self._rouse()

    def close(self) -> None:
        self._ended = True
        if self._wake.fileno() >= 0:
            self._peer.close()
            self._woken.close()
            self._wake.close()

    def _rouse(self) -> None:
        with contextlib.suppress(OSError):  # it is closed, or has been woken often enough
            self._wake.send(b"\0")

    def _wait(self) -> bool:
        """Until there are bytes; whether there are."""
        end = None if self._timeout is None else time.monotonic() + self._timeout
        while not self._ended:
            while self._to_send:
                self._peer.send(self._to_send.popleft())
            left = None if end is None else max(end - time.monotonic(), 0)
            if not self._poll(left) and left is not None:
                raise TimeoutError("it does not answer")
            piece = self._peer.take()
            if piece is not None:
                self._rest = memoryview(piece)
                return True
        return False

    def _poll(self, seconds: float | None) -> bool:
        ready = self._poller.poll(None if seconds is None else int(seconds * 1000) + 1)
        for which, _ in ready:
            if which == self._woken.fileno():
                self._woken.recv(4096)
            elif which is not self._peer.sockets[0]:
                self._peer.due = True
        return bool(ready)
