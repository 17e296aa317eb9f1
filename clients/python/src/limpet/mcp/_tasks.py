"""Calls that take long, as tasks: the extension io.modelcontextprotocol/tasks of 2026-07-28.

A client that has declared it gets the result where that comes soon, and otherwise a task, which it asks for the result
and through which it answers what the code asks.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.runner import modern_error_data
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

Context = ServerRequestContext[Any, Any]
Work = Coroutine[Any, Any, Any]

EXTENSION = "io.modelcontextprotocol/tasks"
SOON = 2.0  # seconds for which a result is waited for before there is a task
TTL = 3600.0  # seconds from its beginning for which one that has ended is kept
POLL = 0.5  # seconds after which it is worth to ask again
MOST = 64  # of one connection; further calls are answered with their results


def are_taken(context: Context) -> bool:
    """Whether the client of this request has declared the extension."""
    capabilities = context.session.client_capabilities
    declared = (capabilities.extensions if capabilities is not None else None) or {}
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS and EXTENSION in declared


class Task:
    """One call. It runs on when the request that has begun it was answered."""

    def __init__(self, begin: Callable[[Task], Work]) -> None:
        self.id = os.urandom(16).hex()
        self.is_told = False
        """Whether the client knows of it."""
        self.asks = asyncio.Event()
        """Set with the first question."""
        self._born = time.monotonic()
        self._created = self._updated = _now()
        self._questions: dict[str, tuple[types.InputRequest, asyncio.Future[Any]]] = {}
        self._count = 0
        self.work: asyncio.Future[Any] = asyncio.ensure_future(begin(self))
        self.work.add_done_callback(self._note_end)

    @property
    def is_old(self) -> bool:
        """Whether nobody can expect it to be there any more."""
        return self.work.done() and time.monotonic() - self._born > TTL

    async def ask(self, request: types.InputRequest, seconds: float) -> types.ElicitResult:
        """The answer, which somebody brings with ``answer()``; that of somebody who goes away after so long."""
        self._count += 1
        key = f"question-{self._count}"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._questions[key] = request, answer
        self._touch()
        self.asks.set()
        try:
            return types.ElicitResult.model_validate(await asyncio.wait_for(answer, seconds), by_name=False)
        except (asyncio.TimeoutError, ValidationError):
            return types.ElicitResult(action="cancel")
        finally:
            self._questions.pop(key, None)
            self._touch()

    def answer(self, answers: dict[str, Any]) -> None:
        """Those to questions that wait; others are left alone."""
        for key in answers.keys() & self._questions.keys():
            _, answer = self._questions.pop(key)
            if not answer.done():
                answer.set_result(answers[key])
        self._touch()

    def cancel(self) -> None:
        """Interrupts the call, if it still runs."""
        self.work.cancel()

    def created(self) -> dict[str, Any]:
        """What the call is answered with."""
        self.is_told = True
        return {"resultType": "task", **self._said()}

    def detailed(self) -> dict[str, Any]:
        """All that there is to say: questions, or what came of it."""
        said = self._said()
        if said["status"] == "input_required":
            said["inputRequests"] = {key: _plain(request) for key, (request, _) in self._questions.items()}
        if said["status"] == "completed":
            said["result"] = {"resultType": "complete", **_plain(self.work.result())}
        if said["status"] == "failed":
            said["error"] = _plain(modern_error_data(self.work.exception()))  # type: ignore[arg-type]
        return said

    def _said(self) -> dict[str, Any]:
        return {
            "taskId": self.id, "status": self._status(), "createdAt": self._created, "lastUpdatedAt": self._updated,
            "ttlMs": int(TTL * 1000), "pollIntervalMs": int(POLL * 1000),
        }  # fmt: skip

    def _status(self) -> str:
        if not self.work.done():
            return "input_required" if self._questions else "working"
        if self.work.cancelled():
            return "cancelled"
        return "completed" if self.work.exception() is None else "failed"

    def _note_end(self, work: asyncio.Future[Any]) -> None:
        """Nobody may ask: asyncio is not to complain that nobody saw the exception."""
        self._touch()
        if not work.cancelled():
            work.exception()

    def _touch(self) -> None:
        self._updated = _now()


class Tasks:
    """Those of one connection."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    @property
    def are_running(self) -> bool:
        """Whether one of them has not ended."""
        return any(not task.work.done() for task in self._tasks.values())

    def get(self, task_id: str) -> Task | None:
        """The one of this id that the client knows of."""
        task = self._tasks.get(task_id)
        return task if task is not None and task.is_told else None

    def begin(self, begin: Callable[[Task], Work]) -> Task | None:
        """Begins a call; None where there are too many."""
        self._tasks = {task_id: task for task_id, task in self._tasks.items() if not task.is_old}
        if len(self._tasks) >= MOST:
            return None
        task = Task(begin)
        self._tasks[task.id] = task
        task.work.add_done_callback(lambda work: None if task.is_told else self._tasks.pop(task.id, None))
        return task

    async def soon(self, task: Task, seconds: float) -> Any:
        """The result of the call, or the task where that takes longer, or where it asks something."""
        asks = asyncio.ensure_future(task.asks.wait())
        try:
            await asyncio.wait((task.work, asks), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            asks.cancel()
        return task.work.result() if task.work.done() else task.created()

    def end(self) -> None:
        """Interrupts all."""
        for task in self._tasks.values():
            task.cancel()


def _plain(model: Any) -> dict[str, Any]:
    return dict(model.model_dump(by_alias=True, mode="json", exclude_none=True))


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
