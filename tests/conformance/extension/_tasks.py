"""Tools that are tasks for clients that take them."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from limpet.mcp import _results
from limpet.mcp._calls import Call
from limpet.mcp._running import Arguments
from limpet.mcp._task_methods import require
from ._asking import answer_of, form, wanted
from ._plain import Nothing, tool

_CONFIRM = {"type": "boolean"}
_WAIT = 60.0  # seconds for an answer


class Greet(Arguments):
    name: str


class SlowCompute(Arguments):
    seconds: float
    label: str = ""


class ConfirmDelete(Arguments):
    filename: str


async def _greet(call: Call, given: Greet) -> types.CallToolResult:
    return _results.of_text(f"Hello, {given.name}!")


async def _slow(call: Call, given: SlowCompute) -> types.CallToolResult:
    await asyncio.sleep(given.seconds)
    return _results.of_text(f"Computed {given.label} for {given.seconds:g} s")


async def _failing(call: Call, given: Nothing) -> types.CallToolResult:
    require(call.context)
    await asyncio.sleep(1)
    return _results.of_problem("The job has failed")


async def _protocol_error(call: Call, given: Nothing) -> types.CallToolResult:
    await asyncio.sleep(1)
    raise MCPError(types.INTERNAL_ERROR, "The job has broken the protocol")


async def _confirm(call: Call, given: ConfirmDelete) -> types.CallToolResult:
    require(call.context)
    assert call.task is not None
    answer = await call.task.ask(form(f"Delete {given.filename}?", confirm=_CONFIRM), _WAIT)
    return _results.of_text(f"{given.filename}: {answer.action}")


async def _several(call: Call, given: Nothing) -> types.CallToolResult:
    require(call.context)
    assert call.task is not None
    asked = (form("Name?", name={"type": "string"}), form("Sure?", confirm=_CONFIRM))
    answers = await asyncio.gather(*(call.task.ask(each, _WAIT) for each in asked))
    return _results.of_text(" ".join(answer.action for answer in answers))


async def _after_a_question(call: Call, given: Nothing) -> Any:
    name = answer_of(call.params, "user_name", "name")
    if name is None:
        return wanted("asked", user_name=form("What is your name?", name={"type": "string"}))
    require(call.context)

    async def work() -> types.CallToolResult:
        await asyncio.sleep(0.1)
        return _results.of_text(f"Hello, {name}!")

    task = call.place.tasks.begin(lambda task: work())
    assert task is not None
    return await call.place.tasks.soon(task, 0)


TOOLS = {
    "greet": tool(_greet, "a greeting, at once", Greet),
    "slow_compute": tool(_slow, "a result after some time", SlowCompute, soon=0),
    "failing_job": tool(_failing, "a task that fails", soon=0),
    "protocol_error_job": tool(_protocol_error, "a task that breaks the protocol", soon=0),
    "confirm_delete": tool(_confirm, "a task that asks", ConfirmDelete, soon=0),
    "multi_input": tool(_several, "a task that asks two things at once", soon=0),
    "test_tool_with_task": tool(_after_a_question, "a question, then a task"),
}
