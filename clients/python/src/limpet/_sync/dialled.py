"""The blocking connection through a command that reaches another machine."""

from __future__ import annotations

from .._connection._dialling import Command
from .._connection._recovery import ConnectionLost
from ..errors import ProtocolMismatch
from .connection import Connection


class DialledConnection(Connection):
    def __init__(self, address: str, limit: float) -> None:
        """Starts the command. hello() is the first thing to do, within ``limit`` seconds from now."""
        self._command = Command(address)
        self._answered = False
        self._begin(self._command.socket, limit)

    def hello(self) -> str | None:
        """As Connection.hello(). Unavailable where the command does not become a connection, with its words."""
        try:
            warning = super().hello()
        except (ConnectionLost, OSError) as error:
            raise self._command.failure(silent=isinstance(error, TimeoutError)) from error
        except ProtocolMismatch as error:
            if self._wire.ready:
                raise
            raise ProtocolMismatch(self._command.mistaken()) from error
        self._answered = True
        return warning

    def close(self) -> None:
        super().close()
        if self._answered:  # otherwise it may still be about to say why
            self._command.end()
