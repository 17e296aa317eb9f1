"""The variables follow the conversation when a graph goes back to an earlier point of a thread.

A position is kept in the state of the graph after each call: which call of which life of the session it was,
and a checkpoint of the variables as they were then. A call begins by comparing the position its history ends
with to where the session really is. All that is needed to tell is in the graph's state and in the names of the
session's checkpoints, so it also holds for a process that was started anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command
from typing_extensions import NotRequired

from .. import Checkpoint, Error, NoSuchCheckpoint
from ._both import AnyClient, finish, settled
from ._content import with_note
from ._tool import CodeSandbox

KEY = "code_sandbox_position"
Positions = dict[str, Any]
"""By the name of the tool: where its last call has left its session."""

_CALL = "rewind-{step.batch}.{base}-{step.call}-{mark.epoch}.{mark.number}"
_START = "rewind-start-{mark.epoch}.{mark.number}"
_NAME = re.compile(r"rewind-(?:start|([0-9a-f]+)\.(\d+)-([0-9a-f]+))-(\d+)\.(\d+)")

_GONE = "SESSION ENDED: the session of this conversation ended; its variables, imports and files are gone."
_CANNOT = (
    "NOT REWOUND: this conversation went back to an earlier point, but the variables did not: they are those of a "
    "later or another call. {why} Check the variables that you rely on."
)
_BACK = (
    "REWOUND: before this call, the variables were restored to {point}; later changes by other calls are "
    "undone. Files were {files}restored."
)


def newest(old: Positions | None, new: Positions | None) -> Positions:
    """Of calls that one tool made side by side, the one that ran last."""
    return {**(old or {}), **{tool: _newer((old or {}).get(tool), at) for tool, at in (new or {}).items()}}


def _newer(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    if old and old["instance"] == new["instance"] and old["execution_count"] > new["execution_count"]:
        return old
    return new


class RewindState(AgentState[Any]):
    """State of an agent with :class:`Rewind`; the base of the state of your own graph."""

    code_sandbox_position: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, newest]]


class Mark(NamedTuple):
    """A state of the variables: no two of one life of a session have the same."""

    epoch: int
    number: int


class Step(NamedTuple):
    """A call of the model: those of one message run side by side, from the same point of the history."""

    batch: str
    call: str


@dataclass(frozen=True)
class Kept:
    """One of our checkpoints, as its name tells."""

    checkpoint: Checkpoint
    step: Step | None
    """None at the start of the thread."""
    base: int
    """The epoch in which the first call of its batch began."""
    mark: Mark


class Rewind(AgentMiddleware[RewindState, Any]):
    """Restores the variables of a session when its thread is resumed from an earlier checkpoint.

    Use it as ``create_agent(..., middleware=[Rewind(sandbox)])``. A graph of your own derives its state from
    :class:`RewindState` and uses ``ToolNode([sandbox], wrap_tool_call=rewind.wrap_tool_call,
    awrap_tool_call=rewind.awrap_tool_call)``. A session has one history: calls from elsewhere, such as another graph
    with the same ``thread_id``, are undone.

    Args:
        sandbox: The tool.
        keep: Number of calls that can be undone. A session has at most 64 checkpoints, and its memory bounds them.
        files: Whether to keep and restore ``/session`` as well.
    """

    state_schema = RewindState

    def __init__(self, sandbox: CodeSandbox, *, keep: int = 32, files: bool = False) -> None:
        super().__init__()
        if not isinstance(sandbox, CodeSandbox):
            raise TypeError(f"Rewind needs the tool returned by code_sandbox(), not {sandbox!r}")
        if "pinned" not in sandbox._kinds:
            raise ValueError(
                'Rewind needs a tool with session="pinned"; ephemeral calls keep nothing to restore'
            )
        if not 1 <= keep <= 60:
            raise ValueError(f"keep must be from 1 to 60, not {keep!r}")
        self._sandbox = sandbox
        self._keep = keep
        self._files = files

    @property
    def name(self) -> str:
        """Of the middleware: one for each tool of an agent."""
        return f"Rewind[{self._sandbox.name}]"

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> ToolMessage | Command[Any]:
        name = self._session_of(request)
        if name is None:
            return handler(request)  # type: ignore[no-any-return]
        client = self._sandbox._clients.blocking()
        return finish(self._wrap(client, name, request, handler))

    async def awrap_tool_call(
        self, request: Any, handler: Callable[[Any], Any]
    ) -> ToolMessage | Command[Any]:
        name = self._session_of(request)
        if name is None:
            return await handler(request)  # type: ignore[no-any-return]
        client = await self._sandbox._clients.of_this_loop()
        return await self._wrap(client, name, request, handler)

    def _session_of(self, request: Any) -> str | None:
        """None for other tools, and for calls in a clean container."""
        if request.tool_call["name"] != self._sandbox.name:
            return None
        kind = request.tool_call["args"].get("session")
        return self._sandbox._pinned_name(kind, request.runtime.config)

    async def _wrap(
        self, client: AnyClient, name: str, request: Any, handler: Callable[[Any], Any]
    ) -> ToolMessage | Command[Any]:
        position = _positions_of(request.state).get(self._sandbox.name)
        step = _step(request, position)
        async with self._sandbox._order.turn(client, name, request.state, str(request.tool_call["id"])):
            try:
                session = await self._sandbox._open(client, name, request.runtime.config)
            except Error:
                return await settled(handler(request))  # type: ignore[no-any-return]  # which tells why
            try:
                base, note = await self._begin(client, session, position, step, request)
            except Error as error:
                base, note = 0, _CANNOT.format(why=f"{error.name}: {error.message}")
            message = await settled(handler(request))
            if not isinstance(message, ToolMessage):
                return message  # type: ignore[no-any-return]
            if note:
                message.content = with_note(message.content, note)  # type: ignore[arg-type,assignment]
            position = await self._position(session, message.artifact, step, base)
        if position is None:
            return message
        return Command(update={"messages": [message], KEY: {self._sandbox.name: position}})

    async def _begin(
        self, client: AnyClient, session: Any, position: dict[str, Any] | None, step: Step, request: Any
    ) -> tuple[int, str | None]:
        """As _put_back(). A call that was interrupted for a person's answer goes on as it is."""
        config = request.runtime.config
        _, runs = await self._sandbox._find_run(client, str(request.tool_call["id"]), config)
        if runs:
            return (await _now(client, session)).epoch, None
        return await self._put_back(client, session, position, step)

    async def _put_back(
        self, client: AnyClient, session: Any, position: dict[str, Any] | None, step: Step
    ) -> tuple[int, str | None]:
        """Makes the variables those of the history. Returns the epoch its batch begins in, and what to tell."""
        now = await _now(client, session)
        ended = position is not None and position["instance"] != session.instance
        if position and not ended and Mark(position["epoch"], position["execution_count"]) == now:
            return now.epoch, None
        kept = await self._kept(session)
        base = _begun_side_by_side(kept, step, now)
        if base is not None:
            return base, None
        if position and not ended:
            return await self._roll_back(session, position["checkpoint"], now)
        start = next((one for one in kept if one.step is None), None)
        if start is None and not kept:
            with contextlib.suppress(Error):  # then there will be no way back to here, and it is told
                await settled(session.checkpoint(_START.format(mark=now), self._files))
            return now.epoch, _GONE if ended else None
        if start is not None and start.mark == now:
            return now.epoch, _GONE if ended else None
        epoch, note = await self._roll_back(session, start.checkpoint.id if start else None, now)
        return epoch, f"{_GONE} {note}" if ended else note

    async def _roll_back(self, session: Any, checkpoint: str | None, now: Mark) -> tuple[int, str]:
        dropped = _CANNOT.format(why="The required checkpoint no longer exists.")
        if checkpoint is None:
            return now.epoch, dropped
        try:
            done = await settled(session.rollback(checkpoint))
        except NoSuchCheckpoint:
            return now.epoch, dropped
        count = done.execution_count
        point = f"their state after call {count}" if count else "their state before the first call"
        note = _BACK.format(point=point, files="" if done.files == "restored" else "not ")
        if done.not_restored:
            note += f" Not restored: {'; '.join(done.not_restored)}."
        return done.epoch, note

    async def _position(self, session: Any, artifact: Any, step: Step, base: int) -> dict[str, Any] | None:
        """Where the call left the session, with a checkpoint of it; None when it was not run there."""
        if not isinstance(artifact, dict) or artifact.get("instance") != session.instance:
            return None
        mark = Mark(artifact["epoch"], artifact["execution_count"])
        with contextlib.suppress(Error):  # without it there is no way back to here, and that is told
            await self._make_room(session)
            name = _CALL.format(step=step, base=base, mark=mark)
            artifact["checkpoint_id"] = (await settled(session.checkpoint(name, self._files))).id
        return {
            "instance": session.instance,
            "epoch": mark.epoch,
            "execution_count": mark.number,
            "checkpoint": artifact["checkpoint_id"],
        }

    async def _make_room(self, session: Any) -> None:
        calls = [one for one in await self._kept(session) if one.step is not None]
        for one in calls[: max(len(calls) - self._keep + 1, 0)]:
            with contextlib.suppress(NoSuchCheckpoint):
                await settled(session.drop(one.checkpoint))

    async def _kept(self, session: Any) -> list[Kept]:
        """Our checkpoints, oldest first."""
        return list(_ours(await settled(session.checkpoints()), session.name))


async def _now(client: AnyClient, session: Any) -> Mark:
    rows = await settled(client.sessions())
    return next(Mark(row.epoch, row.execution_count) for row in rows if row.session == session.name)


def _ours(checkpoints: Iterable[Checkpoint], session: str) -> Iterable[Kept]:
    for checkpoint in checkpoints:
        parts = _NAME.fullmatch(checkpoint.name or "")
        if parts and checkpoint.session == session:
            batch, base, call, epoch, count = parts.groups()
            step = Step(batch, call) if batch else None
            yield Kept(checkpoint, step, int(base or 0), Mark(int(epoch), int(count)))


def _positions_of(state: Any) -> Positions:
    """Where the history of this call has left the sessions of the tools it has used."""
    if not isinstance(state, dict) or KEY not in state:
        raise TypeError(
            "Rewind stores positions in the state of the graph; derive the state schema from RewindState"
        )
    return state[KEY] or {}


def _begun_side_by_side(kept: list[Kept], step: Step, now: Mark) -> int | None:
    """Where the session is at another call of the same message and this one was not made before it there: they
    go on from one another. The epoch in which that batch began, otherwise None.
    """
    live = next((one for one in kept if one.mark == now and one.step), None)
    if live is None or live.step is None or live.step.batch != step.batch:
        return None
    again = any(one.step == step and one.base == live.base for one in kept)
    return None if again else live.base


def _step(request: Any, position: dict[str, Any] | None) -> Step:
    call = str(request.tool_call["id"])
    for message in reversed(request.state.get("messages") or []):
        if isinstance(message, AIMessage):
            calls = [str(one["id"]) for one in message.tool_calls]
            if call in calls:
                return Step(_digest(message.id, calls, position), _digest(call))
    return Step(_digest(call, position), _digest(call))


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:10]
