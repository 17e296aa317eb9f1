"""Results of tools, from records of calls: text and figures for the model, the same as data, links to artifacts."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import mcp_types as types

from .. import ArtifactInfo, AsyncSession, Result
from .._adapters import telling
from .._adapters.telling import Limits, clip, readable
from ._place import Home

T = TypeVar("T")

ARTIFACTS = "/session/artifacts/"
SCHEME = "limpet://artifacts/"

_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}
_TEXTS = {"type": "array", "items": _TEXT}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_COUNT_OR_NULL = {"type": ["integer", "null"]}

_OBJECT = {"type": "object"}
_OBJECT_OR_NULL = {"type": ["object", "null"]}

_FIELDS: dict[str, Any] = {
    "run_id": _TEXT,
    "session": _TEXT_OR_NULL,
    "engine": _TEXT,
    "execution_count": _COUNT_OR_NULL,
    "status": {"enum": ["ok", "error", "timeout", "interrupted", "exited", "crashed", "oom", "failed"]},
    "state": {
        "enum": ["kept", "rolled_back", "lost"],
        "description": "whether the variables are as this call left them",
    },
    "rolled_back_to": {**_OBJECT_OR_NULL, "description": "the last call whose effects are in memory"},
    "not_restored": _TEXTS,
    "state_protection": _OBJECT_OR_NULL,
    "changed": {**_OBJECT_OR_NULL, "description": "names that the call added, changed and deleted"},
    "epoch": {**_COUNT, "description": "grows by one each time the variables were not kept"},
    "stdout": _TEXT,
    "stderr": _TEXT,
    "stdout_bytes": {**_COUNT, "description": "as many as the code wrote"},
    "stderr_bytes": _COUNT,
    "truncated": {"type": "boolean"},
    "stdout_file": {**_TEXT_OR_NULL, "description": "path in the sandbox of the full text"},
    "stderr_file": _TEXT_OR_NULL,
    "result": {**_TEXT_OR_NULL, "description": "repr() of the last expression"},
    "error": {**_OBJECT_OR_NULL, "description": "name, message and traceback"},
    "signal": _COUNT_OR_NULL,
    "exit_code": _COUNT_OR_NULL,
    "artifacts": {**_OBJECT, "description": "paths in the sandbox, and where each is outside"},
    "artifact_info": {**_OBJECT, "description": "size, mime_type and sha256 of each"},
    "skipped": {**_OBJECT, "description": "files that are no artifacts, and why"},
    "duration": {"type": "number"},
    "usage": _OBJECT,
    "kind": _TEXT,
    "note": {**_TEXT_OR_NULL, "description": "what became of the variables that were not kept"},
    "omitted": {
        **_OBJECT,
        "additionalProperties": _COUNT,
        "description": "characters that texts lack here, and entries that lists lack, by name",
    },
}

RECORD: dict[str, Any] = {
    "type": "object",
    "properties": {
        **_FIELDS,
        "restored": {"type": ["array", "null"], "items": _TEXT},
        "between": {
            **_OBJECT_OR_NULL,
            "description": "what was written after the last call and before this one",
        },
        "memory": {
            "type": ["array", "null"],
            "items": {"type": "object"},
            "description": "where little memory is left: the names that hold most of it",
        },
    },
    "required": list(_FIELDS),
}
"""The JSON Schema of ``record_of()``."""


async def of_run(
    session: AsyncSession, result: Result, limits: Limits, home: Home, code: str = ""
) -> types.CallToolResult:
    """Of a call. Where the code failed, it is an error for the model. ``code``: what was sent as Python."""
    home.ran(result)
    text, images = await telling.of_call(session, result, limits, code)
    content: list[types.ContentBlock] = [types.TextContent(text=text)]
    content += [
        types.ImageContent(data=base64.b64encode(image.data).decode(), mime_type=image.mime_type)
        for image in images
    ]
    content += [link(path, info) for path, info in listed(result.artifact_info).items()]
    return types.CallToolResult(
        content=content, structured_content=record_of(result, limits, home), is_error=not result.ok
    )


def of_text(text: str, data: dict[str, Any] | None = None) -> types.CallToolResult:
    """Of what has gone well."""
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=data)


def of_problem(text: str) -> types.CallToolResult:
    """Of what the model may put right."""
    return types.CallToolResult(content=[types.TextContent(text=readable(text))], is_error=True)


def record_of(result: Result, limits: Limits, home: Home) -> dict[str, Any]:
    """The record as data, but for displays, and bounded: ``omitted`` counts what it lacks."""
    omitted: dict[str, int] = {}

    def cut(name: str, text: str) -> str:
        if len(text) > limits.chars:
            omitted[name] = len(text) - limits.chars
        return clip(text, limits.chars)

    def some(name: str, entries: Mapping[str, Any]) -> dict[str, Any]:
        if len(entries) > telling.ARTIFACTS:
            omitted[name] = len(entries) - telling.ARTIFACTS
        return {readable(path): entry for path, entry in listed(entries).items()}

    record = result.to_dict()
    del record["displays"]
    for name in ("stdout", "stderr", "result"):
        if record[name] is not None:
            record[name] = cut(name, record[name])
    record["truncated"] = result.truncated or "stdout" in omitted or "stderr" in omitted
    if result.between is not None:
        texts = {"stdout": result.between.stdout, "stderr": result.between.stderr}
        record["between"] |= {name: cut(f"between.{name}", text) for name, text in texts.items()}
    if result.error is not None:
        texts = {"message": result.error.message, "traceback": result.error.traceback}
        record["error"] = {
            "name": result.error.name,
            **{name: cut(name, text) for name, text in texts.items()},
        }
    places = {
        path: readable(result.artifacts[path]) if home.shows_paths else uri_of(path)
        for path in result.artifact_info
    }
    for name, entries in (
        ("artifacts", places),
        ("artifact_info", record["artifact_info"]),
        ("skipped", record["skipped"]),
    ):
        record[name] = some(name, entries)
    record["session"] = home.name_of(result.session)
    return {**record, "note": telling.state_sentence(result) or None, "omitted": omitted}


def listed(entries: Mapping[str, T]) -> dict[str, T]:
    """As many as the text names."""
    return dict(list(entries.items())[: telling.ARTIFACTS])


def link(path: str, info: ArtifactInfo) -> types.ResourceLink:
    """To an artifact, by its path in the container."""
    return types.ResourceLink(
        name=readable(path.removeprefix(ARTIFACTS)),
        uri=uri_of(path),
        mime_type=info.mime_type,
        size=info.size,
    )


def uri_of(path: str) -> str:
    """Of an artifact. Bytes that are not UTF-8 are escaped too."""
    return SCHEME + quote(os.fsencode(path.removeprefix(ARTIFACTS)))
