"""The way to the controller for threads: the counterpart of limpet._async.connecting."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from .._calls._answers import Memory
from .._calls._asking import BlockingAsking
from .._calls._asks import Asks
from .._connection import _recovery
from .._connection._address import NOBODY, Address, Endpoint, remade
from .._connection._dialling import SECONDS
from .._connection._keys import KeyFile
from .._connection._recovery import Attempts, ConnectionLost
from .._copying._bringing import Artifacts, chosen
from ..errors import Error, SessionClosed, Unavailable, warn
from .connection import Connection
from .dialled import DialledConnection

T = TypeVar("T")

Lock = threading.Lock
sleep = time.sleep


def opening(function: T) -> T:
    """The session is there when the function returns."""
    return function


class Connecting:
    """The connections of a client: one for each thread of each process."""

    _counterpart: ClassVar[type[Any]]  # the other kind of client, which takes the same arguments

    def __init__(
        self,
        address: Address = None,
        *,
        autostart: bool | None = None,
        reconnect_timeout: float = 30.0,
        key: KeyFile = None,
        server_key: str | None = None,
        artifacts: Artifacts = None,
        progress: bool = False,
    ) -> None:
        self._endpoint = Endpoint(address, autostart, key, server_key)
        self._artifacts = artifacts
        self._progress = progress
        self._landing = chosen(artifacts) if self._endpoint.far else None
        self._reconnect_timeout = reconnect_timeout
        self._warned = False
        self._closed = False
        self._memory = Memory()
        self._begin()

    def __reduce__(self) -> tuple[Any, ...]:
        """By its arguments: a copy has connections of its own."""
        return remade, (type(self), self._arguments())

    def _arguments(self) -> dict[str, Any]:
        """Of a client of the same controller, of either kind."""
        return {
            **self._endpoint.arguments(),
            "reconnect_timeout": self._reconnect_timeout,
            "artifacts": self._artifacts,
            "progress": self._progress,
        }

    @property
    def address(self) -> str:
        """Path of the controller's socket, or the address of one on another machine."""
        return self._endpoint.path

    @property
    def autostart(self) -> bool:
        """Whether a controller is started when none listens."""
        return self._endpoint.autostart

    @property
    def reconnect_timeout(self) -> float:
        """Seconds for which a call looks for a controller that went away meanwhile."""
        return self._reconnect_timeout

    def close(self) -> None:
        """Closes the connections. What other threads wait for raises SessionClosed. Sessions live on."""
        self._closed = True
        if self._pid == os.getpid():
            with self._lock:
                connections = list(self._connections)
            for connection in connections:
                connection.abort()

    def _begin(self) -> None:
        """Without connections: at first, and in a child of fork(), which leaves the parent's alone."""
        self._pid = os.getpid()
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()

    def _connection(self, start: bool, attempts: Attempts) -> Connection:
        """This thread's connection. Unavailable when no controller answers, or ConnectionLost."""
        if self._closed:
            raise SessionClosed("the client is closed")
        if self._pid != os.getpid():
            self._begin()
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            connection = self._local.connection = self._connect(start, attempts)
        return connection

    def _connect(self, start: bool, attempts: Attempts) -> Connection:
        connection = self._dial(start and self._endpoint.autostart, attempts)
        with self._lock:
            self._connections.add(connection)
        try:
            warning = connection.hello()
        except ConnectionLost as lost:
            raise ConnectionLost(lost, sent=False) from lost
        except Error:  # some are OSErrors too
            raise
        except OSError as error:
            raise self._endpoint.unreachable(error) from error
        if self._closed:  # by another thread, which may not have seen this connection
            connection.close()
            raise SessionClosed("the client is closed")
        if warning and not self._warned:
            self._warned = True
            warn(warning)
        return connection

    def _dial(self, start: bool, attempts: Attempts) -> Connection:
        endpoint = self._endpoint
        try:
            endpoint.check()
            if endpoint.dialled:
                return DialledConnection(endpoint.path, attempts.limit(SECONDS))
            if endpoint.keys is not None:
                limit = attempts.limit(_recovery.HANDSHAKE_TIMEOUT)
                from .remote import RemoteConnection  # and with it libzmq, which is for networks alone

                return RemoteConnection(endpoint.path, endpoint.keys, limit)
            try:
                return self._reach(attempts)
            except NOBODY:
                if not start:
                    raise
            try:
                endpoint.start(attempts.limit(_recovery.START_TIMEOUT))
            except Unavailable:
                with contextlib.suppress(OSError):  # somebody else was quicker
                    return Connection(endpoint.path, attempts.limit(_recovery.HANDSHAKE_TIMEOUT))
                raise
            return Connection(endpoint.path, attempts.limit(_recovery.HANDSHAKE_TIMEOUT))
        except Error:  # some are OSErrors too
            raise
        except OSError as error:
            raise endpoint.unreachable(error) from error

    def _reach(self, attempts: Attempts) -> Connection:
        """The controller that runs: this user's, or root's where this user may use it."""
        endpoint = self._endpoint
        try:
            connection = Connection(endpoint.path, attempts.limit(_recovery.HANDSHAKE_TIMEOUT))
        except NOBODY:
            for path in endpoint.others():
                with contextlib.suppress(OSError):
                    connection = Connection(path, attempts.limit(_recovery.HANDSHAKE_TIMEOUT))
                    endpoint.settle(path)
                    return connection
            raise
        endpoint.settle(endpoint.path)
        return connection

    def _asking(self, asks: Asks, run_id: str, session: str | None) -> BlockingAsking:
        """For a call of which something can be answered."""
        return BlockingAsking(asks, self._memory.of(run_id), run_id, session)


def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """With asyncio in a thread; here the caller waits anyway."""
    return function(*arguments)


def leaving(record: T | None) -> T | None:
    """The record of a call whose caller wants to leave, which has been waited for."""
    return record
