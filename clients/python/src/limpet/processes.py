"""Processes of a session that run in the background: what is told of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .errors import ProtocolMismatch
from .results import Result

ProcessKind = Literal["process", "command", "orphan"]


@dataclass(frozen=True)
class ProcessRow:
    """What a reply says of a process. The fields are those of :class:`Process`."""

    id: str
    name: str | None
    kind: ProcessKind
    pid: int | None
    command: str
    running: bool
    pty: tuple[int, int] | None
    created: float | None
    exit_code: int | None
    signal: int | None
    written: int | None

    @classmethod
    def from_wire(cls, row: Mapping[str, Any]) -> ProcessRow:
        """From a row of the body of a reply."""
        try:
            age = row.get("age")
            return cls(
                row.get("run_id") or str(row["pid"]),
                row.get("name"),
                row["kind"],
                int(row["pid"]),
                row["command"],
                bool(row.get("running")),
                (int(row["columns"]), int(row["rows"])) if row.get("columns") else None,
                None if age is None else time.time() - age,
                row.get("exit_code"),
                row.get("signal"),
                row.get("output"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolMismatch(f"a process is malformed: {error!r}") from error

    @classmethod
    def from_result(cls, result: Result) -> ProcessRow:
        """Of a process that has ended and of which only the result is left."""
        written = result.stdout_bytes + result.stderr_bytes
        return cls(
            result.run_id,
            None,
            "process",
            None,
            "",
            False,
            None,
            None,
            result.exit_code,
            result.signal,
            written,
        )


@dataclass(frozen=True)
class Output:
    """Part of what a process has written to both of its streams."""

    since: int
    """Where it begins, in bytes of all that was written."""
    next: int
    """Where it ends: ``since`` of the next question."""
    ended: bool
    """Whether the process has ended and nothing follows."""
    pieces: tuple[tuple[int, bytes], ...]
    """Stream (1: standard output, and all of a terminal; 2: standard error) and data, in the order written."""
    dropped: int
    """Bytes between ``since`` of the question and the beginning of this, which are no longer kept."""

    @property
    def data(self) -> bytes:
        """Both streams, in the order written."""
        return b"".join(data for _, data in self.pieces)

    @property
    def stdout(self) -> str:
        """The part written to standard output, or to the terminal."""
        return self._text(1)

    @property
    def stderr(self) -> str:
        """The part written to standard error."""
        return self._text(2)

    @property
    def text(self) -> str:
        """Both streams in their order."""
        return self.data.decode("utf-8", "replace")

    def _text(self, stream: int) -> str:
        return b"".join(data for each, data in self.pieces if each == stream).decode("utf-8", "replace")

    @classmethod
    def from_wire(cls, body: Mapping[str, Any], asked: int) -> Output:
        """From the body of a reply to a question from that place on."""
        try:
            pieces = tuple((int(row["stream"]), bytes(row["data"])) for row in body["pieces"])
            since = int(body["since"])
            return cls(since, int(body["next"]), bool(body["ended"]), pieces, max(since - asked, 0))
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolMismatch(f"the output of a process is malformed: {error!r}") from error

    @classmethod
    def from_result(cls, result: Result, since: int) -> Output:
        """The rest of a process of which only the result is left, as far as that tells where it begins."""
        total = result.stdout_bytes + result.stderr_bytes
        known = [(1, result.stdout.encode()), (2, result.stderr.encode())]
        pieces = tuple((stream, data) for stream, data in known if data)
        if since == 0 and not result.truncated:
            return cls(0, total, True, pieces, 0)
        if len(pieces) == 1 and len(pieces[0][1]) == total and since < total:
            ((stream, data),) = pieces
            return cls(since, total, True, ((stream, data[since:]),), 0)
        return cls(total, total, True, (), max(total - since, 0))
