"""Processes of a session that run in the background. The blocking one is generated from this file."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, overload

from .._calls._stream import Stream
from .._protocol import _process_requests as _ask
from .._protocol._wire import FILE_CHUNK, OUTPUT
from ..errors import NoSuchRun
from ..processes import Output, ProcessKind, ProcessRow
from ..results import Result
from .link import deliver

if TYPE_CHECKING:
    from .commands import AsyncCommands


class AsyncProcess:
    """A process of a session. Made by :meth:`AsyncSession.start`, :meth:`AsyncSession.process` and
    :meth:`AsyncSession.processes`.

    It belongs to the session, not to this object: it survives the object, the client and the controller, and rollbacks,
    resets and crashes of Python. It ends by itself, by a signal, or with the session.

    The attributes are as they were when the object was made; :meth:`refresh` asks again.
    """

    id: str
    """32 hexadecimal digits, also the ``run_id`` of its result. Of an orphan its pid."""
    name: str | None
    """As ``start`` had it."""
    kind: ProcessKind
    """``process`` of ``start``; ``command`` of ``exec``; ``orphan``: left behind by one of these, which has ended."""
    pid: int | None
    """In the container. None of a process of which only the result is left."""
    command: str
    """Its line, or its program and arguments, cut short."""
    created: float | None
    """Unix time at which it was started. None of an orphan."""
    running: bool
    """False when it has ended."""
    exit_code: int | None
    """When it has ended by itself."""
    signal: int | None
    """Number of the signal that ended it."""
    pty: tuple[int, int] | None
    """Columns and rows of its terminal. None: it has none."""
    written: int | None
    """Bytes it has written so far. None unless ``kind`` is ``process``."""

    def __init__(self, session: AsyncCommands, row: ProcessRow) -> None:
        self._session = session
        self.created = row.created
        self.id, self.name, self.kind = row.id, row.name, row.kind
        self.pid, self.command = row.pid, row.command
        self._take(row)

    def _take(self, row: ProcessRow) -> None:
        """The attributes that change."""
        self.running, self.exit_code, self.signal = row.running, row.exit_code, row.signal
        self.pty, self.written = row.pty, row.written

    def __repr__(self) -> str:
        ended = f"exit code {self.exit_code}" if self.signal is None else f"signal {self.signal}"
        state = "running" if self.running else ended
        return f"<limpet.{type(self).__name__} {self.name or self.id} of {self._session.name}: {state}>"

    async def refresh(self) -> None:
        """Asks for the attributes again.

        Raises:
            NoSuchRun: It has ended, and nothing is known of it any more.
        """
        self._take(await self._session._process_row(self.id))

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
            result = await self._session._result_of_process(self.id)
            if result is None:
                raise
            return Output.from_result(result, since)

    @overload
    def follow(self, since: int = 0) -> AsyncIterator[Output]: ...

    @overload
    async def follow(
        self,
        since: int = 0,
        *,
        on_stdout: Callable[[str], Any],
        on_stderr: Callable[[str], Any] | None = None,
    ) -> Result: ...

    @overload
    async def follow(
        self, since: int = 0, *, on_stdout: None = None, on_stderr: Callable[[str], Any]
    ) -> Result: ...

    def follow(
        self,
        since: int = 0,
        *,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
    ) -> Any:
        """Gives what the process writes, as it comes, until it has ended.

        Without callbacks it is an iterator of :class:`Output`. With them it calls these with text, waits for the end
        of the process, and returns the result.

        Args:
            since: As in :meth:`output`.
            on_stdout: Called with text that was written to standard output, or to the terminal.
            on_stderr: Likewise, for standard error.
        """
        if on_stdout is None and on_stderr is None:
            return self._outputs(since)
        return self._told(since, on_stdout, on_stderr)

    async def _outputs(self, since: int) -> AsyncIterator[Output]:
        while True:
            output = await self.output(since, None)
            since = output.next
            if output.pieces:
                yield output
            if output.ended:
                return

    async def _told(
        self, since: int, on_stdout: Callable[[str], Any] | None, on_stderr: Callable[[str], Any] | None
    ) -> Result:
        stream = Stream(on_stdout, on_stderr, None)
        async for output in self._outputs(since):
            for number, data in output.pieces:
                delivery = stream.event(OUTPUT, {"stream": number, "data": data})
                if delivery:
                    await deliver(delivery)
        result = await self.wait()
        for delivery in stream.rest(result):
            await deliver(delivery)
        return result

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

    async def send_signal(self, signal: str | int = "TERM", *, alone: bool = False) -> None:
        """Sends a signal to the process and what it has started, as far as that is in its process group.

        Args:
            signal: Its name, such as ``"INT"`` or ``"SIGINT"``, or its number.
            alone: Sends it to the process alone.

        Raises:
            BadRequest: There is no such signal.
            NoSuchRun: The process has ended.
        """
        number = _ask.signal_number(signal)
        await self._session._request(_ask.signal(self.id, number, alone))

    async def kill(self) -> None:
        """Ends the process and its process group with SIGKILL. Does nothing if it has ended."""
        with contextlib.suppress(NoSuchRun):
            await self.send_signal("KILL")

    async def resize(self, columns: int, rows: int) -> None:
        """Gives its terminal another size, in characters; the program gets SIGWINCH."""
        await self._session._request(_ask.resize(self.id, columns, rows))

    async def wait(self, timeout: float | None = None) -> Result:
        """Waits for its end.

        Args:
            timeout: Seconds. Defaults to no limit. Meanwhile the session does not count as idle.

        Returns:
            The result, as that of :meth:`AsyncSession.exec`.

        Raises:
            TimeoutError: The process still runs after ``timeout``.
            NoSuchRun: It is an orphan, which has no result.
        """
        result = await self._session._client.result(self.id, timeout)
        if result is None:
            raise TimeoutError(f"the process {self.name or self.id} still runs after {timeout} seconds")
        return result
