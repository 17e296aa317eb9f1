"""Tools on the session that a sandbox has for a thread, beside the one that runs code in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, PrivateAttr

from .. import BadRequest, Error, FileFailed, NoSuchRun
from .._adapters import telling
from ._both import AnyClient, finish
from ._content import Content
from ._order import OrderedTool, with_state
from ._tool import CodeSandbox

Work = Callable[..., Awaitable[Content]]
"""Called with a session, the most characters that the model gets, and the arguments of the model."""

# What the model can do otherwise, where it is about its own request.
OF_THE_MODEL = BadRequest, FileFailed, NoSuchRun


class SessionTool(OrderedTool):
    """A tool that needs a session: without one, and where the sandbox refuses something, the model is told."""

    handle_tool_error: bool = True

    _sandbox: CodeSandbox = PrivateAttr()
    _work: Work = PrivateAttr()
    _no_session: str = PrivateAttr()

    def _run(self, *, config: RunnableConfig, **arguments: Any) -> Content:
        return finish(self._call(self._sandbox._clients.blocking(), arguments, config))

    async def _arun(self, *, config: RunnableConfig, **arguments: Any) -> Content:
        return await self._call(await self._sandbox._clients.of_this_loop(), arguments, config)

    async def _call(self, client: AnyClient, arguments: dict[str, Any], config: RunnableConfig) -> Content:
        name = self._sandbox.session_name(config)
        if name is None:
            raise ToolException(self._no_session)
        state, call = arguments.pop("state", None), arguments.pop("tool_call_id", None)
        opened = False
        try:
            async with self._sandbox._order.turn(client, name, state, call):
                session = await self._sandbox._open(client, name, config)
                opened = True
                return await self._work(session, self._sandbox._limits.chars, **arguments)
        except Error as error:
            if not telling.is_for_model(error, "") and not (opened and isinstance(error, OF_THE_MODEL)):
                raise
            raise ToolException(f"{error.name}: {error.message}") from None


def tools_of(
    sandbox: CodeSandbox, described: Mapping[str, tuple[str, type[BaseModel], Work]], no_session: str
) -> list[BaseTool]:
    """A tool for each description: text for the model, arguments, work."""
    prefix = "" if sandbox.name == "code_sandbox" else f"{sandbox.name}_"
    tools: list[BaseTool] = []
    for name, (description, arguments, work) in described.items():
        schema = with_state(arguments)
        tool = SessionTool(name=f"{prefix}{name}", description=description, args_schema=schema)
        sandbox._order.add(tool.name, schema)
        tool._sandbox, tool._work, tool._no_session = sandbox, work, no_session
        tools.append(tool)
    return tools
