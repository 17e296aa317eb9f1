"""Processes in the background."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from ... import NoSuchRun
from ..._async.processes import AsyncProcess
from ...processes import ProcessKind
from .._plain import encode
from ._call import Call, events
from ._events import OF_PROCESS
from ._operations import PREFIX, Query, operation
from ._records import checked_run_id

_OF = PREFIX + "/sessions/{session}/processes"
_BEAT = 15.0  # seconds after which a reader hears that there is nothing new
_SINCE = Query("since", int, "Bytes that are known already: `next` of the output before.")


class StartRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A program to start: a line for bash, or a program and its arguments."""

    command: str | list[str]
    cwd: str | None = None
    env: dict[str, str] | None = None
    stdin: str | None = None
    pty: bool | tuple[int, int] | None = None
    """A terminal of its own: true, or its columns and rows."""
    name: str | None = None
    run_id: str | None = None


class Started(msgspec.Struct):
    """A process."""

    id: str


class Listed(msgspec.Struct):
    """A process, as it is."""

    id: str
    """Of a command its `run_id`, of an orphan its pid."""
    name: str | None
    kind: ProcessKind
    """`process` that was started here; `command` of `exec`; `orphan`: left behind by one of these, which has ended."""
    pid: int | None
    """In the container."""
    command: str
    """Its line, or its program and arguments, cut short."""
    running: bool
    terminal: bool
    created: float | None
    """Unix time; null of an orphan."""
    exit_code: int | None
    signal: int | None
    """Number of the signal that ended it."""
    output: int | None
    """Bytes it has written so far."""


class Piece(msgspec.Struct):
    """What a process wrote: 1 is standard output, 2 standard error."""

    stream: int
    data: bytes
    """base64"""


class Written(msgspec.Struct):
    """Part of what a process has written."""

    since: int
    next: int
    ended: bool
    pieces: list[Piece]


class InputRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What is typed."""

    text: str = ""
    data: bytes = b""
    """base64, for what is not text"""
    close: bool = False
    """Whether nothing follows."""


class SignalRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A signal by its name or number."""

    signal: str | int = "TERM"


class Size(msgspec.Struct, forbid_unknown_fields=True):
    """Of a terminal, in characters."""

    rows: int
    columns: int


@operation("POST", _OF, takes=StartRequest, gives=Started, status=201)
async def start_process(call: Call) -> Any:
    """Starts a program in the background."""
    body: StartRequest = call.body
    call.gateway.check_input(body.command if isinstance(body.command, str) else " ".join(body.command))
    process = await (await call.session()).start(
        body.command,
        cwd=body.cwd,
        env=body.env,
        stdin=body.stdin,
        pty=body.pty,
        name=body.name,
        run_id=checked_run_id(body.run_id),
    )
    call.changed("processes")
    return call.json(Started(process.id), 201)


@operation("GET", _OF, gives=dict[str, list[Listed]])
async def list_processes(call: Call) -> Any:
    """Lists the commands and processes that run, and processes that ended lately."""
    return {"processes": [_listed(each) for each in await (await call.session()).processes()]}


@operation(
    "GET", _OF + "/{process}/output", gives=Written, streams="accepted", events=OF_PROCESS,
    query=(_SINCE, Query("timeout", float, "Seconds to wait for more when there is none.")),
)  # fmt: skip
async def process_output(call: Call) -> Any:
    """What a process has written, from a place on; as events, until its end."""
    process = await _process(call)
    if call.wants_events:
        last = call.last_event_id or ""
        return events(
            call, _follow(call, process, int(last) if last.isdigit() else int(call.number("since", 0)))
        )
    output = await process.output(int(call.number("since", 0)), call.number("timeout", 0))
    pieces = [Piece(stream, data) for stream, data in output.pieces]
    return Written(output.since, output.next, output.ended, pieces)


@operation("POST", _OF + "/{process}/input", takes=InputRequest)
async def send_input(call: Call) -> None:
    """Writes to the standard input of a process, or types into its terminal."""
    process, body = await _process(call), call.body
    data = body.text.encode("utf-8", "surrogatepass") + body.data
    if data:
        await process.send(data)
    if body.close:
        await process.close_stdin()


@operation("POST", _OF + "/{process}/signal", takes=SignalRequest)
async def send_signal(call: Call) -> None:
    """Sends a signal to a process and what it has started."""
    await (await _process(call)).send_signal(call.body.signal)
    call.changed("processes")


@operation("POST", _OF + "/{process}/resize", takes=Size)
async def resize(call: Call) -> None:
    """Gives the terminal of a process another size."""
    await (await _process(call)).resize(call.body.columns, call.body.rows)


async def _process(call: Call) -> AsyncProcess:
    """The one that the path names by id or name, if it is one of this session."""
    session, which = await call.session(), call.params["process"]
    if not which.isprintable():
        raise NoSuchRun("there is no such process")
    return await session.process(which)


def _listed(process: AsyncProcess) -> Listed:
    return Listed(
        process.id, process.name, process.kind, process.pid, process.command, process.running,
        process.pty is not None, process.created, process.exit_code, process.signal, process.written,
    )  # fmt: skip


async def _follow(call: Call, process: AsyncProcess, since: int) -> AsyncIterator[bytes]:
    """Events `output`, with how far they go as their id, and `end`. At times an empty comment."""
    while True:
        output = await call.gateway.unless_ending(process.output(since, _BEAT))
        if output is None:
            return
        since = output.next
        for number, (stream, data) in enumerate(output.pieces, 1):
            said = encode({"stream": stream, "data": base64.b64encode(data).decode(), "next": since})
            mark = b"id: %d\n" % since if number == len(output.pieces) else b""
            yield b"%sevent: output\ndata: %s\n\n" % (mark, said)
        if output.ended:
            yield b"event: end\ndata: {}\n\n"
            return
        if not output.pieces:
            yield b":\n\n"
