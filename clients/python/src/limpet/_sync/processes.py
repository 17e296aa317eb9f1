# Generated from limpet/_async/processes.py by scripts/generate-blocking: change that file.
"""Processes of a session that run in the background."""

from __future__ import annotations

import signal as signals
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import _process_requests as _ask
from .._wire import FILE_CHUNK
from ..errors import NoSuchRun
from ..processes import Output
from ..results import Result

if TYPE_CHECKING:
    from .commands import Commands


class Process:
    """A process in the background. Made by :meth:`Session.start` and :meth:`Session.process`.

    It belongs to the session, not to this object: it goes on when the object, the client or the controller is gone,
    and through rollbacks, resets and crashes of Python. It ends by itself, by a signal, or with the session.
    """

    id: str
    """What it is known by: 32 hexadecimal digits, also the ``run_id`` of its result."""

    def __init__(self, session: Commands, id: str) -> None:
        self._session = session
        self.id = id

    def __repr__(self) -> str:
        return f"<limpet.{type(self).__name__} {self.id} of {self._session.name}>"

    def output(self, since: int = 0, timeout: float | None = 0) -> Output:
        """Returns what the process has written, from a place on.

        The last megabyte is kept for this, also when the process has ended, until 16 others have ended after it. From
        then on it is what the result has: the beginning, standard output before standard error. That names a file of
        up to 64 MiB with all of it, as that of a command does.

        Args:
            since: Bytes that are known already: ``next`` of the output before.
            timeout: Seconds to wait for more when there is none. None and more than 25 wait for 25.
        """
        try:
            return self._session._request(_ask.output(self.id, since, timeout))
        except NoSuchRun:
            result = self._ended()
            if result is None:
                raise
            return Output.from_result(result, since)

    def follow(self, since: int = 0) -> Iterator[Output]:
        """Yields what the process writes, as it comes, until it has ended.

        Args:
            since: As in :meth:`output`.
        """
        while True:
            output = self.output(since, None)
            since = output.next
            if output.pieces:
                yield output
            if output.ended:
                return

    def send(self, data: str | bytes) -> None:
        """Writes to the standard input, or types into the terminal. Returns when the process has taken it.

        Args:
            data: Text (as UTF-8) or bytes, of any length.

        Raises:
            Busy: Something else is being sent, and the process has not read it yet.
            BadRequest: The standard input is closed.
            NoSuchRun: The process has ended.
        """
        rest = memoryview(data.encode() if isinstance(data, str) else data)
        while rest:
            self._session._request(_ask.send(self.id, bytes(rest[:FILE_CHUNK]), False))
            rest = rest[FILE_CHUNK:]

    def close_stdin(self) -> None:
        """Ends the standard input; into a terminal it types Ctrl-D."""
        self._session._request(_ask.send(self.id, b"", True))

    def send_signal(self, number: int = signals.SIGTERM, *, alone: bool = False) -> None:
        """Sends a signal to the process and what it has started, as far as that is in its process group.

        Args:
            number: Number of the signal.
            alone: Sends it to the process alone.

        Raises:
            NoSuchRun: The process has ended.
        """
        self._session._request(_ask.signal(self.id, int(number), alone))

    def resize(self, rows: int, columns: int) -> None:
        """Gives its terminal another size, in characters; the program gets SIGWINCH."""
        self._session._request(_ask.resize(self.id, rows, columns))

    def wait(self, timeout: float | None = None) -> Result | None:
        """Waits for its end.

        Args:
            timeout: Seconds. Defaults to no limit. Meanwhile the session does not count as idle.

        Returns:
            The result, as that of :meth:`Session.exec`; None if the process still runs after ``timeout``.
        """
        return self._session._client.result(self.id, timeout)

    def _ended(self) -> Result | None:
        """The result of a process of this session that is known for nothing else any more."""
        if not _ask.is_id(self.id):
            return None  # a name is that of one that the session still knows
        result = self._session._client.result(self.id, 0)
        if (
            result is None
            or result.kind != "command"
            or result.session != self._session.name.partition("/")[0]
        ):
            return None
        return result
