"""Running code and commands."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ... import BadRequest, Result
from ..._requests import new_run_id
from .._keys import Owner
from .._runs import Run
from ._call import Call, events
from ._operations import PREFIX, operation

_RUN_ID = re.compile(r"[0-9a-f]{32}\Z")


class RunRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Code to run."""

    code: str
    timeout: float | None = None
    run_id: str | None = None
    on_error: Literal["keep", "rollback"] = "keep"
    language: str | None = None
    input: bool = False
    tools: list[str] = []


@operation("POST", PREFIX + "/sessions/{session}/run", takes=RunRequest, gives=Result, streams="accepted")
async def run(call: Call) -> Any:
    """Runs code in the session and returns the record of the call."""
    body: RunRequest = call.body
    call.gateway.check_input(body.code)
    session = await call.session()
    run_id = checked_run_id(body.run_id)
    call.noted["run_id"] = run_id

    async def begin(run: Run) -> Result:
        run.begun("python", session=call.params["session"], code=body.code)
        return await session.run(
            body.code, body.timeout, run_id=run_id, on_error=body.on_error, language=body.language,
            on_stdout=run.on_stdout, on_stderr=run.on_stderr, on_display=run.on_display,
            tools=run.questions.asks(body.input, body.tools),
        )  # fmt: skip

    started = call.gateway.runs.start(
        call.owner, run_id, session.name, body, begin, lambda result: shown(call, call.owner, result)
    )
    return await delivered(call, started)


async def delivered(call: Call, run: Run) -> Any:
    """The record, or the events until then."""
    if call.wants_events:
        return events(run.log.follow(run.log.after(call.last_event_id)))
    await run.done
    if run.problem is not None:
        raise run.problem
    return run.record


def checked_run_id(given: str | None) -> str:
    """A new one where none was given. Raises BadRequest."""
    if given is None:
        return new_run_id()
    if not _RUN_ID.match(given):
        raise BadRequest("run_id has to be 32 hexadecimal digits in lower case")
    return given


def shown(call: Call, owner: Owner, result: Result) -> dict[str, Any]:
    """The record as its owner sees it: its own name of the session, and addresses instead of paths of this machine."""
    record = result.to_dict()
    if result.session is not None:
        record["session"] = call.gateway.name(owner, result.session)
    return record
