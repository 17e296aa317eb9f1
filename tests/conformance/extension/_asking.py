"""Tools that ask the client: while they run, up to 2025-11-25, or by a result that wants input, since 2026-07-28."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types

from limpet.mcp import _results
from limpet.mcp._calls import Call
from limpet.mcp._running import Arguments
from ._plain import Nothing, tool

Answer = types.CallToolResult | types.InputRequiredResult

_TEXT = {"type": "string"}
_OPTIONS = ("option1", "option2", "option3")


class Prompt(Arguments):
    prompt: str


class Message(Arguments):
    message: str


def form(message: str, **properties: Any) -> types.ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(text: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    )


def wanted(state: str | None = None, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def answer_of(params: types.InputResponseRequestParams, key: str, name: str) -> Any:
    """A field of a form that was accepted; None where there is none."""
    answer = (params.input_responses or {}).get(key)
    return (answer.content or {}).get(name) if isinstance(answer, types.ElicitResult) else None


# While they run


async def _sampling(call: Call, given: Prompt) -> Answer:
    context = call.context
    message = types.SamplingMessage(role="user", content=types.TextContent(text=given.prompt))
    result: Any = await context.session.create_message(
        messages=[message], max_tokens=100, related_request_id=context.request_id
    )
    return _results.of_text(f"LLM response: {getattr(result.content, 'text', 'No response')}")


async def _elicit(call: Call, message: str, properties: dict[str, Any]) -> Answer:
    schema = {"type": "object", "properties": properties}
    result = await call.context.session.elicit_form(message, schema, call.context.request_id)
    return _results.of_text(
        f"User response: action={result.action}, content={json.dumps(result.content or {})}"
    )


async def _elicitation(call: Call, given: Message) -> Answer:
    return await _elicit(call, given.message, {"response": {**_TEXT, "description": "User's response"}})


async def _defaults(call: Call, given: Nothing) -> Answer:
    return await _elicit(call, "Please provide user information", {
        "name": {**_TEXT, "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {**_TEXT, "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    })  # fmt: skip


async def _enums(call: Call, given: Nothing) -> Answer:
    titled = [{"const": value, "title": f"Title of {value}"} for value in _OPTIONS]
    return await _elicit(call, "Please choose", {
        "untitledSingle": {**_TEXT, "enum": _OPTIONS},
        "titledSingle": {**_TEXT, "oneOf": titled},
        "untitledMulti": {"type": "array", "items": {**_TEXT, "enum": _OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        "legacyEnum": {**_TEXT, "enum": _OPTIONS, "enumNames": [f"Title of {value}" for value in _OPTIONS]},
    })  # fmt: skip


# By results that want input


async def _name(call: Call, given: Nothing) -> Answer:
    name = answer_of(call.params, "user_name", "name")
    if name is None:
        return wanted(user_name=form("What is your name?", name=_TEXT))
    return _results.of_text(f"Hello, {name}!")


async def _capital(call: Call, given: Nothing) -> Answer:
    answer: Any = (call.params.input_responses or {}).get("capital_question")
    if not isinstance(answer, types.CreateMessageResult):
        return wanted(capital_question=sampling("What is the capital of France?"))
    return _results.of_text(f"Model said: {getattr(answer.content, 'text', '?')}")


async def _roots(call: Call, given: Nothing) -> Answer:
    answer = (call.params.input_responses or {}).get("client_roots")
    if not isinstance(answer, types.ListRootsResult):
        return wanted(client_roots=types.ListRootsRequest())
    return _results.of_text(f"The client has {len(answer.roots)} root(s).")


async def _state(call: Call, given: Nothing) -> Answer:
    if call.params.request_state is None or answer_of(call.params, "confirm", "ok") is None:
        return wanted("asked", confirm=form("Please confirm", ok={"type": "boolean"}))
    return _results.of_text("state-ok: confirmation received")


async def _all(call: Call, given: Nothing) -> Answer:
    if {"user_name", "greeting", "client_roots"} <= (call.params.input_responses or {}).keys():
        return _results.of_text("All inputs received.")
    return wanted(
        "asked",
        user_name=form("What is your name?", name=_TEXT),
        greeting=sampling("Generate a greeting"),
        client_roots=types.ListRootsRequest(),
    )


async def _rounds(call: Call, given: Nothing) -> Answer:
    state = json.loads(call.params.request_state or "{}")
    name, color = answer_of(call.params, "step1", "name"), answer_of(call.params, "step2", "color")
    if state.get("round") == 2 and color is not None:
        return _results.of_text(f"{state['name']} likes {color}.")
    if state.get("round") == 1 and name is not None:
        said = json.dumps({"round": 2, "name": name})
        return wanted(said, step2=form("Step 2: What is your favorite color?", color=_TEXT))
    return wanted('{"round": 1}', step1=form("Step 1: What is your name?", name=_TEXT))


async def _by_capability(call: Call, given: Nothing) -> Answer:
    can = call.context.session.client_capabilities
    requests: dict[str, Any] = {}
    if can is not None and can.sampling is not None:
        requests["sample"] = sampling("Say hello")
    if can is not None and can.elicitation is not None:
        requests["ask"] = form("What is your name?", name=_TEXT)
    return wanted("asked", **requests)


async def _streaming(call: Call, given: Nothing) -> Answer:
    await call.context.session.report_progress(1, 2, "asking")
    return await _name(call, given)


_WANTS = "test_input_required_result_"
TOOLS = {
    "test_sampling": tool(_sampling, "asks the client's model", Prompt),
    "test_elicitation": tool(_elicitation, "asks the user", Message),
    "test_elicitation_sep1034_defaults": tool(_defaults, "a form with defaults"),
    "test_elicitation_sep1330_enums": tool(_enums, "a form with choices"),
    "test_streaming_elicitation": tool(_streaming, "progress, then a question"),
    _WANTS + "elicitation": tool(_name, "wants a form"),
    _WANTS + "sampling": tool(_capital, "wants the client's model"),
    _WANTS + "list_roots": tool(_roots, "wants roots"),
    _WANTS + "request_state": tool(_state, "wants a form, with a state"),
    _WANTS + "tampered_state": tool(_state, "wants a form, with a state"),
    _WANTS + "multiple_inputs": tool(_all, "wants three things"),
    _WANTS + "multi_round": tool(_rounds, "wants one thing after the other"),
    _WANTS + "capabilities": tool(_by_capability, "wants what the client can"),
}
