"""Running code and commands."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from typing import Any, Literal

import msgspec

from ... import NoSuchRun, Result
from ..._adapters.cells import translated
from ..._protocol._options import CONTAINER_OPTIONS
from .._gateway import OPTIONS
from .._plain import encode
from .._runs import Run
from ._call import Call, events
from ._events import OF_CALL, OF_SESSION
from ._operations import PREFIX, Query, operation
from ._records import checked_run_id, inner_run_id, show
from ._sessions import Binding, Rules, options_of

_WAIT = 3600.0  # seconds for which a record is waited for at most


class RunRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Code to run."""

    code: str
    timeout: float | None = None
    run_id: str | None = None
    on_error: Literal["keep", "rollback"] = "keep"
    language: str | None = None
    notebook: bool = False
    """Whether the code may have commands of notebooks, such as `!ls` and `%time f()`."""
    input: bool = False
    """Whether input() asks: an event `ask`, which POST .../answers answers."""
    tools: list[str] = []
    """Functions that the code may call as limpet_tools.NAME(): an event `ask` each time."""


class AloneRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Code to run in a clean container."""

    code: str
    timeout: float | None = None
    run_id: str | None = None
    input: bool = False
    tools: list[str] = []
    memory: int | str | None = None
    cpus: float | None = None
    pids: int | None = None
    disk: int | str | None = None
    files: int | None = None
    env: dict[str, str] | None = None
    network: str | Rules | None = None
    bindings: dict[str, Binding] | None = None
    image: str | None = None


class ExecRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A command to run: a line for bash, or a program and its arguments."""

    command: str | list[str]
    cwd: str | None = None
    env: dict[str, str] | None = None
    timeout: float | None = None
    stdin: str | None = None
    run_id: str | None = None


class Which(msgspec.Struct, forbid_unknown_fields=True):
    """A call; without one, the cell that runs."""

    run_id: str | None = None


class Running(msgspec.Struct):
    """A call that has not ended."""

    run_id: str
    status: Literal["running"]


class Interrupted(msgspec.Struct):
    """What became of it."""

    interrupted: bool


class AnswerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The answer to a question: `line` for input(), `value` or `error` for a tool."""

    run_id: str
    ask: int
    line: str | None | msgspec.UnsetType = msgspec.UNSET
    value: Any = msgspec.UNSET
    error: dict[str, str] | None | msgspec.UnsetType = msgspec.UNSET


@operation(
    "POST", PREFIX + "/sessions/{session}/run", takes=RunRequest, gives=Result, streams="accepted", events=OF_CALL
)  # fmt: skip
async def run(call: Call) -> Any:
    """Runs code in the session and returns the record of the call."""
    body: RunRequest = call.body
    call.gateway.check_input(body.code)
    call.gateway.check_timeout(body.timeout)
    session = await call.session()
    run_id = call.noted["run_id"] = checked_run_id(body.run_id)

    code = translated(body.code) if body.notebook and body.language is None else body.code

    async def begin(run: Run) -> Result:
        run.begun("python", session=call.params["session"], code=body.code, language=body.language)
        return await session.run(
            code, body.timeout, run_id=run_id, on_error=body.on_error, language=body.language,
            on_stdout=run.on_stdout, on_stderr=run.on_stderr, on_display=run.on_display,
            tools=run.questions.asks(body.input, body.tools),
        )  # fmt: skip

    return await _delivered(call, _start(call, run_id, session.name, begin))


@operation(
    "POST", PREFIX + "/run", takes=AloneRequest, gives=Result, streams="accepted", events=OF_CALL
)  # fmt: skip
async def run_alone(call: Call) -> Any:
    """Runs code in a clean container, which is removed afterwards."""
    body: AloneRequest = call.body
    call.gateway.check_input(body.code)
    call.gateway.check_timeout(body.timeout)
    options = call.gateway.within_limits(options_of(body, CONTAINER_OPTIONS.intersection(OPTIONS)))
    options = {**call.gateway.container_defaults(), **options}
    run_id = call.noted["run_id"] = checked_run_id(body.run_id)
    if call.gateway.runs.known(call.owner, run_id) is None:
        await call.gateway.check_count(call.owner)

    async def begin(run: Run) -> Result:
        return await call.gateway.client.run(
            body.code, body.timeout, run_id=run.inner, on_stdout=run.on_stdout, on_stderr=run.on_stderr,
            on_display=run.on_display, tools=run.questions.asks(body.input, body.tools), **options,
        )  # fmt: skip

    return await _delivered(call, _start(call, run_id, None, begin, inner_run_id(call.owner, run_id)))


@operation(
    "POST", PREFIX + "/sessions/{session}/exec", takes=ExecRequest, gives=Result, streams="accepted", events=OF_CALL
)  # fmt: skip
async def exec_command(call: Call) -> Any:
    """Runs a command beside the code of the session and returns its record."""
    body: ExecRequest = call.body
    call.gateway.check_input(body.command if isinstance(body.command, str) else " ".join(body.command))
    call.gateway.check_timeout(body.timeout)
    session = await call.session()
    run_id = call.noted["run_id"] = checked_run_id(body.run_id)

    async def begin(run: Run) -> Result:
        run.begun("command", session=call.params["session"], code=body.command)
        return await session.exec(
            body.command, cwd=body.cwd, env=body.env, timeout=body.timeout, stdin=body.stdin, run_id=run_id,
            on_stdout=run.on_stdout, on_stderr=run.on_stderr,
        )  # fmt: skip

    return await _delivered(call, _start(call, run_id, session.name, begin))


@operation("POST", PREFIX + "/sessions/{session}/interrupt", takes=Which, gives=Interrupted)
async def interrupt(call: Call) -> Any:
    """Interrupts the cell that runs, or the call of a run_id."""
    session = await call.session()
    if call.body.run_id is None:
        return Interrupted(await session.interrupt())
    run = await find(call, call.body.run_id)
    if run.place is not None and run.place.partition("/")[0] != session.name.partition("/")[0]:
        raise NoSuchRun("no call of this session has this run_id")
    return Interrupted(await call.gateway.client.interrupt(run.inner))


@operation("POST", PREFIX + "/runs/{run_id}/interrupt", gives=Interrupted)
async def interrupt_run(call: Call) -> Any:
    """Interrupts a call, also one without a session."""
    run = await find(call, call.params["run_id"])
    return Interrupted(await call.gateway.client.interrupt(run.inner))


@operation("POST", PREFIX + "/sessions/{session}/reset")
async def reset(call: Call) -> None:
    """Ends the running call and starts a new interpreter. Files are kept."""
    await (await call.session()).reset()
    call.changed("reset", session=call.params["session"])


@operation("POST", PREFIX + "/sessions/{session}/answers", takes=AnswerRequest)
async def answer_question(call: Call) -> None:
    """Answers what the code of a call asks."""
    session = await call.session()
    run = call.gateway.runs.known(call.owner, call.body.run_id)
    if run is None or run.place is None or run.place.partition("/")[0] != session.name.partition("/")[0]:
        raise NoSuchRun("no call of this session has this run_id")
    _answer(call, run)


@operation("POST", PREFIX + "/runs/{run_id}/answers", takes=AnswerRequest)
async def answer_alone(call: Call) -> None:
    """Answers what the code of a call without a session asks."""
    run = call.gateway.runs.known(call.owner, call.params["run_id"])
    if run is None or run.place is not None or call.body.run_id != run.run_id:
        raise NoSuchRun("no call without a session has this run_id")
    _answer(call, run)


@operation(
    "GET", PREFIX + "/runs/{run_id}", gives=Result, also={202: Running},
    query=(Query("timeout", float, "Seconds to wait for a call that runs; it is answered with 202 after that."),),
)  # fmt: skip
async def get_run(call: Call) -> Any:
    """Returns the record of a call, also of one that another gateway began."""
    run = await find(call, call.params["run_id"])
    await asyncio.wait([run.done], timeout=min(call.number("timeout", _WAIT), _WAIT))
    if not run.done.done():
        return call.json(Running(run.run_id, "running"), 202)
    return await _delivered(call, run, stream=False)


@operation(
    "GET", PREFIX + "/runs/{run_id}/events", streams="always", events=OF_CALL,
    query=(Query("last_event_id", str, "As the header Last-Event-ID, for those who cannot send one."),),
)  # fmt: skip
async def get_run_events(call: Call) -> Any:
    """The events of a call, from the one after Last-Event-ID on, until its result."""
    run = await find(call, call.params["run_id"])
    return events(call, run.log.follow(run.log.after(call.last_event_id)))


@operation(
    "GET", PREFIX + "/sessions/{session}/events", streams="always", events=OF_SESSION,
    query=(Query("last_event_id", str, "As the header Last-Event-ID, for those who cannot send one."),),
)  # fmt: skip
async def get_session_events(call: Call) -> Any:
    """What happens in a session: the calls that users of this gateway make there, with all their events."""
    feed = call.gateway.runs.feed(call.owner, (await call.session()).name)
    return events(call, feed.follow(feed.after(call.last_event_id)))


async def find(call: Call, run_id: str) -> Run:
    """A call of this owner. Raises NoSuchRun."""
    known = call.gateway.runs.known(call.owner, checked_run_id(run_id))
    if known is not None:
        return known
    for asked in dict.fromkeys((run_id, inner_run_id(call.owner, run_id))):
        try:
            result = await call.gateway.result(call.owner, asked, 0)
        except NoSuchRun:
            continue
        if result is not None and not _is_own(call, asked, run_id, result):
            continue

        return _start(
            call,
            run_id,
            None if result is None else result.session,
            functools.partial(_found, call, asked, result),
            asked,
        )
    raise NoSuchRun(f"no running or stored call of yours has the id {run_id}")


async def _found(call: Call, asked: str, result: Result | None, run: Run) -> Result:
    """The record of a call that somebody else has begun."""
    waited = result if result is not None else await call.gateway.result(call.owner, asked)
    if waited is None or not _is_own(call, asked, run.run_id, waited):
        raise NoSuchRun(f"no running or stored call of yours has the id {run.run_id}")
    return waited


def _is_own(call: Call, asked: str, run_id: str, result: Result) -> bool:
    """Of one without a session the id says whose it is."""
    if result.session is None:
        return asked == inner_run_id(call.owner, run_id)
    return call.gateway.name(call.owner, result.session) is not None


def _start(call: Call, run_id: str, place: str | None, begin: Any, inner: str | None = None) -> Run:
    gateway, owner = call.gateway, call.owner
    return gateway.runs.start(
        owner,
        run_id,
        place,
        hashlib.sha256(encode(call.body)).digest() if call.operation.takes else None,
        begin,
        lambda result: show(gateway, owner, run_id, result),
        inner,
    )


async def _delivered(call: Call, run: Run, stream: bool = True) -> Any:
    """The record, or the events until then."""
    if stream and call.wants_events:
        await asyncio.sleep(0)  # the controller is asked before the client is told that events follow
        return events(call, run.log.follow(run.log.after(call.last_event_id)))
    await run.done
    if run.problem is not None:
        raise run.problem
    return run.record


def _answer(call: Call, run: Run) -> None:
    given = {
        name: getattr(call.body, name)
        for name in ("line", "value", "error")
        if getattr(call.body, name) is not msgspec.UNSET
    }
    call.noted["run_id"] = run.run_id
    run.questions.answer(call.body.ask, given)
