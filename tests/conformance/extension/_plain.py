"""Tools that return something, and say something meanwhile."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import Field

from limpet.mcp import _results
from limpet.mcp._calls import Call
from limpet.mcp._running import Arguments
from limpet.mcp._server import Tool

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
AUDIO = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="


class Nothing(Arguments):
    """A tool without arguments."""


class Region(Arguments):
    region: str = Field(default="<none>", json_schema_extra={"x-mcp-header": "Region"})


class Schema2020(Arguments):
    """Shown with words of JSON Schema 2020-12 that pydantic does not write."""

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        text = {"type": "string"}
        address = {"$anchor": "addressDef", "type": "object", "properties": {"street": text, "city": text}}
        method = {**text, "enum": ["phone", "email"]}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": address},
            "properties": {
                "name": text, "address": {"$ref": "#/$defs/address"}, "contactMethod": method, "phone": text,
                "email": text,
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        }  # fmt: skip


def image() -> types.ImageContent:
    return types.ImageContent(data=IMAGE, mime_type="image/png")


def resource(uri: str, text: str, mime_type: str = "text/plain") -> types.EmbeddedResource:
    return types.EmbeddedResource(
        resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    )


async def _text(call: Call, given: Nothing) -> types.CallToolResult:
    return _results.of_text("This is a simple text response for testing.")


async def _image(call: Call, given: Nothing) -> types.CallToolResult:
    return types.CallToolResult(content=[image()])


async def _audio(call: Call, given: Nothing) -> types.CallToolResult:
    return types.CallToolResult(content=[types.AudioContent(data=AUDIO, mime_type="audio/wav")])


async def _resource(call: Call, given: Nothing) -> types.CallToolResult:
    return types.CallToolResult(
        content=[resource("test://embedded-resource", "This is an embedded resource content.")]
    )


async def _several(call: Call, given: Nothing) -> types.CallToolResult:
    data = resource("test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json")
    text = types.TextContent(text="Multiple content types test:")
    return types.CallToolResult(content=[text, image(), data])


async def _error(call: Call, given: Nothing) -> types.CallToolResult:
    return _results.of_problem("This tool intentionally returns an error for testing")


async def _logging(call: Call, given: Nothing) -> types.CallToolResult:
    context = call.context
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", text, related_request_id=context.request_id)
    return _results.of_text("Tool with logging executed successfully")


async def _progress(call: Call, given: Nothing) -> types.CallToolResult:
    for step in (0, 50, 100):
        await call.context.session.report_progress(step, 100, f"Completed step {step} of 100")
    return _results.of_text(str((call.context.meta or {}).get("progress_token", 0)))


async def _region(call: Call, given: Region) -> types.CallToolResult:
    return _results.of_text(f"region={given.region}")


async def _schema(call: Call, given: Schema2020) -> types.CallToolResult:
    return _results.of_text("json_schema_2020_12_tool")


async def _capability(call: Call, given: Nothing) -> types.CallToolResult:
    capabilities = call.context.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool requires the client 'sampling' capability",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return _results.of_text("The client has declared sampling.")


def tool(work: Any, title: str, arguments: type[Arguments] = Nothing, soon: float | None = None) -> Tool:
    return Tool(work, arguments, title, f"For the conformance suite: {title}.", soon=soon)


TOOLS = {
    "test_simple_text": tool(_text, "text"),
    "test_image_content": tool(_image, "an image"),
    "test_audio_content": tool(_audio, "a sound"),
    "test_embedded_resource": tool(_resource, "a resource"),
    "test_multiple_content_types": tool(_several, "several contents"),
    "test_error_handling": tool(_error, "an error"),
    "test_tool_with_logging": tool(_logging, "log messages"),
    "test_logging_tool": tool(_logging, "log messages"),
    "test_tool_with_progress": tool(_progress, "progress"),
    "test_x_mcp_header": tool(_region, "an argument in a header", Region),
    "json_schema_2020_12_tool": tool(_schema, "a schema", Schema2020),
    "test_missing_capability": tool(_capability, "a capability of the client"),
}
