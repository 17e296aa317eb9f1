"""Results of tools, from records of calls: text and figures for the model, the same as data, links to artifacts."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import mcp_types as types

from .. import ArtifactInfo, AsyncSession, Error, Result
from .._adapters import telling
from .._adapters.telling import Limits, clip, readable
from ._place import Home

ARTIFACTS = "/session/artifacts/"
SCHEME = "limpet://artifacts/"

_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_COUNT_OR_NULL = {"type": ["integer", "null"]}

RECORD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "run_id": _TEXT,
        "session": _TEXT_OR_NULL,
        "execution_count": _COUNT_OR_NULL,
        "status": {"enum": ["ok", "error", "timeout", "interrupted", "exited", "crashed", "oom", "failed"]},
        "state": {
            "enum": ["kept", "rolled_back", "lost"],
            "description": "whether the variables are as this call left them",
        },
        "note": {**_TEXT_OR_NULL, "description": "what became of the variables that were not kept"},
        "epoch": {**_COUNT, "description": "grows by one each time the variables were not kept"},
        "stdout": _TEXT,
        "stderr": _TEXT,
        "truncated": {"type": "boolean"},
        "stdout_file": {**_TEXT_OR_NULL, "description": "path in the sandbox of the full text"},
        "stderr_file": _TEXT_OR_NULL,
        "result": {**_TEXT_OR_NULL, "description": "repr() of the last expression"},
        "error": {"type": ["object", "null"]},
        "exit_code": _COUNT_OR_NULL,
        "signal": _COUNT_OR_NULL,
        "artifacts": {"type": "array", "items": {"type": "object"}},
        "duration": {"type": "number"},
    },
    "required": ["status", "state", "epoch", "stdout", "stderr", "artifacts"],
}
"""The JSON Schema of ``record_of()``."""


async def of_run(session: AsyncSession, result: Result, limits: Limits, home: Home) -> types.CallToolResult:
    """Of a call. Where the code failed, it is an error for the model."""
    home.ran(result)
    text, images = telling.of_result(result, limits, await tails_of(session, result, limits.chars))
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
    """The record as data, bounded: no displays, texts as long as the model is shown them."""
    texts = {name: clip(getattr(result, name), limits.chars) for name in ("stdout", "stderr")}
    error = result.error
    return {
        "run_id": result.run_id,
        "session": home.name_of(result.session),
        "execution_count": result.execution_count,
        "status": result.status,
        "state": result.state,
        "note": telling.state_sentence(result) or None,
        "epoch": result.epoch,
        **texts,
        "truncated": result.truncated or any(texts[name] != getattr(result, name) for name in texts),
        "stdout_file": result.stdout_file,
        "stderr_file": result.stderr_file,
        "result": None if result.result is None else clip(result.result, limits.chars),
        "error": None
        if error is None
        else {"name": error.name, "message": clip(error.message, limits.chars)},
        "exit_code": result.exit_code,
        "signal": result.signal,
        "artifacts": [
            {
                "path": readable(path),
                "uri": uri_of(path),
                **({"host_path": readable(result.artifacts[path])} if home.shows_paths else {}),
                "size": info.size,
                "mime_type": info.mime_type,
                "sha256": info.sha256,
            }
            for path, info in listed(result.artifact_info).items()
        ],
        "duration": result.duration,
    }


def listed(artifacts: Mapping[str, ArtifactInfo]) -> dict[str, ArtifactInfo]:
    """As many as the text names."""
    return dict(list(artifacts.items())[: telling.ARTIFACTS])


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


async def tails_of(session: AsyncSession, result: Result, size: int) -> dict[str, str]:
    """The end of each stream that was too long for the record, from its file."""
    tails = {}
    for stream in ("stdout", "stderr"):
        file = getattr(result, f"{stream}_file")
        if file is None:
            continue
        offset = max(getattr(result, f"{stream}_bytes") - size, 0)
        try:
            data = await session.get(file, offset=offset, size=size)
        except Error:
            continue  # the code may have removed it; the beginning is in the record
        tails[stream] = data.decode("utf-8", "replace")
    return tails
