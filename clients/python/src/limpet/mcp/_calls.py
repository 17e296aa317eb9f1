"""What the tools that run something have in common: live output, questions, and the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mcp_types as types

from .. import Tools
from .._adapters.telling import Limits, clip
from ._place import Place
from ._questions import Context, Questions
from ._tasks import Task, are_taken

SAID = 1000  # characters of a message about progress


@dataclass(frozen=True)
class Call:
    """A call of a tool, and what it is made with."""

    context: Context
    params: types.CallToolRequestParams
    place: Place
    limits: Limits
    tools: Tools
    allowed: set[str]
    task: Task | None = None
    """What the call is for a client that takes tasks."""

    @property
    def takes_tasks(self) -> bool:
        """Whether the client takes a task in place of the result."""
        return are_taken(self.context)

    def questions(self) -> Questions:
        """Of the run that this call makes, or goes on with."""
        return Questions(self.context, self.params, self.place, self.task)

    def live(self) -> dict[str, Any]:
        """Callbacks that report what is printed as progress, where the client wants to hear of it."""
        if "progress_token" not in (self.context.meta or {}):
            return {}
        report = _Progress(self.context, self.task).report
        return {"on_stdout": report, "on_stderr": report}


class _Progress:
    """Counts the characters. Nothing is told once the request has been answered with a task."""

    def __init__(self, context: Context, task: Task | None) -> None:
        self._session = context.session
        self._task = task
        self._count = 0

    async def report(self, text: str) -> None:
        self._count += len(text)
        if self._task is not None and self._task.is_told:
            return
        await self._session.report_progress(self._count, message=clip(text, SAID))
