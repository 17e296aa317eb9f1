"""What answers the questions of sandboxed code, as the caller has given it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ._tools import Tool, Tools, check_callable, collect

ToolTime = Literal["pause", "count"]
Function = Callable[..., Any]
OnInput = Callable[..., Any]
"""Takes the prompt and, if it has such a parameter, ``password``; returns a line, None at the end of input, or an
awaitable of these."""
Approve = Callable[["ToolCall"], Any]
"""Returns True, False, a reason for a denial, a :class:`ToolCall` with other arguments, or an awaitable of these."""


@dataclass(frozen=True)
class ToolCall:
    """A call of a host function by code in the sandbox, which ``approve`` allows or denies."""

    tool: str
    args: tuple[Any, ...] = dataclasses.field(hash=False)
    kwargs: dict[str, Any] = dataclasses.field(hash=False)
    run_id: str
    session: str | None
    """None for a call without a session."""
    number: int = 0
    """Number of the question within the run."""

    def with_arguments(self, *args: Any, **kwargs: Any) -> ToolCall:
        """Returns the same call with other arguments, as an answer of ``approve``."""
        return dataclasses.replace(self, args=args, kwargs=kwargs)


class Asks:
    """What answers the questions of a call, checked once: what ``tools`` of :meth:`limpet.Session.run` may be as well.

    ``mode`` is None when there is nothing that could answer. With ``serial`` a tool ends before anybody is asked
    about the next one.
    """

    def __init__(
        self,
        tools: Tools | None = None,
        on_input: OnInput | None = None,
        approve: Approve | None = None,
        tool_time: ToolTime | None = None,
        *,
        serial: bool = False,
    ) -> None:
        if tool_time not in (None, "pause", "count"):
            raise ValueError(f'tool_time must be "pause" or "count", not {tool_time!r}')
        check_callable(on_input=on_input, approve=approve)
        self.on_input = on_input
        self.approve = approve
        self.tool_time = tool_time
        self.serial = serial
        self._takes_password = on_input is not None and _takes_password(on_input)
        self.use({} if tools is None else collect(tools))

    def use(self, tools: dict[str, Tool]) -> None:
        """These, in place of those it was made with."""
        self.tools = tools
        self.mode: ToolTime | None = self.tool_time or "pause" if tools or self.on_input else None

    def but(
        self,
        tools: Tools | Asks | None,
        on_input: OnInput | None,
        approve: Approve | None,
        tool_time: ToolTime | None,
    ) -> Asks:
        """For one call: what is given instead of what is here."""
        if isinstance(tools, Asks):
            return tools
        if tools is None and on_input is None and approve is None and tool_time is None:
            return self
        asks = Asks(tools, on_input or self.on_input, approve or self.approve, tool_time or self.tool_time)
        if tools is None:
            asks.use(self.tools)
        if approve is not None and not asks.tools:
            raise ValueError("approve needs tools, and there are none; pass tools as well")
        if tool_time is not None and asks.mode is None:
            raise ValueError("tool_time needs tools or on_input, and there are none")
        return asks

    def line(self, prompt: str, secret: bool) -> Callable[[], Any]:
        """The call of on_input."""
        on_input = self.on_input
        assert on_input is not None
        if self._takes_password:
            return lambda: on_input(prompt, password=secret)
        return lambda: on_input(prompt)


NO_ASKS = Asks()


def _takes_password(function: Function) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        parameter.name == "password" or parameter.kind is inspect.Parameter.VAR_KEYWORD
        for parameter in parameters
    )
