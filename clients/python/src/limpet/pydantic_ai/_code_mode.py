"""Code mode: the model writes Python that calls the agent's tools. A time limit takes nothing but its snippet."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any, Generic, Literal, cast

from pydantic import Field, TypeAdapter
from pydantic_ai import AbstractToolset, RunContext, ToolDefinition, ToolReturn, WrapperToolset
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, UserError
from pydantic_ai.function_signature import FunctionSignature
from pydantic_ai.messages import BinaryContent, ToolCallPart
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import AgentDepsT, ToolDenied, ToolSelector, matches_tool_selector
from pydantic_ai.toolsets.abstract import SchemaValidatorProt, ToolsetTool
from pydantic_core import to_jsonable_python
from typing_extensions import NotRequired, TypedDict

from .. import AsyncSession, Error, Result
from .._adapters import cells
from .._adapters.telling import Limits, is_for_model, of_call, of_failure
from .._calls._asks import Approve
from ._workspace import LimpetWorkspace

RUN_CODE = "run_code"
NATIVE_KINDS = frozenset({"tool-search", "capability-load"})  # which the framework needs itself
LIMITS = Limits(chars=20_000, images=4)
TOOL_CALLS = 100
HEAD = """Runs Python in a sandbox, as a cell of a notebook: variables, imports and functions stay for the next call.

The Python is the full language, with the libraries that the sandbox has. Print what you want to see; the value of the
last expression is shown as well. Figures are shown as images. Files are in /session."""
ROLLBACK = """
A call that raises, or takes longer than {timeout:g} seconds, leaves nothing behind in the variables: they are as before
it, so correct the code and call again. Files, and what functions below have done, are not taken back."""
FUNCTIONS = """
These functions are there already. They are called without await and by keyword only, and return plain data:

```python
{definitions}
```"""


class RunCodeArgs(TypedDict):
    """Arguments of ``run_code``."""

    code: Annotated[str, Field(description="The Python code to run.")]
    restart: NotRequired[Annotated[bool, Field(description="Whether to begin with an empty interpreter.")]]


ARGS = TypeAdapter(RunCodeArgs)


@dataclass
class CodeMode(AbstractCapability[AgentDepsT]):
    """One tool, ``run_code``, in place of an agent's tools: its code calls them as functions.

    A snippet that raises or reaches its time limit is taken back: variables are as they were before it.
    """

    tools: ToolSelector[AgentDepsT] = "all"
    """Those that code calls; the others stay as they are."""
    _: KW_ONLY
    workspace: LimpetWorkspace | None = None
    """Whose session runs the code; by default each run of the agent has a session of its own."""
    timeout: float = 30
    """Seconds for a snippet, without those in which it waits for a tool."""
    on_error: Literal["rollback", "keep"] = "rollback"
    """Whether variables are taken back when a snippet fails."""
    approve: Approve | None = None
    """Asked before each call of a tool by code, see :meth:`limpet.Session.run`. Tools that require approval need it."""
    max_tool_calls: int = TOOL_CALLS
    """Calls of tools in a snippet."""

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        """The agent's tools behind ``run_code``."""
        return CodeModeToolset(toolset, self)


@dataclass(kw_only=True)
class _RunCodeTool(ToolsetTool[AgentDepsT]):
    functions: dict[str, str]
    """Names in the code, with those of the tools."""
    behind: dict[str, ToolsetTool[AgentDepsT]]


@dataclass
class CodeModeToolset(WrapperToolset[AgentDepsT]):
    """What :class:`CodeMode` makes of an agent's tools, for one run."""

    mode: CodeMode[AgentDepsT]
    _own: LimpetWorkspace | None = None
    _imported: tuple[str, ...] = field(default=(), repr=False)

    async def __aexit__(self, *args: Any) -> bool | None:
        """Closes the session of this run."""
        own, self._own = self._own, None
        try:
            if own is not None and own.ref is not None:
                await (await own.session()).close()
        finally:
            ended = await self.wrapped.__aexit__(*args)
        return ended

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """``run_code``, and the tools that stay as they are."""
        tools = await self.wrapped.get_tools(ctx)
        behind = {name: tool for name, tool in tools.items() if await self._is_behind(ctx, tool.tool_def)}
        shown = {name: tool for name, tool in tools.items() if name not in behind}
        if RUN_CODE in shown:
            raise UserError(f"the name '{RUN_CODE}' is code mode's; rename your tool")
        functions = _names(behind)
        shown[RUN_CODE] = _RunCodeTool(
            toolset=self,
            tool_def=ToolDefinition(
                name=RUN_CODE,
                description=self._description(
                    {code: behind[name].tool_def for code, name in functions.items()}
                ),
                parameters_json_schema=ARGS.json_schema(),
                metadata={"code_arg_name": "code", "code_arg_language": "python"},
                sequential=True,
            ),
            max_retries=1,
            args_validator=cast(SchemaValidatorProt, ARGS.validator),
            functions=functions,
            behind=behind,
        )
        return shown

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        """Runs the code, or a tool that is not behind it."""
        if not isinstance(tool, _RunCodeTool):
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        calls = _Calls(self.wrapped, ctx, tool, self.mode)
        try:
            result = await self._run(tool_args["code"], bool(tool_args.get("restart")), calls)
        except Error as error:
            if not is_for_model(error, tool_args["code"]):
                raise
            self._imported = ()
            return of_failure(error)
        text, images = await of_call(await self._session(), result, LIMITS, tool_args["code"])
        if not result.ok and calls.made:
            text += f"\nCalled before it failed, and not taken back: {', '.join(calls.made)}"
        content = [BinaryContent(image.data, media_type=image.mime_type) for image in images]
        return ToolReturn(text, content=content or None, metadata={"limpet": result.to_dict()})

    async def _run(self, code: str, restart: bool, calls: _Calls[AgentDepsT]) -> Result:
        session = await self._session()
        if restart:
            await session.reset()
            self._imported = ()
        functions, names = calls.functions(), tuple(calls.tool.functions)
        if names and names != self._imported:
            await session.run(f"from limpet_tools import {', '.join(names)}", tools=functions)
            self._imported = names
        result = await session.run(
            cells.of_model(code),
            self.mode.timeout,
            tools=functions,
            approve=self.mode.approve,
            on_error=self.mode.on_error,
        )
        if result.state == "lost":
            self._imported = ()
        return result

    async def _session(self) -> AsyncSession:
        workspace = self.mode.workspace or self._own
        if workspace is None:
            workspace = self._own = LimpetWorkspace(checkpoint="always")
        return await workspace.session()

    async def _is_behind(self, ctx: RunContext[AgentDepsT], tool: ToolDefinition) -> bool:
        return (
            tool.tool_kind not in NATIVE_KINDS
            and not tool.unless_native
            and "code_arg_name" not in (tool.metadata or {})
            and ctx.is_tool_available(tool)
            and await matches_tool_selector(self.mode.tools, ctx, tool)
        )

    def _description(self, functions: Mapping[str, ToolDefinition]) -> str:
        text = HEAD
        if self.mode.on_error == "rollback":
            text += ROLLBACK.format(timeout=self.mode.timeout)
        if functions:
            text += _catalog(functions)
        return text


class _Calls(Generic[AgentDepsT]):
    """The tools that one snippet may call, and those that it has called."""

    def __init__(
        self,
        wrapped: AbstractToolset[AgentDepsT],
        ctx: RunContext[AgentDepsT],
        tool: _RunCodeTool[AgentDepsT],
        mode: CodeMode[AgentDepsT],
    ) -> None:
        assert ctx.tool_manager is not None
        self.tool = tool
        self.made: list[str] = []
        self._ctx = ctx
        self._mode = mode
        self._manager = ToolManager(
            toolset=wrapped, root_capability=ctx.tool_manager.root_capability, ctx=ctx, tools=tool.behind
        )

    def functions(self) -> dict[str, Callable[..., Any]]:
        return {code: self._function(name) for code, name in self.tool.functions.items()}

    def _function(self, name: str) -> Callable[..., Any]:
        async def call(**kwargs: Any) -> Any:
            return await self._call(name, kwargs)

        call.__doc__ = self.tool.behind[name].tool_def.description
        return call

    async def _call(self, name: str, kwargs: dict[str, Any]) -> Any:
        """What happens where code calls a tool. Exceptions are raised there."""
        if len(self.made) >= self._mode.max_tool_calls:
            raise RuntimeError(f"a snippet calls {self._mode.max_tool_calls} tools at most")
        self.made.append(name)
        if self._ctx.usage_limits is not None:
            used = self._ctx.usage.tool_calls + 1
            self._ctx.usage_limits.check_before_tool_call(replace(self._ctx.usage, tool_calls=used))
        call = ToolCallPart(name, kwargs, tool_call_id=f"{self._ctx.tool_call_id}.{len(self.made)}")
        approved = self._mode.approve is not None  # it was asked before this
        try:
            value = await self._manager.handle_call(call, approved=approved, wrap_validation_errors=False)
        except (ApprovalRequired, CallDeferred) as error:
            raise PermissionError(
                f"{name} needs an approval that code cannot wait for; see CodeMode.approve"
            ) from error
        if isinstance(value, ToolDenied):
            raise PermissionError(value.message)
        return to_jsonable_python(value.return_value if isinstance(value, ToolReturn) else value)


def _names(tools: Mapping[str, Any]) -> dict[str, str]:
    """The tools by names that code can call them by."""
    names: dict[str, str] = {}
    for name in tools:
        code = re.sub(r"\W", "_", name, flags=re.ASCII)
        code = f"{code}_" if keyword.iskeyword(code) else code
        code = code if code[:1].isalpha() else f"tool_{code.lstrip('_')}"
        if code in names:
            raise UserError(
                f"the tools '{names[code]}' and '{name}' have the same name in code, {code}; rename one"
            )
        names[code] = name
    return names


def _catalog(functions: Mapping[str, ToolDefinition]) -> str:
    signatures = [tool.function_signature for tool in functions.values()]
    conflicting = FunctionSignature.get_conflicting_type_names(signatures)
    definitions = FunctionSignature.render_type_definitions(signatures, conflicting)
    for code, tool in functions.items():
        named = replace(tool, name=code)
        definitions.append(named.render_signature("...", is_async=False, conflicting_type_names=conflicting))
    return FUNCTIONS.format(definitions="\n\n".join(definitions))
