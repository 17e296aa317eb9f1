"""The methods by which a client asks for its tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ._place import Place
from ._tasks import EXTENSION, Context, Task, are_taken

NAME = "mcp-name"  # the header that repeats the id


class Get(types.RequestParams):
    """Also those of ``tasks/cancel``."""

    task_id: str


class Update(Get):
    """Answers to questions."""

    input_responses: dict[str, Any]


def serve_tasks(server: Server[Any], find: Callable[[Context], Place]) -> None:
    """Serves them, and says so."""

    def found(context: Context, params: Get) -> Task:
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)
        require(context)
        header = context.request.headers.get(NAME) if context.request is not None else None
        if header not in (None, params.task_id):
            raise MCPError(types.HEADER_MISMATCH, f"the header {NAME} is not the id of the task")
        task = find(context).tasks.get(params.task_id)
        if task is None:
            raise MCPError(types.INVALID_PARAMS, "there is no such task (any more)")
        return task

    async def get(context: Context, params: Get) -> dict[str, Any]:
        return found(context, params).detailed()

    async def update(context: Context, params: Update) -> dict[str, Any]:
        found(context, params).answer(params.input_responses)
        return {}

    async def cancel(context: Context, params: Get) -> dict[str, Any]:
        found(context, params).cancel()
        return {}

    server.extensions[EXTENSION] = {}
    server.add_request_handler("tasks/get", Get, get)
    server.add_request_handler("tasks/update", Update, update)
    server.add_request_handler("tasks/cancel", Get, cancel)


def require(context: Context) -> None:
    """Raises MCPError where the client has not declared the extension."""
    if not are_taken(context):
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this needs the tasks of the protocol, which the client has not declared",
            {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
        )
