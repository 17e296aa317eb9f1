"""One blocking connection to the controller. It belongs to one thread."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from .._calls._stream import Delivery, Stream
from .._connection._address import connected
from .._connection._recovery import FIRST_PAUSE, HANDSHAKE_TIMEOUT, ConnectionLost
from .._connection._transport import Wire
from .._protocol import _wire
from .._protocol._requests import HELLO, Message, answer, check_hello
from ..errors import BadRequest, ProtocolMismatch, TooLarge


class Connection:
    """Requests may be nested: a callback of one may make the next. Each has a mailbox for its messages."""

    def __init__(self, path: str, limit: float = HANDSHAKE_TIMEOUT) -> None:
        """Connects; raises OSError. hello() is the first thing to do, within ``limit`` seconds from now."""
        self._begin(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), limit)
        assert self._deadline is not None
        try:
            self._socket.settimeout(limit)
            while not connected(self._socket, path, self._deadline):
                time.sleep(FIRST_PAUSE)
        except BaseException:
            self._socket.close()
            raise

    def _begin(self, unconnected: Any, limit: float) -> None:
        self._socket = unconnected  # or what looks like a socket
        self._deadline: float | None = time.monotonic() + limit
        self.lock = threading.RLock()  # held during a request
        self._sending = threading.Lock()
        self._wire = Wire(_wire.MAX_REPLY)
        self._mail: dict[int, deque[Message]] = {}
        self._number = 0
        self.closed = False

    def hello(self) -> str | None:
        """Shakes hands; returns the controller's warning, if any. OSError when the peer does not answer."""
        try:
            self._shake_hands()
            warning = check_hello(answer(self.ask(_wire.HELLO, HELLO)))
            self._deadline = None
            self._socket.settimeout(None)
            return warning
        except BaseException:
            self.close()
            raise

    def ask(self, kind: int, body: Mapping[str, Any], stream: Stream | None = None) -> Message:
        """Sends a request and returns its reply or error, after handing its events to the stream's callbacks.

        Anything raised leaves the connection closed: a signal handler that raises may do so between a system
        call and the note of what it did.
        """
        if stream is not None or self._mail or self._deadline is not None:
            return self._listen(kind, body, stream)
        self._number = number = self._number + 1
        with self.lock:
            mail = self._mail[number] = deque()
            try:
                message = self._sort(number, self._wire.ask(self._socket.fileno(), kind, number, body))
                while message is None:
                    message = mail.popleft() if mail else self._receive(number)
            except (BadRequest, TooLarge):
                raise  # nothing of it was sent
            except OSError as error:
                self.close()
                raise ConnectionLost(error, sent=True) from error
            except BaseException:
                self.close()
                raise
            finally:
                del self._mail[number]
        if message[0] not in (_wire.REPLY, _wire.ERROR):
            self.close()
            raise ProtocolMismatch(f"the controller sent a message of kind {message[0]} to a request")
        return message

    def answer(self, number: int, body: Mapping[str, Any]) -> None:
        """To a question of that request; from any thread."""
        with contextlib.suppress(OSError, ConnectionLost):
            self._send(self._wire.encode(_wire.ANSWER, number, body))

    def close(self) -> None:
        self._shut_down()  # whoever sends an answer stops
        with self._sending:
            self._socket.close()
        self.closed = True

    def abort(self) -> None:
        """From any thread: ends a request that is under way with ConnectionLost."""
        self._shut_down()
        if self.lock.acquire(blocking=False):
            self.close()
            self.lock.release()

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()

    def _listen(self, kind: int, body: Mapping[str, Any], stream: Stream | None) -> Message:
        """ask() in single steps: with events on the way, inside another request, or before hands are shaken.

        Other threads may answer questions of such a request meanwhile: what is sent goes out whole.
        """
        self._number = number = self._number + 1
        frame = self._wire.encode(kind, number, body)
        with self.lock:
            mail: deque[Message] = deque()
            self._mail[number] = mail
            try:
                if stream is not None:
                    stream.attach(_Channel(self, number))
                self._send(frame)
                while True:
                    message = mail.popleft() if mail else self._receive(number)
                    if message is None:
                        continue
                    if message[0] in (_wire.REPLY, _wire.ERROR):
                        return message
                    self._deliver(number, message, stream)
            except BaseException:
                self.close()
                raise
            finally:
                if stream is not None:
                    stream.detach()
                del self._mail[number]

    def _deliver(self, number: int, message: Message, stream: Stream | None) -> None:
        if stream is None:
            raise ProtocolMismatch(f"the controller sent a message of kind {message[0]} to a request")
        delivery = stream.event(*message)
        if delivery:
            try:
                deliver(delivery)
            except BaseException as error:
                stream.failure = error
                raise
        count = stream.credit()
        if count:
            self._send(self._wire.encode(_wire.CREDIT, number, {"count": count}))

    def _shut_down(self) -> None:
        with contextlib.suppress(OSError):  # not connected any more
            self._socket.shutdown(socket.SHUT_RDWR)

    def _send(self, data: bytes) -> None:
        try:
            with self._sending:
                self._socket.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectionLost(error, sent=False) from error

    def _shake_hands(self) -> None:
        while not self._wire.ready:
            self._send_pending()
            self._fill()
            self._wire.message()
        self._send_pending()

    def _receive(self, number: int) -> Message | None:
        """The next message when it is for that request."""
        return self._sort(number, self._next())

    def _sort(self, number: int, message: _wire.Message | None) -> Message | None:
        """A message when it is for that request; those for others go to their mailboxes."""
        if message is None:
            self._send_pending()
            return None
        kind, addressee, body = message
        if addressee == number:
            return kind, body
        mail = self._mail.get(addressee)
        if mail is not None:
            mail.append((kind, body))
        return None

    def _send_pending(self) -> None:
        pending = self._wire.pending()
        if pending:
            self._send(pending)

    def _next(self) -> _wire.Message | None:
        if self._deadline is not None:
            message = self._wire.message()
            if message is None:
                self._fill()
            return message
        try:
            return self._wire.receive(self._socket.fileno())
        except OSError as error:
            raise ConnectionLost(error, sent=True) from error

    def _fill(self) -> None:
        """Reads once; within the time of the handshake, until that is over."""
        if self._deadline is not None:
            self._socket.settimeout(max(self._deadline - time.monotonic(), 0.001))
        try:
            size = self._socket.recv_into(self._wire.space())
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectionLost(error, sent=True) from error
        if not size:
            raise ConnectionLost("it closed the connection", sent=True)
        self._wire.received(size)


class _Channel:
    """Of one request, to answer its questions through."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._number = number

    def answer(self, body: Mapping[str, Any]) -> None:
        self._connection.answer(self._number, body)

    def fail(self, error: Exception) -> None:
        """The request ends with ConnectionLost, and whoever made it knows why."""
        self._connection.abort()


def deliver(delivery: Delivery) -> None:
    """Hands an event to its callback."""
    delivery[0](delivery[1])
