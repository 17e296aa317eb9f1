"""Processes of a session that run in the background: what is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .errors import ProtocolMismatch
from .results import Result

ProcessKind = Literal["process", "command", "orphan"]


@dataclass(frozen=True)
class ProcessInfo:
    """A process of a session, as :meth:`Session.processes` lists it."""

    id: str | None
    """What ``start`` returned; of a command its ``run_id``; None of an orphan."""
    name: str | None
    """As ``start`` had it."""
    kind: ProcessKind
    """``process`` of ``start``; ``command`` of ``exec``; ``orphan``: left behind by one of these, which has ended."""
    pid: int
    """In the container."""
    command: str
    """Its line, or its program and arguments, cut short."""
    running: bool
    """False when it has ended."""
    terminal: bool
    """Whether it has one."""
    age: float | None
    """Seconds since it was started."""
    exit_code: int | None
    """When it has ended by itself."""
    signal: int | None
    """Number of the signal that ended it."""
    output: int | None
    """Bytes it has written so far; None unless ``kind`` is ``process``."""

    @classmethod
    def from_wire(cls, row: Mapping[str, Any]) -> ProcessInfo:
        """From the body of a reply."""
        try:
            return cls(
                row.get("run_id"),
                row.get("name"),
                row["kind"],
                int(row["pid"]),
                row["command"],
                bool(row.get("running")),
                bool(row.get("terminal")),
                row.get("age"),
                row.get("exit_code"),
                row.get("signal"),
                row.get("output"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolMismatch(f"a process is malformed: {error!r}") from error


@dataclass(frozen=True)
class Output:
    """Part of what a process has written to both of its streams."""

    since: int
    """Where it begins, in bytes of all that was written. More than what was asked for: the rest is not kept."""
    next: int
    """Where it ends: ``since`` of the next question."""
    ended: bool
    """Whether the process has ended and nothing follows."""
    pieces: tuple[tuple[int, bytes], ...]
    """Stream (1: standard output, and all of a terminal; 2: standard error) and data, in the order written."""

    @property
    def stdout(self) -> str:
        """What of it was written to standard output, or to the terminal."""
        return self._text(1)

    @property
    def stderr(self) -> str:
        """What of it was written to standard error."""
        return self._text(2)

    @property
    def text(self) -> str:
        """Both streams in their order."""
        return b"".join(data for _, data in self.pieces).decode("utf-8", "replace")

    def _text(self, stream: int) -> str:
        return b"".join(data for each, data in self.pieces if each == stream).decode("utf-8", "replace")

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> Output:
        """From the body of a reply."""
        try:
            pieces = tuple((int(row["stream"]), bytes(row["data"])) for row in body["pieces"])
            return cls(int(body["since"]), int(body["next"]), bool(body["ended"]), pieces)
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolMismatch(f"the output of a process is malformed: {error!r}") from error

    @classmethod
    def from_result(cls, result: Result, since: int) -> Output:
        """The rest of a process of which only the result is left, as far as that tells where it begins."""
        total = result.stdout_bytes + result.stderr_bytes
        known = [(1, result.stdout.encode()), (2, result.stderr.encode())]
        pieces = [(stream, data) for stream, data in known if data]
        if since == 0 and not result.truncated:
            return cls(0, total, True, tuple(pieces))
        if len(pieces) == 1 and len(pieces[0][1]) == total and since < total:
            ((stream, data),) = pieces
            return cls(since, total, True, ((stream, data[since:]),))
        return cls(total, total, True, ())
