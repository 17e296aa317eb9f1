"""What a client can read without a call of a tool: artifacts, and the variables."""

from __future__ import annotations

import base64
import dataclasses
import json
import mimetypes
import os
from urllib.parse import unquote_to_bytes

import mcp_types as types
from mcp.shared.exceptions import MCPError

from .. import Error, FileFailed
from .._adapters.telling import readable
from ._filing import read
from ._place import Place
from ._results import ARTIFACTS, SCHEME, uri_of

VARIABLES = "limpet://variables"
SIZE = 16 << 20  # bytes of an artifact that are sent
PAGE = 200
DEPTH = 16

TEMPLATE = types.ResourceTemplate(
    name="artifact",
    title="Artifact",
    uri_template=SCHEME + "{+path}",
    description="A file below /session/artifacts, by its path there.",
)


async def list_resources(
    place: Place, params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    """A page of them: the variables, then the artifacts."""
    cursor = params.cursor if params is not None else None
    if cursor is not None and not cursor.isdecimal():
        raise MCPError(types.INVALID_PARAMS, "this cursor was not given out here")
    start = int(cursor or 0)
    found = await _artifacts(place)
    page = found[start : start + PAGE]
    following = str(start + PAGE) if start + PAGE < len(found) else None
    variables = [] if start else [_VARIABLES]
    return types.ListResourcesResult(resources=variables + page, next_cursor=following, ttl_ms=0)


_VARIABLES = types.Resource(
    name="variables",
    title="Variables",
    uri=VARIABLES,
    mime_type="application/json",
    description="The variables of the session: names, types, shapes, sizes. Reading runs no code.",
)


async def _artifacts(place: Place) -> list[types.Resource]:
    """None before there is a session: to list is no reason to begin one."""
    if not place.is_open:
        return []
    try:
        session = await place.session()
        entries = await place.call(session.files.list(ARTIFACTS, DEPTH))
    except FileNotFoundError:
        return []
    except Error as error:
        raise _failed(error) from error
    return [
        types.Resource(
            name=readable(entry.path.removeprefix(ARTIFACTS)),
            uri=uri_of(entry.path),
            size=entry.size,
            mime_type=mimetypes.guess_type(entry.name)[0],
        )
        for entry in entries
        if entry.type == "file"
    ]


async def read_resource(place: Place, uri: str) -> types.ReadResourceResult:
    """MCPError says why one cannot be read."""
    try:
        content = await _variables(place) if uri == VARIABLES else await _artifact(place, uri)
    except FileFailed as error:
        raise _unknown(uri, error.message) from error
    except Error as error:
        raise _failed(error) from error
    return types.ReadResourceResult(contents=[content], ttl_ms=0)


async def _variables(place: Place) -> types.TextResourceContents:
    session = await place.session()
    namespace = await place.call(session.namespace())
    rows = {"variables": [dataclasses.asdict(variable) for variable in namespace], "more": namespace.more}
    return types.TextResourceContents(uri=VARIABLES, mime_type="application/json", text=json.dumps(rows))


async def _artifact(place: Place, uri: str) -> types.TextResourceContents | types.BlobResourceContents:
    path = os.fsdecode(unquote_to_bytes(uri.removeprefix(SCHEME)))
    if not uri.startswith(SCHEME) or "\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise _unknown(uri, "there is no such resource")
    if not place.is_open:
        raise _unknown(uri, "no call has made artifacts yet")
    session = await place.session()
    data = await place.call(read(session, ARTIFACTS + path, SIZE))
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    if kind.startswith("text/") or kind == "application/json":
        try:
            return types.TextResourceContents(uri=uri, mime_type=kind, text=data.decode())
        except UnicodeDecodeError:
            pass
    return types.BlobResourceContents(uri=uri, mime_type=kind, blob=base64.b64encode(data).decode())


def _unknown(uri: str, why: str) -> MCPError:
    return MCPError(types.INVALID_PARAMS, readable(f"Resource not found: {why}"), {"uri": uri})


def _failed(error: Error) -> MCPError:
    return MCPError(types.INTERNAL_ERROR, readable(f"{error.name}: {error.message}"))
