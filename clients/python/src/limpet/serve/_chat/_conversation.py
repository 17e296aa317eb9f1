"""Turns of a conversation: what a person says, what the model does about it, and how all that is taken back."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ... import AsyncSession, BadRequest, Busy, Error, Result
from ..._adapters import cells, telling
from .._log import Log
from .._plain import encode
from .._settings import Settings
from ._model import Model, ModelFailed, ToolCall

Run = Callable[[str, str], Awaitable[Result]]
"""Runs code as the call of an id."""

_CALLS = 24  # of one turn
_TURNS = 12  # that can be taken back: each has a checkpoint
_KEPT = 4000  # characters of output that the model is shown
_SYSTEM = (
    "You work in a live Python session. The tool run_python runs code there; variables, imports and files stay between "
    "calls. Look at what is there before you compute, keep each piece of code small, and say in plain words what "
    "you found."
)
_TOOL = {
    "type": "function",
    "function": {
        "name": "run_python",
        "description": "Runs Python code in the session. Returns its output, the value of its last line, and errors.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
        },
    },
}


@dataclass
class Turn:
    """What a person has said, and where the session was before."""

    number: int
    text: str
    before: int
    """Messages."""
    checkpoint: str | None


class Conversation:
    """Of one session or branch.

    Args:
        model: That answers.
        feed: What happens is told there, as events ``chat``.
    """

    def __init__(self, model: Model, feed: Log) -> None:
        self._model = model
        self._feed = feed
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": _SYSTEM}]
        self._turns: list[Turn] = []
        self._task: asyncio.Task[str | None] | None = None
        self._approvals: dict[str, asyncio.Future[bool]] = {}
        self._last = 0
        self._busy = False

    @property
    def is_running(self) -> bool:
        """Whether a turn has not ended."""
        return self._busy

    async def say(self, session: AsyncSession, run: Run, text: str, ask_first: bool) -> int:
        """Begins a turn; returns its number. Raises Busy while another one runs.

        Args:
            session: Whose variables are kept for taking the turn back.
            run: Runs code there.
            text: What is said.
            ask_first: Whether code runs after approval only.
        """
        with self._alone():
            checkpoint = None
            with contextlib.suppress(Error):
                checkpoint = (await session.checkpoint()).id
            await self._forget(session)
            self._last += 1
            turn = Turn(self._last, text, len(self._messages), checkpoint)
            self._turns.append(turn)
            self._tell(turn, "turn", text=text, can_rewind=checkpoint is not None)
            self._messages.append({"role": "user", "content": text})
        self._busy = True
        self._task = asyncio.ensure_future(self._go(turn, session, run, ask_first))
        self._task.add_done_callback(functools.partial(self._ended, turn))
        return turn.number

    def approve(self, call: str, allow: bool) -> None:
        """Answers whether code may run. Raises BadRequest where nobody asks."""
        waiting = self._approvals.get(call)
        if waiting is None or waiting.done():
            raise BadRequest("this code does not wait for approval (any more)")
        waiting.set_result(allow)

    def stop(self) -> None:
        """Ends the turn that runs."""
        if self._task is not None:
            self._task.cancel()

    async def rewind(self, session: AsyncSession, number: int) -> str:
        """Takes a turn back, with all that came after it and with the variables. Returns what was said.

        Raises BadRequest where there is no such turn, and Busy while one runs.
        """
        with self._alone():
            turn = next((each for each in self._turns if each.number == number), None)
            if turn is None or turn.checkpoint is None:
                raise BadRequest("this turn cannot be taken back (any more)")
            await session.rollback(turn.checkpoint)
            at = self._turns.index(turn)
            for later in self._turns[at:]:
                with contextlib.suppress(Error):
                    await session.drop(later.checkpoint or "")
            del self._turns[at:]
            del self._messages[turn.before :]
        self._tell(turn, "rewind")
        return turn.text

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else begins anything meanwhile."""
        if self._busy:
            raise Busy("the model is still answering; stop it, or wait")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    async def _forget(self, session: AsyncSession) -> None:
        """Old turns stay, and cannot be taken back any more."""
        old = [turn for turn in self._turns if turn.checkpoint is not None][: 1 - _TURNS]
        for turn in old:
            with contextlib.suppress(Error):
                await session.drop(turn.checkpoint or "")
            turn.checkpoint = None

    async def _go(self, turn: Turn, session: AsyncSession, run: Run, ask_first: bool) -> str | None:
        """Returns why it came to no end, None where it did."""
        try:
            for _ in range(_CALLS):
                calls = await self._answer(turn)
                if not calls:
                    return None
                for call in calls:
                    said = await self._do(turn, session, call, run, ask_first)
                    self._messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
        except ModelFailed as error:
            return str(error)
        return f"stopped after {_CALLS} steps"

    def _ended(self, turn: Turn, task: asyncio.Task[str | None]) -> None:
        self._busy = False
        self._complete()
        failed = None if task.cancelled() else task.exception()
        problem = (
            "stopped" if task.cancelled() else f"the gateway failed: {failed!r}" if failed else task.result()
        )
        self._tell(turn, "end", problem=problem)

    async def _answer(self, turn: Turn) -> list[ToolCall]:
        calls: list[ToolCall] = []
        text = ""
        try:
            async for piece in self._model.answer(self._messages, [_TOOL], calls):
                text += piece
                self._tell(turn, "text", text=piece)
        finally:
            said: dict[str, Any] = {"role": "assistant", "content": text}
            if calls:
                said["tool_calls"] = [call.as_message() for call in calls]
            self._messages.append(said)
        return calls

    async def _do(self, turn: Turn, session: AsyncSession, call: ToolCall, run: Run, ask_first: bool) -> str:
        """What the model is told about it."""
        try:
            code = json.loads(call.arguments)["code"]
        except (ValueError, KeyError, TypeError):
            code = None
        if call.name != "run_python" or not isinstance(code, str):
            return "There is one tool, run_python, with the argument 'code'."
        run_id = os.urandom(16).hex()
        self._tell(turn, "call", run_id=run_id, code=code, asks=ask_first)
        if ask_first and not await self._may(run_id):
            self._tell(turn, "denied", run_id=run_id)
            return "The person does not want this code to run."
        self._tell(turn, "runs", run_id=run_id)
        try:
            result = await run(cells.of_model(code), run_id)
        except Error as error:
            return telling.of_failure(error)
        return (await telling.of_call(session, result, telling.Limits(_KEPT, 0), code))[0]

    async def _may(self, run_id: str) -> bool:
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._approvals[run_id] = waiting
        try:
            return await waiting
        finally:
            del self._approvals[run_id]

    def _complete(self) -> None:
        """Every call of the model has an answer, also where it was stopped: models insist."""
        answered = {each.get("tool_call_id") for each in self._messages}
        for message in list(self._messages):
            for call in message.get("tool_calls") or ():
                if call["id"] not in answered:
                    self._messages.append(
                        {"role": "tool", "tool_call_id": call["id"], "content": "It was stopped."}
                    )

    def _tell(self, turn: Turn, kind: str, **said: Any) -> None:
        self._feed.append("chat", encode({"kind": kind, "turn": turn.number, **said}))


class Chats:
    """Those of all sessions, where a model is configured."""

    def __init__(self, settings: Settings) -> None:
        self.model = None
        if settings.chat_url and settings.chat_model:
            self.model = Model(settings.chat_url, settings.chat_model, settings.chat_key)
        self._all: dict[str, tuple[str, Conversation]] = {}

    def of(self, session: AsyncSession, feed: Log) -> Conversation:
        """The one of a session or branch. Raises BadRequest where no model is configured."""
        if self.model is None:
            raise BadRequest("no model is configured: chat_url and chat_model name one")
        instance, conversation = self._all.get(session.name, ("", None))
        if conversation is None or instance != session.instance:
            conversation = Conversation(self.model, feed)
            self._all[session.name] = session.instance, conversation
        return conversation

    def keep(self, there: set[str]) -> None:
        """The others have ended."""
        for inner in self._all.keys() - there:
            self._all.pop(inner)[1].stop()
