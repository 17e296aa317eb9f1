"""The questions of one call on their way: from the controller to the caller's functions, and back."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from .._protocol import _wire
from ..errors import ProtocolMismatch, is_leave
from . import _plain
from ._answers import Answers, Channel
from ._asks import Asks, ToolCall
from ._tools import Tool, is_async
from ._workers import LOOP, Ended, Workers

_log = logging.getLogger("limpet.tools")

_NAME, _MESSAGE = 256, 64 << 10  # bytes of an exception's name, characters of its message
_INSTEAD = (
    "return plain data, or put it into a file of the session with session.put() and return the file's path"
)


class Question(NamedTuple):
    number: int
    kind: str
    name: str
    payload: bytes | None

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> Question:
        question = cls(body.get("ask"), body.get("kind"), body.get("name"), body.get("payload"))  # type: ignore[arg-type]
        if not (
            isinstance(question.number, int)
            and isinstance(question.kind, str)
            and isinstance(question.name, str)
            and isinstance(question.payload, (bytes, type(None)))
        ):
            raise ProtocolMismatch("the controller sent a question that is malformed")
        return question


class Asking:
    """Of one run(). Tools run side by side; a person is asked one thing at a time, in the order of questions."""

    def __init__(self, asks: Asks, answers: Answers, run_id: str, session: str | None) -> None:
        self._asks = asks
        self._answers = answers
        self._run_id = run_id
        self._session = session
        self._channel: Channel | None = None
        self._left: Exception | None = None
        self._ended = False
        self._workers = Workers(1 if asks.serial else _wire.ASKS)
        self._person: AbstractAsyncContextManager[None] = _Nobody()  # who asks one, and for whom others wait

    def attach(self, channel: Channel) -> None:
        """The call is about to be joined by that request."""
        self.check()
        self._channel = channel
        self._answers.attach(channel)

    def detach(self) -> None:
        if self._channel is not None:
            self._answers.detach(self._channel)
            self._channel = None

    def check(self) -> None:
        """Nobody is asked any more once one of them has left."""
        if self._left is not None:
            raise self._left from None

    def question(self, body: Mapping[str, Any]) -> None:
        """One has come."""
        question = Question.from_wire(body)
        if self._answers.begin(question.number):
            self._begin(question)

    def end(self) -> None:
        """Nobody waits for answers any more."""
        self._ended = True
        self._workers.close()

    def _begin(self, question: Question) -> None:
        raise NotImplementedError

    async def _call(self, function: Callable[[], Any], on_loop: bool) -> Any:
        """Of what asks a person."""
        raise NotImplementedError

    async def _make(self, function: Callable[[], Any], on_loop: bool) -> Any:
        """The call of a tool: nothing else waits for it."""
        raise NotImplementedError

    async def _work(self, question: Question) -> None:
        try:
            body = await self._answer(question)
        except Exception as leave:
            self._left = self._left or leave
            self._answers.leave(question.number, self._channel, self._left)
        except BaseException:
            self._answers.leave(question.number, None)
            raise
        else:
            self._answers.finish(question.number, body)

    async def _answer(self, question: Question) -> dict[str, Any]:
        try:
            value = await self._value(question)
            return {"ask": question.number, "payload": _packed(question, value)}
        except (Exception, asyncio.CancelledError) as error:
            if is_leave(error) or (self._ended and isinstance(error, asyncio.CancelledError)):
                raise
            return _failure(question, error)

    async def _value(self, question: Question) -> Any:
        if question.kind == "tools":
            return [tool.listed() for tool in self._asks.tools.values()]
        if question.kind in ("input", "secret"):
            return await self._line(question)
        if question.kind == "tool":
            return await self._tool(question)
        raise ValueError(f"this client does not know questions of the kind {question.kind!r}")

    async def _line(self, question: Question) -> str | None:
        on_input = self._asks.on_input
        if on_input is None:
            return None
        async with self._person:
            self.check()
            try:
                ask = self._asks.line(question.name, question.kind == "secret")
                line = await self._call(ask, is_async(on_input))
            except EOFError:
                return None
        if line is not None and not isinstance(line, str):
            raise TypeError(f"on_input must return text or None, not {type(line).__name__}")
        return None if line is None else str(line[:-1] if line.endswith("\n") else line)

    async def _tool(self, question: Question) -> Any:
        tool = self._asks.tools.get(question.name)
        if tool is None:
            raise AttributeError(f"the host has no function '{question.name}'")
        args, kwargs = _arguments(question)
        function = tool.bound(args, kwargs)
        call = ToolCall(tool.name, tuple(args), kwargs, self._run_id, self._session, question.number)
        approve = self._asks.approve
        if approve is None:
            return await self._made(tool, function)
        async with self._person:
            self.check()
            function = await self._decided(approve, call, tool, function)
            if self._asks.serial:
                return await self._made(tool, function)
        return await self._made(tool, function)

    async def _made(self, tool: Tool, function: Callable[[], Any]) -> Any:
        try:
            return await self._make(function, tool.runs_on_loop)
        except Exception as error:
            if not self._ended and not is_leave(error):
                _log.warning("the host function %s failed", tool.name, exc_info=True)
            raise

    async def _decided(
        self, approve: Callable[..., Any], call: ToolCall, tool: Tool, function: Callable[[], Any]
    ) -> Callable[[], Any]:
        """What is to be called; PermissionError when it may not be."""
        try:
            decision = await self._call(lambda: approve(call), is_async(approve))
        except Exception as error:
            if is_leave(error):
                raise
            _log.warning("approve failed: the call of %s is denied", tool.name, exc_info=True)
            raise PermissionError(f"the call of {tool.name}() could not be approved") from error
        if decision is True:
            return function
        if isinstance(decision, ToolCall) and decision.tool == call.tool:
            return tool.bound(decision.args, decision.kwargs)
        reason = f": {decision}" if isinstance(decision, str) else ""
        if decision is not False and not reason:
            _log.warning("approve returned %r, which is no decision: %s is denied", decision, tool.name)
        raise PermissionError(f"the call of {tool.name}() was not allowed{reason}")


class _Nobody:
    """Nobody else can be asking: contextlib.nullcontext(), which older Pythons have not for ``async with``."""

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *error: object) -> None:
        pass


class BlockingAsking(Asking):
    """A person is asked in the caller's thread, as callbacks are called: there Ctrl-C reaches input()."""

    def __init__(self, asks: Asks, answers: Answers, run_id: str, session: str | None) -> None:
        super().__init__(asks, answers, run_id, session)
        self._awaited: set[concurrent.futures.Future[Any]] = set()

    def end(self) -> None:
        super().end()
        for future in list(self._awaited):
            future.cancel()

    def _begin(self, question: Question) -> None:
        flow = self._work(question)
        if self._asks.serial or not _advance(flow):
            self._workers.submit(lambda: _finish(flow))
        self.check()

    async def _call(self, function: Callable[[], Any], on_loop: bool) -> Any:
        value = function()
        if not inspect.isawaitable(value):
            return value
        future = LOOP.submit(value)
        self._awaited.add(future)
        if self._ended:  # before it was noted: end() has not seen it
            future.cancel()
        try:
            return future.result()
        finally:
            self._awaited.discard(future)

    async def _make(self, function: Callable[[], Any], on_loop: bool) -> Any:
        if not self._asks.serial:
            await _Elsewhere()
        try:
            return await self._call(function, on_loop)
        except (SystemExit, KeyboardInterrupt) as error:
            raise Ended(error) from error


class AioAsking(Asking):
    """Coroutines on the caller's loop, other functions in threads."""

    def __init__(self, asks: Asks, answers: Answers, run_id: str, session: str | None) -> None:
        super().__init__(asks, answers, run_id, session)
        self._person = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def end(self) -> None:
        super().end()
        for task in list(self._tasks):
            task.cancel()

    def _begin(self, question: Question) -> None:
        task = asyncio.get_running_loop().create_task(self._work(question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, function: Callable[[], Any], on_loop: bool) -> Any:
        value = function() if on_loop else await asyncio.wrap_future(self._workers.submit(function))
        return await value if inspect.isawaitable(value) else value

    async def _make(self, function: Callable[[], Any], on_loop: bool) -> Any:
        return await self._call(function, on_loop)


class _Elsewhere:
    """Awaited in a flow that a thread runs: the rest of it is for another one."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def _advance(flow: Coroutine[Any, Any, None]) -> bool:
    """Runs a flow to its end, or to where it goes on elsewhere. Whether it has ended."""
    try:
        flow.send(None)
        return False
    except StopIteration:
        return True


def _finish(flow: Coroutine[Any, Any, None]) -> None:
    while not _advance(flow):
        pass


def _arguments(question: Question) -> tuple[list[Any], dict[str, Any]]:
    """From the sandbox, so that anything may be in it."""
    try:
        value = _plain.unpack(question.payload or b"")
    except ValueError as error:
        raise ValueError(f"the arguments of {question.name}() are {error}") from None
    if isinstance(value, list) and len(value) == 2:
        args, kwargs = value
        if isinstance(args, list) and isinstance(kwargs, dict):
            return args, kwargs
    raise ValueError(f"the arguments of {question.name}() are malformed")


def _packed(question: Question, value: Any) -> bytes:
    try:
        return _plain.pack(value)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{question.name or question.kind}() returned what cannot be handed over: {error}; {_INSTEAD}"
        ) from None


def _failure(question: Question, error: BaseException) -> dict[str, Any]:
    """No traceback: what the host looks like is not the sandbox's business."""
    if isinstance(error, Ended):
        error = error.error
    try:
        message = str(error)
    except Exception:
        message = ""
    name = type(error).__name__.encode("utf-8", "replace")[:_NAME].decode("utf-8", "ignore")
    readable = message[:_MESSAGE].encode("utf-8", "backslashreplace").decode("utf-8")
    return {"ask": question.number, "error": {"name": name, "message": readable}}
