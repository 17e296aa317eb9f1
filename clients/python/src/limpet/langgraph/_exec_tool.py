"""A tool that runs commands in a sandbox, beside the one that runs code in it."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, Field, PrivateAttr, create_model

from .. import Error, Result
from .._adapters import telling
from . import _content, _ctrl_c
from ._both import AnyClient, finish, settled
from ._order import OrderedTool, with_state
from ._tool import CodeSandbox, _longer

DESCRIPTION = (
    "Runs a line of bash in the sandbox and returns its output and exit code. It begins in /session, sees the same "
    "files as the code, and leaves the variables of the code alone. Standard input is empty."
)
NO_SESSION = "commands run only in a session, and this call has none: use code that runs them with subprocess"


class ExecTool(OrderedTool):
    """What :func:`exec_tool` makes."""

    handle_tool_error: bool = True

    _sandbox: CodeSandbox = PrivateAttr()
    _limits: telling.Limits = PrivateAttr()

    def _run(self, *, config: RunnableConfig, **arguments: Any) -> Any:
        return finish(self._call(self._sandbox._clients.blocking(), arguments, config))

    async def _arun(self, *, config: RunnableConfig, **arguments: Any) -> Any:
        return await self._call(await self._sandbox._clients.of_this_loop(), arguments, config)

    async def _call(
        self,
        client: AnyClient,
        arguments: dict[str, Any],
        config: RunnableConfig,
    ) -> Any:
        name = self._sandbox.session_name(config)
        if name is None:
            raise ToolException(NO_SESSION)
        state, call = arguments.pop("state", None), arguments.pop("tool_call_id", None)
        seconds, run_id = self._sandbox._seconds(arguments.pop("timeout", None)), uuid.uuid4().hex
        try:
            async with self._sandbox._order.turn(client, name, state, call):
                session = await self._sandbox._open(client, name, config)
                with _ctrl_c.noted(client, run_id):
                    result: Result = await settled(session.exec(**arguments, timeout=seconds, run_id=run_id))
                content = await _content.of_call(session, result, self._limits)
        except Error as error:
            if not telling.is_for_model(error, ""):
                raise
            raise ToolException(f"{error.name}: {error.message}") from None
        if not result.ok:
            raise ToolException(content)
        return content


def _arguments(max_timeout: float | None) -> type[BaseModel]:
    """What the model sees."""
    fields: dict[str, Any] = {
        "command": (str, Field(description="a line for bash")),
        "cwd": (str | None, Field(default=None, description="where it runs, relative to /session")),
    }
    if max_timeout is not None:
        text = f"time limit in seconds, at most {max_timeout:g}"
        fields["timeout"] = (float | None, Field(default=None, gt=0, le=max_timeout, description=text))
    return create_model("exec", **fields)


def exec_tool(sandbox: CodeSandbox, *, max_timeout: float | None = None) -> BaseTool:
    """The LangChain tool ``exec``, which runs commands in the session that a sandbox has.

    Args:
        sandbox: What :func:`code_sandbox` made. The code that it runs and the commands see the same files. A sandbox
            with another name than the usual gives the tool its name in front, as in ``NAME_exec``.
        max_timeout: If given, the model may set the time limit of a command, up to this number of seconds.

    Returns:
        The tool, for the list of an agent beside the sandbox. If a command fails, the model reads an error
        with its output and exit code.
    """
    if max_timeout is not None and not max_timeout > 0:
        raise ValueError(f"max_timeout must be above 0 seconds, not {max_timeout!r}")
    prefix = "" if sandbox.name == "code_sandbox" else f"{sandbox.name}_"
    arguments = with_state(_arguments(max_timeout))
    tool = ExecTool(name=f"{prefix}exec", description=DESCRIPTION, args_schema=arguments)
    tool._sandbox = sandbox
    tool._limits = dataclasses.replace(sandbox._limits, longer=_longer(max_timeout))
    sandbox._order.add(tool.name, arguments)
    return tool
