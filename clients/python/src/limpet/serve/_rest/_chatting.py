"""The chat of the web page: a model that has the session."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import Any

import msgspec

from ... import AsyncSession, Error, Result
from .._chat import Conversation
from .._runs import Run
from ._call import Call
from ._operations import PREFIX, operation
from ._records import show

_OF = PREFIX + "/sessions/{session}/chat"


class Chat(msgspec.Struct):
    """Whether there is a model, and whether it is answering."""

    model: str | None
    running: bool


class Said(msgspec.Struct, forbid_unknown_fields=True):
    """What a person says. With `ask_first` code runs after approval only."""

    text: str
    ask_first: bool = False


class TurnNumber(msgspec.Struct, forbid_unknown_fields=True):
    """A turn."""

    turn: int


class Rewound(msgspec.Struct):
    """What was said in the turn that was taken back."""

    text: str


class Approval(msgspec.Struct, forbid_unknown_fields=True):
    """Whether the code of a call may run."""

    run_id: str
    allow: bool


@operation("GET", _OF, gives=Chat)
async def get_chat(call: Call) -> Any:
    """Says whether a model is configured. What is said comes as events `chat` of the session."""
    model = call.gateway.chats.model
    session = await call.session()
    return Chat(None if model is None else model.name, model is not None and _chat(call, session).is_running)


@operation("POST", _OF, takes=Said, gives=TurnNumber, status=201)
async def say(call: Call) -> Any:
    """Says something to the model, which runs code in the session and answers."""
    call.gateway.check_input(call.body.text)
    session = await call.session()
    run = functools.partial(_run, call, session)
    return call.json(
        TurnNumber(await _chat(call, session).say(session, run, call.body.text, call.body.ask_first)), 201
    )


@operation("POST", _OF + "/approve", takes=Approval)
async def approve_code(call: Call) -> None:
    """Allows the code of a call, or not."""
    _chat(call, await call.session()).approve(call.body.run_id, call.body.allow)


@operation("POST", _OF + "/stop")
async def stop_chat(call: Call) -> None:
    """Stops the model, and the code that it runs."""
    _chat(call, await call.session()).stop()


@operation("POST", _OF + "/rewind", takes=TurnNumber, gives=Rewound)
async def rewind_chat(call: Call) -> Any:
    """Takes a turn back with all that came after it: what was said, and the variables."""
    session = await call.session()
    text = await _chat(call, session).rewind(session, call.body.turn)
    call.changed("checkpoints")
    return Rewound(text)


def _chat(call: Call, session: AsyncSession) -> Conversation:
    return call.gateway.chats.of(session, call.gateway.runs.feed(call.owner, session.name))


async def _run(call: Call, session: AsyncSession, code: str, run_id: str) -> Result:
    """A call as any other, which those who look at the session see. Cancelled, it is interrupted."""
    gateway, owner, name = call.gateway, call.owner, call.params["session"]
    result: Result | None = None

    async def begin(run: Run) -> Result:
        nonlocal result
        run.begun("python", session=name, code=code, language=None)
        result = await session.run(
            code, run_id=run_id, on_stdout=run.on_stdout, on_stderr=run.on_stderr, on_display=run.on_display
        )
        return result

    run = gateway.runs.start(
        owner, run_id, session.name, code, begin, lambda made: show(gateway, owner, run_id, made)
    )
    try:
        await asyncio.shield(run.done)
    finally:
        if not run.done.done():
            with contextlib.suppress(Error):
                await gateway.client.interrupt(run_id)
    if run.problem is not None:
        raise Error(run.problem.detail)
    assert result is not None
    return result
