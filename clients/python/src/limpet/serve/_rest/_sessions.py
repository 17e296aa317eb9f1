"""Sessions: opened, listed, ended."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ... import AsyncSession, SessionInfo
from .._gateway import OPTIONS
from ._call import Call
from ._operations import PREFIX, operation


class Open(msgspec.Struct, forbid_unknown_fields=True):
    """A session to open. Options that are not given are the gateway's and the controller's."""

    name: str | None = None
    timeout: float | None = None
    ttl: float | None = None
    memory: int | str | None = None
    cpus: float | None = None
    pids: int | None = None
    disk: int | str | None = None
    files: int | None = None
    env: dict[str, str] | None = None
    network: str | None = None
    image: str | None = None
    checkpoint: Literal["auto", "always", "off"] | None = None


class Session(msgspec.Struct):
    """A session that is open."""

    session: str
    instance: str
    created: bool
    engine: str
    language: str
    options: dict[str, Any]
    not_enforced: list[str]


def shown(name: str, session: AsyncSession, created: bool) -> Session:
    """What its owner sees of it: no path of this machine."""
    options = {key: value for key, value in session.options.items() if key != "data"}
    return Session(
        name, session.instance, created, session.engine, session.language, options, list(session.not_enforced)
    )


@operation("POST", PREFIX + "/sessions", takes=Open, gives=Session, status=201, also={200: Session})
async def open_session(call: Call) -> Any:
    """Opens a session, or attaches to the one of that name."""
    options = {name: getattr(call.body, name) for name in OPTIONS}
    session = await call.gateway.open(call.owner, call.body.name, options)
    name = call.gateway.name(call.owner, session.name) or ""
    call.noted["session"] = name
    said = shown(name, session, session.created)
    return call.json(said, 201 if session.created else 200)


@operation("GET", PREFIX + "/sessions", gives=dict[str, list[SessionInfo]])
async def list_sessions(call: Call) -> Any:
    """Lists your open sessions, their branches and contexts."""
    rows = await call.gateway.sessions(call.owner)
    return {"sessions": [row_of(name, row) for name, row in rows]}


def row_of(name: str, row: SessionInfo) -> dict[str, Any]:
    """A row under the name that its owner knows."""
    fields = msgspec.to_builtins(row)
    return {**fields, "session": name}


@operation("GET", PREFIX + "/sessions/{session}", gives=Session)
async def get_session(call: Call) -> Any:
    """Tells about one session, branch or context."""
    return shown(call.params["session"], await call.session(), False)


@operation("POST", PREFIX + "/sessions/{session}/sleep")
async def sleep(call: Call) -> None:
    """Saves the session with everything in it, and frees its memory. The next request wakes it."""
    await (await call.session()).sleep()


@operation("DELETE", PREFIX + "/sessions/{session}")
async def close_session(call: Call) -> None:
    """Ends a session with its files, or a branch."""
    await call.gateway.close(call.owner, call.params["session"])
