"""The tools that run code and commands."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import Annotated, Any, Literal

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field

from .. import Leave, Result
from .._adapters import cells
from . import _results
from ._calls import Call
from ._place import Callbacks

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
Branch = Annotated[Name | None, Field(description="run in this branch, which the tool 'branch' opened")]
Seconds = Annotated[float | None, Field(gt=0, description="time limit; by default 30 seconds")]
OnError = Annotated[
    Literal["keep", "rollback"],
    Field(description="'rollback': code that fails leaves nothing behind in the variables"),
]
CANDIDATES = 16


class Arguments(BaseModel):
    """Of a tool. One that there is not is an error that the model is told."""

    model_config = ConfigDict(extra="forbid")


class RunPython(Arguments):
    code: str = Field(description="Python source code")
    timeout: Seconds = None
    on_error: OnError = "keep"
    branch: Branch = None


class Exec(Arguments):
    command: str = Field(description="a line for bash")
    cwd: str | None = Field(default=None, description="where it runs, relative to /session")
    timeout: Seconds = None


class TryEach(Arguments):
    codes: list[str] = Field(description="Python source codes", min_length=1, max_length=CANDIDATES)
    timeout: Seconds = Field(default=None, description="time limit of each")
    on_error: OnError = "keep"


async def run_python(call: Call, given: RunPython) -> types.CallToolResult | types.InputRequiredResult:
    call.place.home.check(given.code)
    questions = call.questions()
    asks = questions.asks(call.tools, call.allowed)

    async def work() -> types.CallToolResult:
        session = await call.place.session(given.branch)

        def begin(live: Callbacks) -> Awaitable[Result]:
            return session.run(
                cells.of_model(given.code),
                given.timeout or call.place.home.timeout,
                run_id=questions.run_id,
                on_error=given.on_error,
                tools=asks,
                **live,
            )

        result = await call.place.home.run(
            session, questions.run_id, "python", given.code, begin, call.live()
        )
        return await _results.of_run(session, result, call.limits, call.place.home, given.code)

    try:
        return await call.place.call(work())
    except Leave:
        return questions.unanswered()


async def exec_(call: Call, given: Exec) -> types.CallToolResult:
    call.place.home.check(given.command)

    async def work() -> types.CallToolResult:
        session = await call.place.session()
        run_id = os.urandom(16).hex()

        def begin(live: Callbacks) -> Awaitable[Result]:
            seconds = given.timeout or call.place.home.timeout
            return session.exec(given.command, cwd=given.cwd, timeout=seconds, run_id=run_id, **live)

        result = await call.place.home.run(session, run_id, "command", given.command, begin, call.live())
        return await _results.of_run(session, result, call.limits, call.place.home)

    return await call.place.call(work())


async def try_each(call: Call, given: TryEach) -> types.CallToolResult:
    for code in given.codes:
        call.place.home.check(code)

    async def work() -> types.CallToolResult:
        session = await call.place.session()
        codes = [cells.of_model(code) for code in given.codes]
        results = await session.try_each(
            codes, given.timeout or call.place.home.timeout, on_error=given.on_error
        )
        content: list[types.ContentBlock] = []
        tried: list[dict[str, Any]] = []
        for number, (code, result) in enumerate(zip(given.codes, results, strict=True)):
            told = await _results.of_run(session, result, call.limits, call.place.home, code)
            content += [
                types.TextContent(text=f"candidate {number}, branch {_short(result.session)}:"),
                *told.content,
            ]
            tried.append({"branch": _short(result.session), **(told.structured_content or {})})
        content.append(types.TextContent(text=NOW_CHOOSE))
        return types.CallToolResult(content=content, structured_content={"candidates": tried})

    return await call.place.call(work())


NOW_CHOOSE = (
    "The variables of the session are as before. The tool 'branch' with action=\"commit\" and the name of a branch "
    "makes its variables those of the session and ends the others; the next try_each ends them all."
)


def _short(branch: str | None) -> str:
    return (branch or "").rpartition("/")[2]


TRIED: dict[str, Any] = {
    "type": "object",
    "properties": {"candidates": {"type": "array", "items": _results.RECORD}},
    "required": ["candidates"],
}
