"""Processes of a session that run in the background. The blocking one is generated from this file."""

from __future__ import annotations

import signal as signals
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from .. import _process_requests as _ask
from .._wire import FILE_CHUNK
from ..errors import NoSuchRun
from ..processes import Output
from ..results import Result

if TYPE_CHECKING:
    from .commands import AsyncCommands


class AsyncProcess:
    """A process in the background. Made by :meth:`AsyncSession.start` and :meth:`AsyncSession.process`.

    It belongs to the session, not to this object: it goes on when the object, the client or the controller is gone,
    and through rollbacks, resets and crashes of Python. It ends by itself, by a signal, or with the session.
    """

    id: str
    """What it is known by: 32 hexadecimal digits, also the ``run_id`` of its result."""

    def __init__(self, session: AsyncCommands, id: str) -> None:
        self._session = session
        self.id = id

    def __repr__(self) -> str:
        return f"<limpet.{type(self).__name__} {self.id} of {self._session.name}>"

    async def output(self, since: int = 0, timeout: float | None = 0) -> Output:
        """Returns what the process has written, from a place on.

        The last megabyte is kept for this, also when the process has ended, until 16 others have ended after it. From
        then on it is what the result has: the beginning, standard output before standard error. That names a file of
        up to 64 MiB with all of it, as that of a command does.

        Args:
            since: Bytes that are known already: ``next`` of the output before.
            timeout: Seconds to wait for more when there is none. None and more than 25 wait for 25.
        """
        try:
            return await self._session._request(_ask.output(self.id, since, timeout))
        except NoSuchRun:
            result = await self._ended()
            if result is None:
                raise
            return Output.from_result(result, since)

    async def follow(self, since: int = 0) -> AsyncIterator[Output]:
        """Yields what the process writes, as it comes, until it has ended.

        Args:
            since: As in :meth:`output`.
        """
        while True:
            output = await self.output(since, None)
            since = output.next
            if output.pieces:
                yield output
            if output.ended:
                return

    async def send(self, data: str | bytes) -> None:
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
            await self._session._request(_ask.send(self.id, bytes(rest[:FILE_CHUNK]), False))
            rest = rest[FILE_CHUNK:]

    async def close_stdin(self) -> None:
        """Ends the standard input; into a terminal it types Ctrl-D."""
        await self._session._request(_ask.send(self.id, b"", True))

    async def send_signal(self, number: int = signals.SIGTERM, *, alone: bool = False) -> None:
        """Sends a signal to the process and what it has started, as far as that is in its process group.

        Args:
            number: Number of the signal.
            alone: Sends it to the process alone.

        Raises:
            NoSuchRun: The process has ended.
        """
        await self._session._request(_ask.signal(self.id, int(number), alone))

    async def resize(self, rows: int, columns: int) -> None:
        """Gives its terminal another size, in characters; the program gets SIGWINCH."""
        await self._session._request(_ask.resize(self.id, rows, columns))

    async def wait(self, timeout: float | None = None) -> Result | None:
        """Waits for its end.

        Args:
            timeout: Seconds. Defaults to no limit. Meanwhile the session does not count as idle.

        Returns:
            The result, as that of :meth:`AsyncSession.exec`; None if the process still runs after ``timeout``.
        """
        return await self._session._client.result(self.id, timeout)

    async def _ended(self) -> Result | None:
        """The result of a process of this session that is known for nothing else any more."""
        if not _ask.is_id(self.id):
            return None  # a name is that of one that the session still knows
        result = await self._session._client.result(self.id, 0)
        if (
            result is None
            or result.kind != "command"
            or result.session != self._session.name.partition("/")[0]
        ):
            return None
        return result
