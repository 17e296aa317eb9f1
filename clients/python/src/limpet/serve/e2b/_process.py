"""E2B's ``process.Process``: commands and terminals, as processes of the session."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import math
import signal
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ... import AsyncSession, NoSuchRun, Result
from ..._async.processes import AsyncProcess
from ...processes import Output
from ._frames import Failed, frame
from ._records import Record
from ._sandboxes import Sandboxes

_SIGNALS = {
    "SIGNAL_SIGTERM": signal.SIGTERM,
    "SIGNAL_SIGKILL": signal.SIGKILL,
    15: signal.SIGTERM,
    9: signal.SIGKILL,
}
_KEEPALIVE = 20.0  # seconds; what asks for another time asks for more
_PIECE = 256 << 10
_KNOWN = 256  # processes whose configuration is remembered


class Processes:
    """Procedures by name: unary ones return an answer, streams yield frames."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._all = sandboxes
        self.unary = {
            "List": self._list, "Update": self._update, "SendInput": self._send_input, "SendSignal": self._send_signal,
            "CloseStdin": self._close_stdin,
        }  # fmt: skip
        self.streams = {"Start": self._start, "Connect": self._connect}

    async def stream_input(self, record: Record, messages: AsyncIterator[dict[str, Any]]) -> dict[str, Any]:
        """A client's stream: which process it is for, then input in its order."""
        process: AsyncProcess | None = None
        async for message in messages:
            start, data = message.get("start"), message.get("data")
            if isinstance(start, dict):
                process = await self._selected(record, start)
            elif isinstance(data, dict):
                if process is None:
                    raise Failed("invalid_argument", "the stream begins with the process it is for")
                await process.send(_input(data))
        return {}

    # Streams

    async def _start(
        self, record: Record, asked: dict[str, Any], timeout: float | None
    ) -> AsyncIterator[bytes]:
        config, session = _object(asked, "process"), await self._all.session(record)
        command = [_text(config, "cmd"), *_texts(config.get("args"))]
        self._all.gateway.check_input(" ".join(command))
        envs = {str(name): str(value) for name, value in (config.get("envs") or {}).items()}
        directory = _directory(record, config.get("cwd"))
        if config.get("cwd"):
            await _check_directory(session, directory)
        process = await session.start(
            command,
            cwd=directory,
            env={"HOME": record.home, "USER": "user", **envs},
            pty=_size(asked.get("pty")),
            name=asked.get("tag") or None,
        )
        if asked.get("stdin") is False:
            with contextlib.suppress(NoSuchRun):  # it has ended already
                await process.close_stdin()
        live = self._all.live(record)
        if len(live.configs) >= _KNOWN:
            live.configs.clear()
        live.configs[process.id] = config
        if timeout is not None:
            live.hold(_killed_after(process, timeout))
        told = _Told(process.pid or 0, 0, process.pty is not None)
        async for piece in self._follow(session, process, told, timeout):
            yield piece

    async def _connect(
        self, record: Record, asked: dict[str, Any], timeout: float | None
    ) -> AsyncIterator[bytes]:
        session = await self._all.session(record)
        process = await self._selected(record, asked)
        told = _Told(process.pid or 0, process.written or 0, process.pty is not None)
        async for piece in self._follow(session, process, told, timeout):
            yield piece

    async def _follow(
        self, session: AsyncSession, process: AsyncProcess, told: _Told, timeout: float | None
    ) -> AsyncIterator[bytes]:
        """A process from now on, to its end or until the time is over."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        over = Failed("deadline_exceeded", f"the process ran for longer than {timeout or 0:g} seconds")
        yield frame({"event": {"start": {"pid": told.pid}}})
        while True:
            wait = min(_KEEPALIVE, deadline - time.monotonic())
            output = await process.output(told.since, max(wait, 0))
            for piece in told.pieces(output):
                yield piece
            if output.ended:
                break
            if time.monotonic() >= deadline:
                raise over
            if not output.pieces:
                yield frame({"event": {"keepalive": {}}})
        result = await process.wait()
        if result.signal is not None and time.monotonic() >= deadline:  # it was killed for that
            raise over
        if told.is_behind:
            async for piece in told.rest(session, result):
                yield piece
        yield frame({"event": {"end": _end(result)}})

    # Single ones

    async def _list(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        configs = self._all.live(record).configs
        session = await self._all.session(record)
        rows = []
        for process in await session.processes():
            if process.running and process.kind != "orphan":
                config = configs.get(process.id, {"cmd": process.command})
                tag = {"tag": process.name} if process.name else {}
                rows.append({"config": config, "pid": process.pid, **tag})
        return {"processes": rows}

    async def _update(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        size = _size(asked.get("pty"))
        if size is not None:
            await (await self._selected(record, asked)).resize(*size)
        return {}

    async def _send_input(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        await (await self._selected(record, asked)).send(_input(asked))
        return {}

    async def _send_signal(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        number = _SIGNALS.get(asked.get("signal", ""))
        if number is None:
            raise Failed("invalid_argument", "signal must be SIGNAL_SIGTERM or SIGNAL_SIGKILL")
        await (await self._selected(record, asked)).send_signal(number)
        return {}

    async def _close_stdin(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        await (await self._selected(record, asked)).close_stdin()
        return {}

    # Finding

    async def _selected(self, record: Record, asked: dict[str, Any]) -> AsyncProcess:
        """The running process that a message means."""
        session = await self._all.session(record)
        selector = _object(asked, "process")
        pid, tag = selector.get("pid"), selector.get("tag")
        for process in await session.processes():
            if (
                process.running
                and process.kind == "process"
                and (process.pid == pid if tag is None else process.name == tag)
            ):
                return process
        raise Failed(
            "not_found",
            f"process with {'pid' if tag is None else 'tag'} {pid if tag is None else tag} not found",
        )


class _Told:
    """What a client has been told of the output of a process.

    Args:
        pid: Of the process.
        since: The byte of its output from which on the client hears of it.
        terminal: Whether it has one.
    """

    def __init__(self, pid: int, since: int, terminal: bool) -> None:
        self.pid, self.since = pid, since
        self.is_behind = False
        """Whether output has come faster than it was taken, and is not kept any more: its files still have it."""
        self._from_start = since == 0
        self._names = {1: "pty" if terminal else "stdout", 2: "stderr"}
        self._sizes = {1: 0, 2: 0}

    def pieces(self, output: Output) -> Iterator[bytes]:
        """Frames of what is new."""
        missing = output.dropped
        self.since = output.next
        if missing > 0 and self._from_start and self._names[1] != "pty":
            self.is_behind = True
        elif missing > 0:
            yield self._frame(
                1, f"\r\n[limpet: {missing} bytes were written too fast to be shown]\r\n".encode()
            )
        if self.is_behind:
            return
        for stream, data in output.pieces:
            self._sizes[stream] += len(data)
            yield self._frame(stream, data)

    async def rest(self, session: AsyncSession, result: Result) -> AsyncIterator[bytes]:
        """Frames of what the client is behind with."""
        for stream, path, size in (
            (1, result.stdout_file, result.stdout_bytes),
            (2, result.stderr_file, result.stderr_bytes),
        ):
            at = self._sizes[stream]
            if path is None:
                text = result.stdout if stream == 1 else result.stderr
                yield self._frame(stream, text.encode()[at:])
                continue
            while data := await session.get(path, offset=at, size=_PIECE):
                at += len(data)
                yield self._frame(stream, data)
            if at < size:
                yield self._frame(stream, f"\n[limpet: {size - at} more bytes are not kept]\n".encode())

    def _frame(self, stream: int, data: bytes) -> bytes:
        return frame({"event": {"data": {self._names[stream]: base64.b64encode(data).decode()}}})


async def _check_directory(session: AsyncSession, directory: str) -> None:
    try:
        if (await session.files.stat(directory)).type != "file":
            return
    except (FileNotFoundError, NotADirectoryError):
        pass
    raise Failed("invalid_argument", f"cwd '{directory}' does not exist, or is no directory")


async def _killed_after(process: AsyncProcess, timeout: float) -> None:
    """Whoever started it may be gone by then."""
    await asyncio.sleep(timeout)
    await process.kill()


def _end(result: Result) -> dict[str, Any]:
    """How a process has ended, in Go's words."""
    if result.signal is not None:
        said = f"signal: {_WORDS.get(result.signal, result.signal)}"
        return {"exitCode": -1, "exited": False, "status": said, "error": said}
    code = result.exit_code or 0
    said = f"exit status {code}"
    return {"exitCode": code, "exited": True, "status": said, **({"error": said} if code else {})}


_WORDS = {2: "interrupt", 6: "aborted", 9: "killed", 11: "segmentation fault", 15: "terminated"}


def _input(asked: dict[str, Any]) -> bytes:
    given = _object(asked, "input")
    data = given.get("stdin", given.get("pty", ""))
    try:
        return base64.b64decode(data, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Failed("invalid_argument", "input must be base64") from None


def _size(pty: Any) -> tuple[int, int] | None:
    """Columns and rows of a terminal."""
    if pty is None:
        return None
    size = _object(pty, "size") if isinstance(pty, dict) else {}
    rows, columns = size.get("rows", 24), size.get("cols", 80)
    if not all(isinstance(each, int) and 0 < each < 65536 for each in (rows, columns)):
        raise Failed("invalid_argument", "the size of a terminal is 1 to 65535 rows and cols")
    return columns, rows


def _directory(record: Record, cwd: Any) -> str:
    """Where a process runs; relative to the home."""
    given = cwd if isinstance(cwd, str) else ""
    return given if given.startswith("/") else f"{record.home}/{given}".rstrip("/")


def _object(value: dict[str, Any], name: str) -> dict[str, Any]:
    given = value.get(name)
    if not isinstance(given, dict):
        raise Failed("invalid_argument", f"'{name}' is missing, or no object")
    return given


def _text(value: dict[str, Any], name: str) -> str:
    given = value.get(name)
    if not isinstance(given, str) or not given:
        raise Failed("invalid_argument", f"'{name}' is missing, or no text")
    return given


def _texts(value: Any) -> list[str]:
    if not all(isinstance(each, str) for each in value or []):
        raise Failed("invalid_argument", "'args' must be texts")
    return list(value or [])
