"""The description of the interface, made of the table of its operations."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import msgspec

from ... import __version__
from .._plain import encode
from ._call import Call
from ._operations import PREFIX, Operation, Query, operation, table

_REF = "#/components/schemas/{name}"
_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}


class ProblemDocument(msgspec.Struct, rename={"type_": "type"}):
    """What every error is answered with. `name` is stable, `detail` is for people."""

    type_: str
    title: str
    status: int
    name: str
    detail: str


@operation("GET", PREFIX + "/openapi.json", gives=dict[str, Any], open=True)
async def openapi(call: Call) -> Any:
    """This description."""
    return encoded()


@functools.cache
def encoded() -> bytes:
    """The document, as JSON."""
    return encode(document())


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    kinds = {
        kind
        for each in table.all
        for kind in (each.takes, *each.kinds, *each.also.values(), *each.events.values())
        if kind not in (None, bytes, str)
    }
    ordered = [*sorted(kinds, key=str), ProblemDocument]
    schemas, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    for name in ("changed", "state_protection"):
        kind = components["Result"]["properties"][name]
        components["Result"]["properties"][name] = {"anyOf": [kind, {"type": "null"}]}
    of = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in table.all:
        paths.setdefault(each.template, {})[each.method.lower()] = _operation(each, of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Limpet",
            "version": __version__,
            "summary": "Live Python sessions in containers",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"key": []}, {"bearer": []}],
    }


def _operation(each: Operation, of: dict[Any, Any]) -> dict[str, Any]:
    summary = (inspect.getdoc(each.handler) or "").partition("\n")[0]
    said: dict[str, Any] = {"operationId": each.name, "summary": summary, "responses": _responses(each, of)}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in each.parameters
    ]
    parameters += [_query(query) for query in each.query]
    if parameters:
        said["parameters"] = parameters
    if each.takes is bytes:
        said["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    elif each.takes is not None:
        said["requestBody"] = {"content": {"application/json": {"schema": of[each.takes]}}}
    if each.open:
        said["security"] = []
    return said


def _responses(each: Operation, of: dict[Any, Any]) -> dict[str, Any]:
    content = _content(each.kinds, of)
    if each.streams:
        content["text/event-stream"] = _stream(each, of)
    responses = {each.status if content else 204: content}
    if bytes in each.kinds:
        responses[206] = _content((bytes,), of)
    responses |= {status: _content((kind,), of) for status, kind in each.also.items()}
    problem = {"application/problem+json": {"schema": of[ProblemDocument]}}
    said = {
        str(status): {"description": _WORDS.get(status, "Done"), **({"content": content} if content else {})}
        for status, content in sorted(responses.items())
    }
    return {**said, "default": {"description": "An error", "content": problem}}


_WORDS = {201: "Made", 202: "Not done yet", 206: "The part that was asked for"}


def _content(kinds: tuple[Any, ...], of: dict[Any, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for kind in kinds:
        if kind is bytes:
            content["application/octet-stream"] = {}
        elif kind is str:
            content["text/plain"] = {"schema": {"type": "string"}}
        elif kind is not None:
            content["application/json"] = {"schema": of[kind]}
    return content


def _stream(each: Operation, of: dict[Any, Any]) -> dict[str, Any]:
    """OpenAPI 3.1 knows no schema of an event: the stream is text, and ``x-events`` has that of each one's data."""
    names = ", ".join(f"`{name}`" for name in each.events)
    told = f"Server-sent events: {names}. Their data is JSON, as x-events describes it."
    return {
        "schema": {"type": "string", "description": told},
        "x-events": {name: of[kind] for name, kind in each.events.items()},
    }


def _query(query: Query) -> dict[str, Any]:
    schema = {"type": _TYPES[query.type]}
    return {"name": query.name, "in": "query", "description": query.help, "schema": schema}
