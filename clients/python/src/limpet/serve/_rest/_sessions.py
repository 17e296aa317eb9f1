"""Sessions: opened, listed, ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from ... import AsyncSession, SessionInfo
from .._gateway import OPTIONS
from ._call import Call
from ._operations import PREFIX, operation


class Rules(msgspec.Struct, forbid_unknown_fields=True):
    """What a session may connect to: names or addresses, with a port or 443, such as `*.example.org:8443`."""

    allow: list[str]


class Binding(msgspec.Struct, forbid_unknown_fields=True):
    """A name of the session's network, `http://NAME.limpet/`, behind which headers are added."""

    url: str
    headers: dict[str, str] = {}


class Reach(msgspec.Struct, forbid_unknown_fields=True):
    """A network, and bindings."""

    network: Literal["none"] | Rules = "none"
    bindings: dict[str, Binding] = {}


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
    network: str | Rules | None = None
    bindings: dict[str, Binding] | None = None
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


def options_of(body: msgspec.Struct, names: Iterable[str]) -> dict[str, Any]:
    """Those of the names that were given, as the client has them."""
    given = {name: msgspec.to_builtins(getattr(body, name)) for name in names}
    return {name: value for name, value in given.items() if value is not None}


@operation("POST", PREFIX + "/sessions", takes=Open, gives=Session, status=201, also={200: Session})
async def open_session(call: Call) -> Any:
    """Opens a session, or attaches to the one of that name."""
    options = options_of(call.body, OPTIONS)
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


@operation("PUT", PREFIX + "/sessions/{session}/network", takes=Reach, gives=Session)
async def set_network(call: Call) -> Any:
    """Replaces what the session may reach, at once."""
    reach = options_of(call.body, ("network", "bindings"))
    call.gateway.check_reach(reach)
    session = await call.session()
    await session.set_network(reach["network"], reach["bindings"])
    return shown(call.params["session"], session, False)


@operation("POST", PREFIX + "/sessions/{session}/sleep")
async def sleep(call: Call) -> None:
    """Saves the session with everything in it, and frees its memory. The next request wakes it."""
    await (await call.session()).sleep()


@operation("DELETE", PREFIX + "/sessions/{session}")
async def close_session(call: Call) -> None:
    """Ends a session with its files, or a branch."""
    await call.gateway.close(call.owner, call.params["session"])
