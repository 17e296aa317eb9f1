"""Variables: looked at, kept, gone back to, tried on the side."""

from __future__ import annotations

from typing import Any

import msgspec

from ... import BadRequest, NoSuchSession
from ..._protocol._requests import new_name
from ...state import Checkpoint, Committed, Rollback, Variable
from ._call import Call
from ._operations import PREFIX, operation
from ._sessions import Session, row_of, shown


class CheckpointRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A checkpoint to take."""

    name: str | None = None
    files: bool = False


class RollbackRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The id or the name of a checkpoint."""

    checkpoint: str


class BranchRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A branch to open."""

    name: str
    at: str | None = None
    """A checkpoint; by default the current state."""


class ForkRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Sessions to make: one of a name, or as many with random names."""

    name: str | None = None
    count: int = 1


class Forks(msgspec.Struct):
    """The sessions that were made."""

    sessions: list[Session]


class ContextRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A context to open."""

    name: str | None = None
    language: str | None = None
    cwd: str | None = None


class Names(msgspec.Struct):
    """Variables in the order they were bound, and how many were left out."""

    names: list[Variable]
    more: int


@operation(
    "POST", PREFIX + "/sessions/{session}/checkpoints", takes=CheckpointRequest, gives=Checkpoint, status=201
)
async def checkpoint(call: Call) -> Any:
    """Takes a checkpoint of the variables."""
    made = await (await call.session()).checkpoint(call.body.name, call.body.files)
    call.changed("checkpoints")
    return call.json(_own(call, made), 201)


@operation("GET", PREFIX + "/sessions/{session}/checkpoints", gives=dict[str, list[Checkpoint]])
async def list_checkpoints(call: Call) -> Any:
    """Lists the checkpoints of the session and its branches, oldest first."""
    return {"checkpoints": [_own(call, each) for each in await (await call.session()).checkpoints()]}


@operation("DELETE", PREFIX + "/sessions/{session}/checkpoints/{checkpoint}")
async def drop_checkpoint(call: Call) -> None:
    """Removes a checkpoint."""
    await (await call.session()).drop(call.params["checkpoint"])
    call.changed("checkpoints")


@operation("POST", PREFIX + "/sessions/{session}/rollback", takes=RollbackRequest, gives=Rollback)
async def rollback(call: Call) -> Any:
    """Goes back to the variables of a checkpoint, and to its files if it has them."""
    done = await (await call.session()).rollback(call.body.checkpoint)
    call.changed("rollback", session=call.params["session"], execution_count=done.execution_count)
    return done


@operation("POST", PREFIX + "/sessions/{session}/branches", takes=BranchRequest, gives=Session, status=201)
async def open_branch(call: Call) -> Any:
    """Opens the branch SESSION/NAME with the current variables, or those of a checkpoint."""
    branch = await (await call.session()).branch(call.body.name, call.body.at)
    call.changed("branches")
    return call.json(shown(call.gateway.name(call.owner, branch.name) or "", branch, True), 201)


@operation("GET", PREFIX + "/sessions/{session}/branches", gives=dict[str, list[dict[str, Any]]])
async def list_branches(call: Call) -> Any:
    """Lists the branches and contexts of the session."""
    base = (await call.session()).name.partition("/")[0]
    rows = await call.gateway.sessions(call.owner)
    return {"branches": [row_of(name, row) for name, row in rows if row.session.startswith(f"{base}/")]}


@operation("POST", PREFIX + "/sessions/{session}/branches/{branch}/commit", gives=Committed)
async def commit_branch(call: Call) -> Any:
    """Makes the variables of a branch those of the session, and ends the branch."""
    session = await call.session()
    try:
        done = await session.commit(f"{session.name}/{call.params['branch']}")
    except NoSuchSession:
        raise NoSuchSession(f"there is no branch '{call.params['branch']}'") from None
    finally:
        call.gateway.forget(call.owner, f"{call.params['session']}/{call.params['branch']}")
    call.changed("branches")
    return done


@operation("POST", PREFIX + "/sessions/{session}/forks", takes=ForkRequest, gives=Forks, status=201)
async def fork(call: Call) -> Any:
    """Makes sessions with copies of the variables and the files, in containers of their own: all, or none."""
    body: ForkRequest = call.body
    if body.name is not None and body.count != 1:
        raise BadRequest("a name is for one session: count is 1 then")
    names = [body.name] if body.name is not None else [new_name() for _ in range(body.count)]
    made = await call.gateway.fork(call.owner, await call.session(), names)
    return call.json(Forks([shown(name, each, True) for name, each in zip(names, made, strict=True)]), 201)


@operation(
    "POST", PREFIX + "/sessions/{session}/contexts", takes=ContextRequest, gives=Session, status=201,
    also={200: Session},
)  # fmt: skip
async def open_context(call: Call) -> Any:
    """Opens the context SESSION/NAME, variables of its own in Python or another language, or attaches to it."""
    body: ContextRequest = call.body
    context = await (await call.session()).context(body.name, body.language, body.cwd)
    call.changed("branches")
    said = shown(call.gateway.name(call.owner, context.name) or "", context, context.created)
    return call.json(said, 201 if context.created else 200)


@operation("GET", PREFIX + "/sessions/{session}/namespace", gives=Names)
async def namespace(call: Call) -> Any:
    """Lists the variables, without running any code of the session."""
    names = await (await call.session()).namespace()
    return Names(list(names), names.more)


def _own(call: Call, checkpoint: Checkpoint) -> dict[str, Any]:
    fields = msgspec.to_builtins(checkpoint)
    return {**fields, "session": call.gateway.name(call.owner, checkpoint.session)}
