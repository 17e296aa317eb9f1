"""The data of server-sent events by their names, as the description has them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ... import Result


class OutputEvent(msgspec.Struct):
    """Text that the code of a call wrote."""

    run_id: str
    stream: Literal["stdout", "stderr"]
    text: str


class DisplayEvent(msgspec.Struct):
    """What the code of a call displayed. With `update` it takes the place of what has the same `display_id`."""

    run_id: str
    data: dict[str, Any]
    """By MIME type; binary values are base64."""
    metadata: dict[str, Any]
    display_id: str | None
    is_result: bool
    update: bool


class AskEvent(msgspec.Struct):
    """A question of the code of a call: `prompt` of input(), or `name`, `args` and `kwargs` of a tool."""

    run_id: str
    ask: int
    kind: Literal["input", "password", "tool"]
    prompt: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET
    args: list[Any] | msgspec.UnsetType = msgspec.UNSET
    kwargs: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class AnsweredEvent(msgspec.Struct):
    """A question does not wait any more."""

    run_id: str
    ask: int


class ProblemEvent(msgspec.Struct, rename={"type_": "type"}):
    """A call has ended without a record. `name` is stable, `detail` is for people."""

    type_: str
    title: str
    status: int
    name: str
    detail: str
    run_id: str


class RunEvent(msgspec.Struct):
    """A call has begun in the session, or in the branch or context that `session` names."""

    run_id: str
    kind: Literal["python", "command"]
    session: str
    code: str | list[str]
    language: str | None = None


class ChangedEvent(msgspec.Struct):
    """Something else than a call has changed the session: files, checkpoints, branches and others."""

    what: str
    session: str | msgspec.UnsetType = msgspec.UNSET
    execution_count: int | None | msgspec.UnsetType = msgspec.UNSET


class PieceEvent(msgspec.Struct):
    """What a process wrote: 1 is standard output, 2 standard error."""

    stream: int
    data: bytes
    """base64"""
    next: int
    """Bytes that are known now: `since` of the next question."""


Events = dict[str, Any]
"""The type of the data by the name of the event."""

OF_CALL: Events = {
    "output": OutputEvent, "display": DisplayEvent, "ask": AskEvent, "answered": AnsweredEvent, "result": Result,
    "problem": ProblemEvent,
}  # fmt: skip
OF_SESSION: Events = {
    "run": RunEvent, **OF_CALL, "changed": ChangedEvent, "chat": dict[str, Any], "closed": dict[str, Any],
}  # fmt: skip
OF_PROCESS: Events = {"output": PieceEvent, "end": dict[str, Any]}
