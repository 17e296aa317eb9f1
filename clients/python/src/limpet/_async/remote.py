"""The asyncio connection to a controller on another machine."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from .._connection._curve import Peer
from .._connection._keys import Keys
from .._protocol import _wire
from .link import Link


async def connect(address: str, keys: Keys, limit: float) -> Link:
    """As Link.connect()."""
    link = Link()
    transport = PeerTransport(link, Peer(address, keys, _wire.MAX_REPLY))
    link.connection_made(transport)
    try:
        await asyncio.wait_for(transport.made, max(limit, 0.001))
    except BaseException as error:
        transport.abort()
        if isinstance(error, asyncio.TimeoutError):
            raise TimeoutError("it does not answer") from error
        raise
    return link


class PeerTransport(asyncio.Transport):
    """A Peer as a transport, which reads for its protocol when libzmq says that something has changed."""

    def __init__(self, link: Link, peer: Peer) -> None:
        super().__init__()
        self._link = link
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._answer = b""  # of the handshake, until the protocol makes its own
        self.made: asyncio.Future[None] = self._loop.create_future()
        self._descriptors = peer.descriptors()
        for descriptor, look in zip(self._descriptors, (self._look, self._look_at_all), strict=True):
            self._loop.add_reader(descriptor, look)
        self._loop.call_soon(self._look)

    def write(self, data: Any) -> None:
        if self._closing:
            return
        if data[:1] == b"\xff":  # the greeting
            self._hand(self._answer)
            return
        try:
            self._peer.send(data)
        except OSError as error:
            self._lose(error)
        else:
            self._loop.call_soon(self._look)  # libzmq may have seen meanwhile what it would have told of

    def is_closing(self) -> bool:
        return self._closing

    def abort(self) -> None:
        self._lose(None)

    def close(self) -> None:
        self.abort()

    def _look_at_all(self) -> None:
        self._peer.due = True
        self._look()

    def _look(self) -> None:
        while not self._closing:
            try:
                piece = self._peer.take()
            except OSError as error:
                self._lose(error)
                return
            if piece is None:
                return
            if self.made.done():
                self._hand(piece)
            else:
                self._answer = piece
                self.made.set_result(None)

    def _hand(self, piece: bytes) -> None:
        rest = memoryview(piece)
        while rest and not self._closing:
            space = self._link.get_buffer(-1)
            size = min(len(space), len(rest))
            space[:size] = rest[:size]
            rest = rest[size:]
            self._link.buffer_updated(size)

    def _lose(self, error: OSError | None) -> None:
        if self._closing:
            return
        self._closing = True
        for descriptor in self._descriptors:
            self._loop.remove_reader(descriptor)
        self._peer.close()
        if not self.made.done():
            self.made.set_exception(error or ConnectionAbortedError("the connection was closed"))
            with contextlib.suppress(OSError):
                self.made.exception()
        self._loop.call_soon(self._link.connection_lost, error)
