"""The tools for the state of the session: checkpoints and branches."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import mcp_types as types
from pydantic import Field

from . import _results
from ._calls import Call
from ._running import Arguments, Name


class TakeCheckpoint(Arguments):
    name: Name | None = Field(default=None, description="for rollback; by default an id is made")
    files: bool = Field(default=False, description="keep a copy of /session as well")


class RollBack(Arguments):
    checkpoint: str = Field(description="name or id of a checkpoint")


class UseBranch(Arguments):
    name: Name = Field(description="of the branch")
    action: Literal["open", "commit", "close"] = Field(
        default="open",
        description="open: variables of its own from here on, for run_python(branch=...). commit: its variables become "
        "those of the session, and it ends. close: it ends",
    )
    at: str | None = Field(
        default=None, description="with open: begin at this checkpoint, instead of the variables now"
    )


async def checkpoint(call: Call, given: TakeCheckpoint) -> types.CallToolResult:
    session = await call.place.session()
    taken = await call.place.call(session.checkpoint(given.name, given.files))
    text = f"Checkpoint {taken.name or taken.id} of the variables as call {taken.execution_count} left them"
    text += ", with a copy of /session." if taken.files else "; files are not in it."
    if taken.dropped:
        text += f" To make room these were removed: {', '.join(taken.dropped)}."
    return _results.of_text(text, {**dataclasses.asdict(taken), "dropped": list(taken.dropped)})


async def rollback(call: Call, given: RollBack) -> types.CallToolResult:
    session = await call.place.session()
    done = await call.place.call(session.rollback(given.checkpoint))
    files = "/session was restored too." if done.files == "restored" else "Files were not rolled back."
    text = f"The variables are as call {done.execution_count} left them. {files}"
    if done.not_restored:
        text += f" Not restored: {'; '.join(done.not_restored)}."
    return _results.of_text(text, {"state": "rolled_back", **dataclasses.asdict(done)})


async def branch(call: Call, given: UseBranch) -> types.CallToolResult:
    session = await call.place.session()
    whole = f"{session.name}/{given.name}"
    data: dict[str, Any] = {"branch": given.name, "action": given.action}
    if given.action == "open":
        opened = await call.place.call(session.branch(given.name, given.at))
        text = f"Branch {given.name} is open: run_python(branch={given.name!r}) uses its variables. Files are shared."
        return _results.of_text(text, {**data, "created": opened.created})
    if given.action == "commit":
        done = await call.place.call(session.commit(whole))
        assert done is not None
        text = f"The variables of the session are those of {given.name} now, which has ended."
        return _results.of_text(text, {**data, **dataclasses.asdict(done)})
    await call.place.call(call.place.client.close_session(whole))
    return _results.of_text(f"Branch {given.name} has ended.", data)
