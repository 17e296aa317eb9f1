"""What the code in the sandbox asks, put to the user of the client: elicitation.

Up to 2025-11-25 the server asks while the call runs. Since 2026-07-28 the call is answered with the question, and the
client makes it again with the answer: the code in the sandbox waits meanwhile, and its run is joined. A call that is a
task asks through that.
"""

from __future__ import annotations

import json
import os
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from .. import Asks, Leave, ToolCall, Tools
from .._adapters.telling import clip, readable
from ._place import ANSWER_TIME, Place
from ._tasks import Task

Context = ServerRequestContext[Any, Any]

KEY = "question"  # of the only one in a result
CHARS = 4000  # of a question
NO_APPROVAL = "the MCP client cannot ask its user for approval"


def answers(context: Context) -> bool:
    """Whether the client can put a form before its user."""
    capabilities = context.session.client_capabilities
    can = capabilities.elicitation if capabilities is not None else None
    return can is not None and (can.form is not None or can.url is None)


class Questions:
    """Those of one run. ``asked`` is one that the client has to bring the answer to, ``run_id`` the run's."""

    def __init__(
        self, context: Context, params: types.CallToolRequestParams, place: Place, task: Task | None
    ) -> None:
        self._context = context
        self._place = place
        self._task = task
        self._answer: types.ElicitResult | None = None
        self.asked: types.ElicitRequest | None = None
        self.run_id = os.urandom(16).hex()
        if params.request_state is not None:
            self._go_on(params)

    def _go_on(self, params: types.CallToolRequestParams) -> None:
        """The state has passed the SDK's check: it is one that we gave out, for these arguments."""
        state = json.loads(params.request_state or "{}")
        self.run_id = state["run_id"]
        answer = (params.input_responses or {}).get(KEY)
        if self._place.answered(state["question"]) and isinstance(answer, types.ElicitResult):
            self._answer = answer

    def asks(self, tools: Tools, allowed: set[str]) -> Asks:
        """For ``run()``: one question after the other, as an answer has no number."""
        can = answers(self._context)

        async def approve(call: ToolCall) -> bool | str:
            if call.tool in allowed:
                return True
            return await self._approve(call) if can else NO_APPROVAL

        return Asks(tools or None, self._line if can else None, approve if tools else None, serial=True)

    async def _line(self, prompt: str, password: bool = False) -> str | None:
        """None is the end of input. Secrets are not asked for, which the protocol forbids."""
        if password:
            return None
        said = f"The code in the sandbox asks: {prompt.strip() or 'for a line of input'}"
        line = {"type": "string", "title": "Answer"}
        content = await self._ask(
            said, {"type": "object", "properties": {"line": line}, "required": ["line"]}
        )
        return None if content is None else str(content.get("line") or "")

    async def _approve(self, call: ToolCall) -> bool | str:
        given = [repr(value) for value in call.args]
        given += [f"{name}={value!r}" for name, value in call.kwargs.items()]
        said = f"The code in the sandbox wants to call {call.tool}({', '.join(given)}) on this computer."
        allow = {"type": "boolean", "title": "Allow this call", "default": False}
        content = await self._ask(
            said, {"type": "object", "properties": {"allow": allow}, "required": ["allow"]}
        )
        return True if content is not None and content.get("allow") is True else "the user has denied it"

    async def _ask(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """The content of the form, None where the user does not answer."""
        message = readable(clip(message, CHARS))
        result = await self._put(message, schema)
        return result.content or {} if result.action == "accept" else None

    async def _put(self, message: str, schema: dict[str, Any]) -> types.ElicitResult:
        session = self._context.session
        if session.can_send_request:
            try:
                return await session.elicit_form(message, schema, self._context.request_id)
            except MCPError:
                return types.ElicitResult(action="cancel")
        params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
        if self._task is not None:
            return await self._task.ask(types.ElicitRequest(params=params), ANSWER_TIME)
        if self._answer is not None:
            answer, self._answer = self._answer, None
            return answer
        self.asked = types.ElicitRequest(params=params)
        raise Leave

    def unanswered(self) -> types.InputRequiredResult:
        """The result of a call that waits for the answer."""
        assert self.asked is not None
        question = self._place.waits(self.run_id)
        state = json.dumps({"run_id": self.run_id, "question": question})
        return types.InputRequiredResult(input_requests={KEY: self.asked}, request_state=state)
