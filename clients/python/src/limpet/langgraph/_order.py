"""The calls of one message in the order of the message, whatever threads and tasks the graph makes them in."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel, ValidationError, create_model

from .. import Client
from ._both import AnyClient

GRACE = 2.0
"""Seconds for a call that should come before. One that a middleware has answered never comes."""
REMEMBERED = 4096  # calls that have ended

Counts = Callable[[Mapping[str, Any]], bool]
"""Whether a call with these arguments uses the session."""


def with_state(schema: type[BaseModel]) -> type[BaseModel]:
    """The arguments of a tool, and the state of the graph, which the tool node adds and no model sees."""
    field: Any = (Annotated[Any, InjectedState], None)
    return cast(type[BaseModel], create_model(schema.__name__, __base__=schema, state=field))


class OrderedTool(BaseTool):
    """A tool whose methods get ``state``, where :func:`with_state` has made its arguments, and ``tool_call_id``."""

    @property
    def args(self) -> dict[str, Any]:
        """Those that a model sees, with old versions of LangChain too."""
        schema = cast(type[BaseModel], self.tool_call_schema).model_json_schema()
        return cast(dict[str, Any], schema.get("properties", {}))

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arguments, named = super()._to_args_and_kwargs(tool_input, tool_call_id)
        return arguments, {**named, "tool_call_id": tool_call_id}


@dataclass(frozen=True)
class _Call:
    session: str
    message: str
    """One message and no other, with what it asks for."""
    id: str
    before: tuple[_Call, ...] = field(default=(), compare=False)
    """The calls of the message that use the session and come first."""


class Order:
    """Of the tools of one sandbox."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tools: dict[str, tuple[type[BaseModel], Counts]] = {}
        self._ended: OrderedDict[_Call, None] = OrderedDict()
        self._lines: weakref.WeakValueDictionary[Any, _Line] = weakref.WeakValueDictionary()

    def add(self, name: str, schema: type[BaseModel], counts: Counts = lambda arguments: True) -> None:
        """A tool whose calls come in order."""
        self._tools[name] = schema, counts

    @contextlib.asynccontextmanager
    async def turn(
        self, client: AnyClient, session: str, state: Any, call: str | None
    ) -> AsyncIterator[None]:
        """Waits until the calls before this one have ended, by blocking for a blocking client; one at a time is inside.
        A call that is inside already goes through.
        """
        line = self._line(session, isinstance(client, Client))
        if call is None or (line.holder is not None and line.holder.id == call):
            yield
            return
        this = self._find(session, state, call)
        await line.take(this)
        try:
            yield
        finally:
            with self._lock:
                self._ended[this] = None
                while len(self._ended) > REMEMBERED:
                    self._ended.popitem(last=False)
            line.leave()

    def _find(self, session: str, state: Any, call: str) -> _Call:
        """A call in the message that makes it, alone where there is no such message."""
        messages = _messages(state)
        asking = [number for number, message in enumerate(messages) if _asks_for(message, call)]
        if not asking:
            return _Call(session, "", call)
        number = asking[-1]  # models may use an id again
        message: AIMessage = messages[number]
        key = f"{number} {message.id} {[one['id'] for one in message.tool_calls]}"
        answered = {each.tool_call_id for each in messages[number:] if isinstance(each, ToolMessage)}
        before: list[_Call] = []
        for one in message.tool_calls:
            if one["id"] == call:
                break
            if one["id"] not in answered and self._uses_session(one["name"], one["args"]):
                before.append(_Call(session, key, str(one["id"])))
        return _Call(session, key, call, tuple(before))

    def _uses_session(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        schema, counts = self._tools.get(tool, (None, None))
        if schema is None or counts is None or not counts(arguments):
            return False
        try:
            schema.model_validate(arguments)
        except ValidationError:
            return False  # the model is told so, and nothing runs
        return True

    def _line(self, session: str, blocks: bool) -> _Line:
        key = session, None if blocks else id(asyncio.get_running_loop())
        with self._lock:
            line = self._lines.get(key)
            if line is None:
                line = self._lines[key] = _OfThreads(self._ended) if blocks else _OfLoop(self._ended)
            return line


class _Line:
    """Those who wait for one session."""

    def __init__(self, ended: Mapping[_Call, None]) -> None:
        self._ended = ended
        self._arrived: set[_Call] = set()
        self.holder: _Call | None = None

    async def take(self, call: _Call) -> None:
        """Waits for the turn of a call, and takes it."""
        raise NotImplementedError

    def leave(self) -> None:
        """Ends the turn."""
        raise NotImplementedError

    def _delay(self, call: _Call, until: float) -> float:
        """Seconds after which to look again unless something happens before; 0 when it is the turn of the call."""
        if self.holder is not None:
            return math.inf
        missing = [one for one in call.before if one not in self._ended]
        if any(one in self._arrived for one in missing):
            return math.inf
        return max(until - time.monotonic(), 0) if missing else 0


class _OfThreads(_Line):
    def __init__(self, ended: Mapping[_Call, None]) -> None:
        super().__init__(ended)
        self._changed = threading.Condition()

    async def take(self, call: _Call) -> None:
        until = time.monotonic() + GRACE
        with self._changed:
            self._arrived.add(call)
            self._changed.notify_all()
            try:
                while delay := self._delay(call, until):
                    self._changed.wait(None if delay == math.inf else delay)
                self.holder = call
            finally:
                self._arrived.discard(call)

    def leave(self) -> None:
        with self._changed:
            self.holder = None
            self._changed.notify_all()


class _OfLoop(_Line):
    def __init__(self, ended: Mapping[_Call, None]) -> None:
        super().__init__(ended)
        self._waiting: set[asyncio.Future[None]] = set()

    async def take(self, call: _Call) -> None:
        until = time.monotonic() + GRACE
        self._arrived.add(call)
        self._wake()
        try:
            while delay := self._delay(call, until):
                changed = asyncio.get_running_loop().create_future()
                self._waiting.add(changed)
                await asyncio.wait({changed}, timeout=None if delay == math.inf else delay)
                self._waiting.discard(changed)
            self.holder = call
        except BaseException:
            self._wake()
            raise
        finally:
            self._arrived.discard(call)

    def leave(self) -> None:
        self.holder = None
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for changed in waiting:
            if not changed.done():
                changed.set_result(None)


def _asks_for(message: Any, call: str) -> bool:
    return isinstance(message, AIMessage) and any(one["id"] == call for one in message.tool_calls)


def _messages(state: Any) -> list[Any]:
    """Of a state that is a dictionary, a model or the list itself, newest last."""
    if isinstance(state, BaseModel):
        state = dict(state)
    if isinstance(state, Mapping):
        lists = [state["messages"]] if "messages" in state else list(state.values())
        state = next((each for each in lists if isinstance(each, list)), [])
    return state if isinstance(state, list) else []
