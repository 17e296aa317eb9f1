"""Prompts, resources beside the real ones, completion, log levels, and notices of changes."""

from __future__ import annotations

import json
import re
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from limpet.mcp import _results
from limpet.mcp._calls import Call
from limpet.mcp._questions import Context
from limpet.mcp._server import Tool
from ._asking import answer_of, form, wanted
from ._plain import IMAGE, Nothing, image, resource, tool

_TEXTS = {
    "test://static-text": "This is the content of the static text resource.",
    "test://watched-resource": "Watched resource content",
}
_BINARY = "test://static-binary"
_TEMPLATE = re.compile(r"test://template/([^/]+)/data\Z")


def extend(server: Server[Any]) -> None:
    """Adds them to a server."""
    _add_resources(server)
    _add_prompts(server)

    async def nothing(context: Context, params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    async def complete(context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))

    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, nothing)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)
    server.add_request_handler(
        "subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(_BUS)
    )


_BUS = InMemorySubscriptionBus()


async def _tools_changed(call: Call, given: Nothing) -> types.CallToolResult:
    await _BUS.publish(ToolsListChanged())
    return _results.of_text("tool list changed")


async def _prompts_changed(call: Call, given: Nothing) -> types.CallToolResult:
    await _BUS.publish(PromptsListChanged())
    return _results.of_text("prompt list changed")


TOOLS: dict[str, Tool] = {
    "test_trigger_tool_change": tool(_tools_changed, "a notice that tools have changed"),
    "test_trigger_prompt_change": tool(_prompts_changed, "a notice that prompts have changed"),
}


# Resources


def _add_resources(server: Server[Any]) -> None:
    real = {
        method: server.get_request_handler(f"resources/{method}")
        for method in ("list", "templates/list", "read")
    }

    async def list_resources(context: Context, params: Any) -> Any:
        listed: Any = await real["list"].handler(context, params)  # type: ignore[union-attr]
        mine = [types.Resource(name=uri.rpartition("/")[2], uri=uri) for uri in (*_TEXTS, _BINARY)]
        return listed.model_copy(update={"resources": [*listed.resources, *mine]})

    async def list_templates(context: Context, params: Any) -> Any:
        listed: Any = await real["templates/list"].handler(context, params)  # type: ignore[union-attr]
        mine = types.ResourceTemplate(name="template", uri_template="test://template/{id}/data")
        return listed.model_copy(update={"resource_templates": [*listed.resource_templates, mine]})

    async def read(context: Context, params: types.ReadResourceRequestParams) -> Any:
        found = _read(str(params.uri))
        if found is None:
            return await real["read"].handler(context, params)  # type: ignore[union-attr]
        return types.ReadResourceResult(contents=[found], ttl_ms=0)

    server.add_request_handler("resources/list", types.PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read)


def _read(uri: str) -> types.TextResourceContents | types.BlobResourceContents | None:
    if uri in _TEXTS:
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=_TEXTS[uri])
    if uri == _BINARY:
        return types.BlobResourceContents(uri=uri, mime_type="image/png", blob=IMAGE)
    if found := _TEMPLATE.match(uri):
        text = json.dumps({"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"})
        return types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
    return None


# Prompts

_PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def _add_prompts(server: Server[Any]) -> None:
    async def list_prompts(context: Context, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(ttl_ms=0, prompts=[
            types.Prompt(
                name=name,
                description="For the conformance suite.",
                arguments=[types.PromptArgument(name=each, required=True) for each in arguments],
            )
            for name, arguments in _PROMPTS.items()
        ])  # fmt: skip

    async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> Any:
        return _prompt(params)

    server.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)


def _prompt(params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    missing = [name for name in _PROMPTS.get(params.name, ()) if name not in given]
    if params.name not in _PROMPTS or missing:
        raise MCPError(types.INVALID_PARAMS, f"there is no such prompt, or it lacks arguments: {missing}")
    if params.name == "test_prompt_with_arguments":
        return _said(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")
    if params.name == "test_prompt_with_embedded_resource":
        text = "Embedded resource content for testing."
        return _said(resource(given["resourceUri"], text), "Please process the embedded resource above.")
    if params.name == "test_prompt_with_image":
        return _said(image(), "Please analyze the image above.")
    if params.name == "test_simple_prompt":
        return _said("This is a simple prompt for testing.")
    context = answer_of(params, "user_context", "context")
    if context is None:
        return wanted(user_context=form("What context should the prompt use?", context={"type": "string"}))
    return _said(f"Use the following context: {context}")


def _said(*contents: Any) -> types.GetPromptResult:
    blocks = [types.TextContent(text=each) if isinstance(each, str) else each for each in contents]
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=block) for block in blocks]
    )
