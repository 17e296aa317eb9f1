"""Files: of the sandbox, of /data, and those that calls have made."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from ... import BadRequest
from ..._async.connecting import in_thread
from ...files import Entry
from .._problems import Problem
from ._call import Call
from ._content import Content, content, host_content, save
from ._multipart import files_of
from ._operations import PREFIX, Query, operation
from ._running import find

_FILES, _DATA, _ARTIFACTS = (
    PREFIX + "/sessions/{session}/" + name for name in ("files", "data", "artifacts")
)
_BELOW = "/session/artifacts"


class Entries(msgspec.Struct):
    """What is in a directory, by path."""

    entries: list[Entry]


class Uploaded(msgspec.Struct):
    """Files that are in /data now."""

    uploaded: dict[str, int]


class Move(msgspec.Struct, forbid_unknown_fields=True):
    """Another name for a file or a directory."""

    to: str


@operation(
    "GET", _FILES, gives=Entries, query=(Query("depth", int, "Levels that are listed, 1 by default."),)
)
async def list_files(call: Call) -> Any:
    """Lists /session."""
    return Entries(await (await call.session()).files.list("/session", int(call.number("depth", 1))))


@operation(
    "GET",
    _FILES + "/{path:path}",
    gives=(bytes, Entries),
    query=(Query("depth", int, "Of a directory: levels that are listed."),),
)
async def get_file(call: Call) -> Any:
    """A file of the sandbox, or a part of it (Range), relative to /session; of a directory, what is in it."""
    session, path = await call.session(), call.params["path"]
    entry = await session.files.stat(path)
    if entry.type == "directory":
        return Entries(await session.files.list(path, int(call.number("depth", 1))))
    return await content(call, Content(session, path))


@operation(
    "PUT", _FILES + "/{path:path}", takes=bytes, gives=Entry, status=201,
    query=(
        Query("directory", bool, "Makes a directory instead."),
        Query("mode", str, "Permissions, as 644."),
    ),
)  # fmt: skip
async def put_file(call: Call) -> Any:
    """Writes a file, as a whole or not at all; directories above it are made."""
    session, path = await call.session(), call.params["path"]
    if call.flag("directory"):
        await session.files.mkdir(path)
    else:
        await save(call, session, path)
    call.changed("files")
    return call.json(await session.files.stat(path), 201)


@operation("POST", _FILES + "/{path:path}", takes=Move)
async def move_file(call: Call) -> None:
    """Gives a file or a directory another name."""
    await (await call.session()).files.move(call.params["path"], call.body.to)
    call.changed("files")


@operation(
    "DELETE",
    _FILES + "/{path:path}",
    query=(Query("recursive", bool, "Whether a directory goes with what is in it."),),
)
async def delete_file(call: Call) -> None:
    """Removes a file, a link or a directory."""
    await (await call.session()).files.remove(call.params["path"], call.flag("recursive"))
    call.changed("files")


@operation(
    "POST", _DATA, takes=bytes, gives=Uploaded, status=201,
    query=(Query("path", str, "Its name in /data; not needed for multipart/form-data, whose parts have names."),),
)  # fmt: skip
async def upload_data(call: Call) -> Any:
    """Uploads files into the session's /data, which its code can read but not change."""
    session = await call.session()
    has_none = session.engine == "local"
    if has_none or not call.gateway.uploads.is_of(session.name, session.options.get("data")):
        raise BadRequest(
            "this session has no /data: open sessions by this gateway; in pods and with the engine local there is none"
        )
    uploaded = {}
    if call.headers.get(b"content-type", b"").startswith(b"multipart/form-data"):
        async for name, pieces in files_of(call, call.gateway.settings.session_max_bytes):
            uploaded[name] = await call.gateway.uploads.write(session.name, name, pieces)
        if not uploaded:
            raise BadRequest("the form has no file")
    else:
        name = call.query.get("path") or ""
        uploaded[name] = await call.gateway.uploads.write(session.name, name, call.pieces())
    call.changed("files")
    return call.json(Uploaded(uploaded), 201)


@operation("GET", _DATA, gives=Uploaded)
async def list_data(call: Call) -> Any:
    """Lists the files that were uploaded into /data, with their sizes."""
    await call.session()
    return Uploaded(await in_thread(call.gateway.uploads.list, call.inner))


@operation("GET", _ARTIFACTS, gives=Entries)
async def list_artifacts(call: Call) -> Any:
    """Lists the files below /session/artifacts."""
    files, found = (await call.session()).files, []
    with contextlib.suppress(FileNotFoundError):
        if (await files.stat(_BELOW)).type == "directory":
            found = await files.list(_BELOW, 16)
    return Entries([entry for entry in found if entry.type == "file"])


@operation("GET", _ARTIFACTS + "/{path:path}", gives=bytes)
async def get_artifact(call: Call) -> Any:
    """A file below /session/artifacts, or a part of it (Range). No link is followed."""
    path = call.params["path"]
    if ".." in path.split("/") or path.startswith("/"):
        raise Problem(
            404, "NoSuchFile", "an artifact is named by its path below /session/artifacts, without '..'"
        )
    session, path = await call.session(), f"{_BELOW}/{path}"
    await session.get(path, size=1)  # NoSuchFile where the controller finds no file, or a link on the way
    return await content(call, Content(session, path))


@operation("GET", PREFIX + "/runs/{run_id}/artifacts/{path:path}", gives=bytes)
async def get_run_artifact(call: Call) -> Any:
    """An artifact as it was when its call ended, also of a call without a session, or a part of it (Range)."""
    run = await find(call, call.params["run_id"])
    await run.done
    path = "/" + call.params["path"]
    if path not in run.artifacts:
        raise Problem(404, "NoSuchFile", "this call has no artifact of that path")
    return await host_content(call, run.artifacts[path], path)
