"""What the tools that run something have in common: live output, questions, and the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mcp_types as types

from .. import Tools
from .._adapters.telling import Limits, clip
from ._place import Place
from ._questions import Context, Questions

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

    def questions(self) -> Questions:
        """Of the run that this call makes, or goes on with."""
        return Questions(self.context, self.params, self.place)

    def live(self) -> dict[str, Any]:
        """Callbacks that report what is printed as progress, where the client wants to hear of it."""
        if "progress_token" not in (self.context.meta or {}):
            return {}
        report = _Progress(self.context).report
        return {"on_stdout": report, "on_stderr": report}


class _Progress:
    """Counts the characters."""

    def __init__(self, context: Context) -> None:
        self._session = context.session
        self._count = 0

    async def report(self, text: str) -> None:
        self._count += len(text)
        await self._session.report_progress(self._count, message=clip(text, SAID))
