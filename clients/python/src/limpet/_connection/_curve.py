"""A peer on another machine: libzmq, which encrypts, seen as a stream of ZMTP without encryption.

What speaks ZMTP over a local socket (``_transport.Wire``) speaks it to a :class:`Peer` as well: frames are passed on,
and the handshake, which libzmq has done with the controller, is answered here. libzmq connects once: a controller
that is gone is to be noticed, and asked again by whoever knows what for.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from ..errors import Unavailable
from ._keys import Keys
from ._zmtp import OPENING

zmq: Any = None
with contextlib.suppress(ImportError):
    import zmq as _zmq
    from zmq.utils.monitor import parse_monitor_message

    zmq = _zmq

# What a ROUTER says first, as OPENING is what a DEALER does.
_ANSWER = OPENING[:64] + b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER"
_COMMAND = 4
_HEARTBEAT = 15_000  # milliseconds
_SILENCE = 45_000

_context: tuple[int, Any] | None = None  # of this process


def _own_context() -> Any:
    global _context
    if _context is None or _context[0] != os.getpid():  # a child of fork() leaves its parent's alone
        _context = os.getpid(), zmq.Context()
        _context[1].max_sockets = _context[1].get(zmq.SOCKET_LIMIT)  # three for each peer, and 1023 otherwise
    return _context[1]


class Peer:
    """One connection. It belongs to one thread, and never waits: whoever waits for more does it at ``sockets``."""

    def __init__(self, address: str, keys: Keys, limit: int) -> None:
        """Begins to connect. ``limit``: bytes of the largest message that is taken."""
        if zmq is None:
            raise Unavailable(f"{address} can only be reached with pyzmq: pip install 'pyzmq>=24'")
        self._socket = _own_context().socket(zmq.DEALER)
        self._monitor: Any = None
        self.open = False  # the handshake has been made
        self.due = True  # something may have become of the connection
        self._end: OSError | None = None
        try:
            self._connect(address, keys, limit)
        except BaseException:
            self.close()
            raise

    def _connect(self, address: str, keys: Keys, limit: int) -> None:
        socket = self._socket
        socket.curve_publickey, socket.curve_secretkey, socket.curve_serverkey = keys
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.SNDHWM, 0),
            (zmq.RCVHWM, 0),
            (zmq.MAXMSGSIZE, limit),
            (zmq.RECONNECT_IVL, -1),
            (zmq.HEARTBEAT_IVL, _HEARTBEAT),
            (zmq.HEARTBEAT_TIMEOUT, _SILENCE),
            (zmq.IPV6, 1),
        ):
            socket.setsockopt(option, value)
        self._monitor = socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED
            | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
            | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
            | zmq.EVENT_HANDSHAKE_FAILED_AUTH
            | zmq.EVENT_DISCONNECTED
            | zmq.EVENT_CLOSED
        )
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise OSError(error.errno, f"{address}: {error.strerror}") from error

    @property
    def sockets(self) -> tuple[Any, Any]:
        """libzmq's, which poll() knows: what comes, and what becomes of the connection."""
        return self._socket, self._monitor

    def descriptors(self) -> list[int]:
        """Readable when one of them has changed: take() until there is nothing, then and after each send()."""
        return [socket.getsockopt(zmq.FD) for socket in self.sockets]

    def poller(self, beside: int) -> Any:
        """Waits for any of them, or for a descriptor."""
        poller = zmq.Poller()
        for each in (*self.sockets, beside):
            poller.register(each, zmq.POLLIN)
        return poller

    def send(self, data: bytes) -> None:
        """A frame of a message, encoded; what else a peer of ZMTP sends is not for libzmq."""
        flags = data[0]
        if flags & _COMMAND:
            return
        try:
            self._socket.send(memoryview(data)[9 if flags & 2 else 2 :], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            raise OSError(error.errno, error.strerror) from error

    def take(self) -> bytes | None:
        """What comes next; None: nothing for now. OSError when the connection has ended and all was taken.

        What becomes of the connection is looked at when ``due`` says so, which whoever waits for it sets.
        """
        message = self._message()
        if message is None and self.due:
            self.due = False
            if self._note_events():
                return _ANSWER
            message = self._message()  # what has come before the end of the connection
        if message is not None:
            return b"\x02" + len(message).to_bytes(8, "big") + message
        if self._end is not None:
            raise self._end
        return None

    def close(self) -> None:
        """May be called again."""
        if self._monitor is not None:
            self._socket.disable_monitor()
            self._monitor = None
        self._socket.close()

    def _message(self) -> bytes | None:
        try:
            message: bytes = self._socket.recv(zmq.NOBLOCK)
            return message
        except zmq.Again:
            return None

    def _note_events(self) -> bool:
        """Whether the handshake has just been made."""
        made = False
        while True:
            try:
                told = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return made
            if told["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                made = self.open = True
            elif self._end is None:
                self._end = self._reason(told["event"])

    def _reason(self, event: int) -> OSError:
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return PermissionError(
                "it does not let this key in: the public key is not in its authorized_keys"
            )
        if self.open:
            return ConnectionResetError("it closed the connection")
        if event == zmq.EVENT_CLOSED:
            return ConnectionRefusedError("nobody listens there")
        return ConnectionResetError(
            "it ended the handshake: it does not have the secret key of this server_key, or takes no connections"
        )
