"""Every request about processes: its body and how its reply is read."""

from __future__ import annotations

import re
import signal as signals
from typing import Any

from ..errors import BadRequest
from ..processes import Output, ProcessRow
from . import _wire
from ._requests import Body, Request, field, given, new_run_id

Size = tuple[int, int]  # columns and rows

_DEFAULT_SIZE = (80, 24)
_TERMINAL = "xterm-256color"


def start(program: Body, name: str | None, pty: bool | Size | None, run_id: str) -> Request[str]:
    size = _DEFAULT_SIZE if pty is True else pty or None
    if size is not None:
        program = {
            **program,
            "env": {"TERM": _TERMINAL, **program.get("env", {})},
            "terminal": terminal(*size),
        }
    body = {**program, **given(name=name), "run_id": run_id}
    return Request(_wire.START, body, lambda body: str(field(body, "run_id")))


def terminal(columns: int, rows: int) -> Body:
    return {"rows": rows, "columns": columns}


def is_id(process: str) -> bool:
    """Whether it is an id, and no name."""
    return re.fullmatch(r"[0-9a-f]{32}", process) is not None


def signal_number(signal: str | int) -> int:
    """Of a signal by its number, or by its name with or without SIG."""
    if isinstance(signal, int):
        return int(signal)
    name = f"SIG{signal.upper().removeprefix('SIG')}"
    if name not in signals.Signals.__members__:
        raise BadRequest(
            f"there is no signal {signal!r}; a signal has a name such as INT, or a number of 1 to 64"
        )
    return signals.Signals[name].value


def processes() -> Request[list[ProcessRow]]:
    return Request(
        _wire.PROCESSES, {}, lambda body: [ProcessRow.from_wire(row) for row in field(body, "processes")]
    )


def output(process: str, since: int, timeout: float | None) -> Request[Output]:
    return _ask(
        process, "output", given(since=since, timeout=timeout), lambda body: Output.from_wire(body, since)
    )


def send(process: str, data: bytes, end: bool) -> Request[None]:
    """What is sent has a key: asked again, it is not sent twice."""
    return _ask(process, "send", {"key": new_run_id(), "data": data, "end": end}, _nothing)


def signal(process: str, number: int, alone: bool) -> Request[None]:
    return _ask(process, "signal", {"number": number, "alone": alone}, _nothing, once="signal")


def resize(process: str, columns: int, rows: int) -> Request[None]:
    return _ask(process, "resize", terminal(columns, rows), _nothing)


def _ask(process: str, what: str, body: Body, read: Any, once: str | None = None) -> Request[Any]:
    return Request(_wire.PROCESS, {"ask": {"process": process, what: body}}, read, once)


def _nothing(body: Body) -> None:
    return None
