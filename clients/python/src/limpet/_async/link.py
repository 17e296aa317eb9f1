"""One asyncio connection to the controller, shared by all tasks of a loop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, cast

from .._calls._stream import Delivery, Stream
from .._connection._address import connected
from .._connection._dialling import Command
from .._connection._recovery import FIRST_PAUSE, ConnectionLost
from .._connection._transport import Wire
from .._protocol import _wire
from .._protocol._requests import HELLO, Message, answer, check_hello
from ..errors import ProtocolMismatch


class Link(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self._wire = Wire(_wire.MAX_REPLY)
        self._calls: dict[int, Call] = {}
        self._number = 0
        self._answered = False  # hello() has been
        self._broken: str | None = None  # what the peer did against the protocol
        self._transport: asyncio.Transport | None = None
        self._command: Command | None = None  # whose standard streams the connection is
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, path: str, limit: float) -> Link:
        """Connects within ``limit`` seconds; raises OSError. hello() is the first thing to do."""
        deadline = time.monotonic() + limit
        unconnected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            unconnected.setblocking(False)
            while not connected(unconnected, path, deadline):
                await asyncio.sleep(FIRST_PAUSE)
            _, link = await asyncio.get_running_loop().create_unix_connection(cls, sock=unconnected)
            return link
        except BaseException:
            unconnected.close()
            raise

    @classmethod
    async def dial(cls, address: str) -> Link:
        """Starts the command of an address. hello() is the first thing to do."""
        command = await asyncio.to_thread(Command, address)
        link = cls()
        link._command = command
        loop = asyncio.get_running_loop()
        connect = loop.create_unix_connection if hasattr(socket, "AF_UNIX") else loop.create_connection
        command.socket.setblocking(False)
        await connect(lambda: link, sock=command.socket)
        return link

    async def failure(self, error: BaseException) -> BaseException:
        """What to raise where hello() has failed: a command has its own words."""
        command = self._command
        if command is None:
            return error
        if isinstance(error, ProtocolMismatch) and not self._wire.ready:
            return ProtocolMismatch(command.mistaken())
        if isinstance(error, (ConnectionLost, TimeoutError, asyncio.TimeoutError)):
            return await asyncio.to_thread(command.failure, not isinstance(error, ConnectionLost))
        return error

    async def hello(self) -> str | None:
        """Shakes hands; returns the controller's warning, if any."""
        assert self._transport is not None
        self._transport.write(self._wire.pending())
        await asyncio.wait((self._ready, self._gone), return_when=asyncio.FIRST_COMPLETED)
        warning = check_hello(answer(await self.ask(_wire.HELLO, HELLO)))
        self._answered = True
        return warning

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @contextlib.contextmanager
    def call(self, kind: int, body: Mapping[str, Any]) -> Iterator[Call]:
        """Sends a request, whose answer and events are taken from the Call."""
        self._number = number = self._number + 1
        if self._broken is not None:
            raise ProtocolMismatch(self._broken)
        if not self.usable:
            raise ConnectionLost("the connection is closed", sent=False)
        frame = self._wire.encode(kind, number, body)
        call = self._calls[number] = Call(self, number)
        try:
            self._write(frame)
            if not self.usable:  # asyncio has just noticed that nobody is there
                raise ConnectionLost("it closed the connection", sent=False)
            yield call
        finally:
            del self._calls[number]

    async def ask(self, kind: int, body: Mapping[str, Any], stream: Stream | None = None) -> Message:
        """Sends a request and returns its reply or error, after handing its events to the stream's callbacks."""
        with self.call(kind, body) as call:
            if stream is not None:
                return await _listen(call, stream)
            message = await call.next()
        if message[0] not in (_wire.REPLY, _wire.ERROR):
            raise ProtocolMismatch(f"the controller sent a message of kind {message[0]} to a request")
        return message

    def answer(self, number: int, body: Mapping[str, Any]) -> None:
        if self.usable:
            self._write(self._wire.encode(_wire.ANSWER, number, body))

    def credit(self, number: int, count: int) -> None:
        if self.usable:
            self._write(self._wire.encode(_wire.CREDIT, number, {"count": count}))

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            await asyncio.shield(self._gone)

    def abandon(self) -> None:
        """Closes it where its loop has ended, or stands still."""
        if self._transport is None:
            return
        sock = self._transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):  # the loop alone can close it
                sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(RuntimeError):
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # or what another event loop has in its place

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._wire.space()

    def buffer_updated(self, nbytes: int) -> None:
        wire = self._wire
        wire.received(nbytes)
        try:
            while (message := wire.message()) is not None:
                self._dispatch(*message)
        except ProtocolMismatch as error:
            self._fail(error.message)
        pending = wire.pending()
        if pending and self.usable:
            self._write(pending)
        if wire.ready and not self._ready.done():
            self._ready.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        why = error or "it closed the connection"
        for call in self._calls.values():
            call.put(ConnectionLost(why, sent=True))
        if not self._gone.done():
            self._gone.set_result(None)
        if self._command is not None and self._answered:  # otherwise it may still be about to say why
            self._command.end()

    def _dispatch(self, kind: int, number: int, body: dict[str, Any]) -> None:
        call = self._calls.get(number)
        if call is not None:
            call.put((kind, body))
        elif kind == _wire.OUTPUT:
            self.credit(number, 1)  # of a call that nobody waits for any more: it must not wait for us

    def _fail(self, why: str) -> None:
        self._broken = why
        for call in self._calls.values():
            call.put(ProtocolMismatch(why))
        assert self._transport is not None
        self._transport.abort()

    def _write(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frame)


class Call:
    """The mailbox of one request; one task waits at it."""

    def __init__(self, link: Link, number: int) -> None:
        self._link = link
        self._number = number
        self._mail: deque[Message | Exception] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: Message | Exception) -> None:
        self._mail.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> Message:
        """The next message; raises what ended the connection."""
        if not self._mail:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        item = self._mail.popleft()
        if isinstance(item, Exception):
            raise item
        return item

    def answer(self, body: Mapping[str, Any]) -> None:
        self._link.answer(self._number, body)

    def fail(self, error: Exception) -> None:
        self.put(error)

    def credit(self, count: int) -> None:
        self._link.credit(self._number, count)


async def deliver(delivery: Delivery) -> None:
    """Hands an event to its callback, a function or a coroutine function."""
    result = delivery[0](delivery[1])
    if inspect.isawaitable(result):
        await result


async def _listen(call: Call, stream: Stream) -> Message:
    stream.attach(call)
    try:
        while True:
            message = await call.next()
            if message[0] in (_wire.REPLY, _wire.ERROR):
                return message
            delivery = stream.event(*message)
            if delivery:
                try:
                    await deliver(delivery)
                except BaseException as error:
                    stream.failure = error
                    raise
            count = stream.credit()
            if count:
                call.credit(count)
    finally:
        stream.detach()
