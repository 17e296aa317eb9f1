"""The MCP server: what it offers, and how a request becomes a call of the sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from .. import Busy, Error, NoSuchSession, SessionClosed, Tools, Unavailable, __version__
from .._adapters.telling import Limits
from . import _filing, _installing, _resources, _results, _running, _stating
from ._calls import Call
from ._place import ANSWER_TIME, Place
from ._questions import Context
from ._task_methods import serve_tasks
from ._tasks import SOON

NAME = "limpet"
INSTRUCTIONS = (
    "A live Python session in a sandbox. Variables, imports and files stay between calls, unless a result says "
    "otherwise: after a crash or a time limit that had to kill, the variables go back to an earlier call, and the "
    "result names it. Files that users should get belong below /session/artifacts."
)
PROBLEMS = 8  # of arguments that are wrong


Answer = types.CallToolResult | types.InputRequiredResult | dict[str, Any]
"""Of a call; a dict is a task."""


@dataclass(frozen=True)
class Tool:
    """One of the table below. ``soon`` are the seconds after which a call becomes a task; None is never."""

    work: Callable[[Call, Any], Awaitable[Answer]]
    arguments: type[_running.Arguments]
    title: str
    description: str
    output: dict[str, Any] | None = None
    reads_only: bool = False
    soon: float | None = None

    def listed(self, name: str) -> types.Tool:
        """As clients see it."""
        return types.Tool(
            name=name,
            title=self.title,
            description=self.description,
            input_schema=_without_titles(self.arguments.model_json_schema()),
            output_schema=self.output,
            annotations=types.ToolAnnotations(
                read_only_hint=self.reads_only, destructive_hint=not self.reads_only, open_world_hint=False
            ),
        )


def _without_titles(schema: Any) -> Any:
    """They say what the names say."""
    if isinstance(schema, dict):
        return {name: _without_titles(value) for name, value in schema.items() if name != "title"}
    return [_without_titles(value) for value in schema] if isinstance(schema, list) else schema


TOOLS = {
    "run_python": Tool(
        _running.run_python,
        _running.RunPython,
        "Run Python",
        "Runs Python code in the session and returns what it printed, the value of its last expression, figures as "
        "images, its error if it fails, and links to the files that it created below /session/artifacts. Variables, "
        "imports and files persist between calls, unless a result says otherwise.",
        _results.RECORD,
        soon=SOON,
    ),
    "exec": Tool(
        _running.exec_,
        _running.Exec,
        "Run a command",
        "Runs a line of bash in the sandbox and returns its output and exit code. It begins in /session, sees the same "
        "files as the code, and leaves the variables alone. Standard input is empty.",
        _results.RECORD,
        soon=SOON,
    ),
    "read_file": Tool(
        _filing.read_file,
        _filing.ReadFile,
        "Read a file",
        "Reads a file of the sandbox: lines of text, an image, or bytes as base64.",
        reads_only=True,
    ),
    "write_file": Tool(
        _filing.write_file,
        _filing.WriteFile,
        "Write a file",
        "Writes a file of the sandbox; one that is there is replaced, and directories are made.",
    ),
    "list_files": Tool(
        _filing.list_files,
        _filing.ListFiles,
        "List files",
        "Lists a directory of the sandbox: directories end in /, files have their size.",
        _filing.LIST,
        reads_only=True,
    ),
    "install": Tool(
        _installing.install,
        _installing.Install,
        "Install packages",
        "Installs Python packages in the session, whose code can import them at once. pip and a network are not needed "
        "for that. Returns all that the session has installed, with versions.",
        _installing.INSTALLED,
        soon=SOON,
    ),
    "checkpoint": Tool(
        _stating.checkpoint,
        _stating.TakeCheckpoint,
        "Take a checkpoint",
        "Keeps a copy of all variables as they are now, for rollback.",
    ),
    "rollback": Tool(
        _stating.rollback,
        _stating.RollBack,
        "Roll back",
        "Makes the variables what they were at a checkpoint, and the files where it has them. The checkpoint is kept.",
    ),
    "branch": Tool(
        _stating.branch,
        _stating.UseBranch,
        "Branch",
        "Opens, commits or closes a branch: variables of its own that begin as copies of the session's, to try "
        "something. Files are shared.",
    ),
    "try_each": Tool(
        _running.try_each,
        _running.TryEach,
        "Try several",
        "Runs each code in a branch of its own, all from the variables as they are now. Nothing changes in the session "
        "until one of the branches is committed.",
        _running.TRIED,
        soon=SOON,
    ),
}


def make(
    find: Callable[[Context], Place],
    limits: Limits,
    tools: Tools,
    allowed: set[str],
    offered: Mapping[str, Tool] = TOOLS,
) -> Server[Any]:
    """A server.

    Args:
        find: Where the calls of the connection run that this request belongs to.
        limits: Of what the model is shown.
        tools: Functions that the code may call.
        allowed: Those that need no approval of the user.
        offered: Its tools, by their names.
    """

    async def list_tools(context: Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool.listed(name) for name, tool in offered.items()])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
        tool = offered.get(params.name)
        if tool is None:
            raise MCPError(
                types.INVALID_PARAMS, f"Unknown tool: {params.name}; there are {', '.join(offered)}"
            )
        return await _called(Call(context, params, find(context), limits, tools, allowed), tool)

    async def list_resources(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return await _resources.list_resources(find(context), params)

    async def list_templates(context: Context, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[_resources.TEMPLATE])

    async def read_resource(
        context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await _resources.read_resource(find(context), str(params.uri))

    schemas = {name: tool.listed(name).input_schema for name, tool in offered.items()}
    mirrored = {name: schema for name, schema in schemas.items() if "'x-mcp-header'" in repr(schema)}
    forever = CacheHint(ttl_ms=86_400_000, scope="public")
    server: Server[Any] = Server(
        NAME,
        title="Limpet",
        version=__version__,
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": forever, "resources/templates/list": forever},
        get_tool_input_schema=mirrored.get,  # of the others each call would walk the whole schema for nothing
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )
    security = RequestStateSecurity.ephemeral(ttl=ANSWER_TIME)
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    serve_tasks(server, find)
    return server


async def _called(call: Call, tool: Tool) -> Answer:
    try:
        given = tool.arguments.model_validate(call.params.arguments or {})
    except ValidationError as error:
        return _results.of_problem(f"The arguments are wrong: {_problems(error)}")
    if tool.soon is None or not call.takes_tasks:
        return await _worked(call, tool, given)
    tasks = call.place.tasks
    task = tasks.begin(lambda task: _worked(replace(call, task=task), tool, given))
    if task is None:
        return await _worked(call, tool, given)
    answer: Answer = await tasks.soon(task, tool.soon)
    return answer


async def _worked(call: Call, tool: Tool, given: Any) -> Answer:
    try:
        return await tool.work(call, given)
    except Error as error:
        return _results.of_problem(f"{error.name}: {error.message} {await _told(call.place, error)}".strip())


async def _told(place: Place, error: Error) -> str:
    """What this means for the model."""
    if isinstance(error, Unavailable) and place.has_session:
        return "It is unknown whether that was carried out; try again in a moment."
    if isinstance(error, (NoSuchSession, SessionClosed)) and await place.is_gone():
        return "The session ended; its variables and files are gone. The next call starts a new session."
    return "Too many calls wait; try again when others have ended." if isinstance(error, Busy) else ""


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    texts = [f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in found[:PROBLEMS]]
    return "; ".join(texts)
