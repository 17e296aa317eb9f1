"""What a saved session has, on its way between a sandbox and an archive.

What either says is believed by nobody: names and sizes are checked here, and pickles are bytes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .._copying import _trees
from .._protocol._options import SESSION_OPTIONS, chosen
from .._protocol._requests import Request, field
from .._protocol._wire import FILE_CHUNK, LOAD, SAVE
from .._version import VERSION
from ..errors import Error, InstallFailed, ProtocolMismatch, RestoreFailed
from ..files import Entry
from ..packages import as_text
from ..saved import SAVED
from . import _archive
from ._archive import Member

TOP = "/session"
# By whoever opens a session, not by a file that somebody has made.
GRANTED = {"bindings", "build", "data", "network", "pip"}
# What a live interpreter has taken in: where it is given anew, the variables come without the memory.
TAKEN_IN = {"env", "image", "packages"}
FEATURE = "memory"
OWN = ".limpet"  # what begins so in it is Limpet's own
ARTIFACTS = "artifacts"  # a directory that every session has, and that is not its own

Rows = list[dict[str, Any]]


def new_place() -> str:
    """A directory of the sandbox for variables on their way."""
    return f"{TOP}/{OWN}-saved-{os.urandom(8).hex()}"


def save(place: str, memory: bool) -> Request[bool]:
    """Whether there is a memory beside the variables."""
    return Request(SAVE, {"path": place, **_with(memory)}, lambda body: body.get("memory") is True)


def load(place: str, execution_count: int, memory: bool) -> Request[tuple[list[str], bool]]:
    """What is not as it was, and whether it came with the memory."""
    body = {"path": place, "execution_count": execution_count, **_with(memory)}
    return Request(
        LOAD,
        body,
        lambda body: ([str(note) for note in field(body, "missing")], body.get("memory") is True),
    )


def _with(memory: bool) -> dict[str, bool]:
    return {"memory": True} if memory else {}


class Index:
    """What the sandbox says of the variables that it has saved."""

    def __init__(self, data: bytes) -> None:
        try:
            said = json.loads(data)
            self.variables = {
                str(row["name"]): str(row["why"]) if "why" in row else SAVED for row in said["variables"]
            }
            self.python = str(said["python"])
            self.packages = {str(name): str(version) for name, version in said["packages"].items()}
            self.requirements = [str(line) for line in said.get("requirements", [])]
            self.skipped = [str(note) for note in said["skipped"]]
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ProtocolMismatch(
                f"the sandbox says what cannot be read of its variables: {error!r}"
            ) from error


def manifest(
    name: str, engine: str, options: Mapping[str, Any], count: int, index: Index, memory: int
) -> bytes:
    said = {
        "format": _archive.FORMAT,
        "version": _archive.VERSION,
        "limpet": VERSION,
        "created": time.time(),
        "session": name,
        "engine": engine,
        "execution_count": count,
        "options": dict(options),
        "python": index.python,
        "packages": dict(sorted(index.packages.items())),
        "requirements": index.requirements,
        "variables": index.variables,
        "skipped": index.skipped,
        "memory": memory,
    }
    return json.dumps(said, indent=1).encode() + b"\n"


def options_of(said: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a session that is restored, as the protocol has them: those that are given win. What came of a
    template is saved itself.
    """
    kept = set(SESSION_OPTIONS) - GRANTED - {"template"}
    saved = {name: value for name, value in said["options"].items() if name in kept}
    if not isinstance(saved.get("packages", []), list):  # a text would be read as the path of a file
        raise RestoreFailed("the file is damaged: its `packages` are no list")
    if locked := requirements(said):
        saved["packages"] = locked
    return {**chosen(saved, SESSION_OPTIONS), **given}


def has_memory_for(said: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether there is a memory that has these options."""
    saved = options_of(said, {})
    return bool(said.get("memory")) and all(saved.get(name) == options.get(name) for name in TAKEN_IN)


def requirements(said: Mapping[str, Any]) -> list[str]:
    """Versions and hashes of all packages that the session had installed."""
    lines = said.get("requirements", [])
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise RestoreFailed("the file is damaged: its `requirements` are no list of text")
    return lines


def not_installed(said: Mapping[str, Any], options: Mapping[str, Any], error: InstallFailed) -> Error:
    """What is raised where packages cannot be had: those of the session, or others that were given."""
    if options.get("packages") != as_text(requirements(said)):
        return error
    return RestoreFailed(
        f"the packages of the session cannot be installed as they were: {error.message}; give `packages`, if only as "
        "an empty list, to restore it with others"
    )


def not_granted(said: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """The options that had let the session reach more, and are not given again."""
    had = {name for name in GRANTED if said["options"].get(name) not in (None, "", "none", "refuse", {}, [])}
    return [
        f"{name!r} lets code reach more, and is not taken from a file: give it again"
        for name in sorted(had - set(given))
    ]


def items(rows: Iterable[Mapping[str, Any]], skipped: list[str]) -> list[Member]:
    """What is in /session, without what is Limpet's own. What cannot be saved is noted."""
    found = []
    for row in rows:
        entry = Entry.from_wire(row)
        path = entry.path[len(TOP) + 1 :]
        if not entry.path.startswith(f"{TOP}/") or not is_plain(path):
            raise ProtocolMismatch(f"the sandbox listed {entry.path!r} in {TOP!r}")
        if path.startswith(OWN) or path == ARTIFACTS or entry.type == "other":
            continue  # of those of another kind the sandbox tells itself
        if row.get("unreadable"):
            skipped.append(f"{entry.path}: it may not be read")
        elif entry.type == "directory" and path.count("/") >= _trees.DEPTH - 1:
            skipped.append(f"{entry.path}: it lies too deep")
        found.append(Member(path, entry.type, entry.mode, entry.size, entry.target, modified=entry.modified))
    return found


def is_plain(path: str) -> bool:
    return "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


def in_archive(member: Member, **but: Any) -> Member:
    """The same as it is called there."""
    return dataclasses.replace(member, name=f"{_archive.FILES}/{member.name}", **but)


def resized(member: Member, size: int, data: tuple[_archive.Extent, ...]) -> Member:
    return dataclasses.replace(member, size=size, data=data)


def _row(path: str, member: Member, mode: int, data: bytes | None = None) -> dict[str, Any]:
    row = _trees.Item(path, member.kind, mode, 0, member.target).row(data)
    if member.kind == "file":
        row["modified"] = member.modified
    return row


class Unpacking:
    """What is to be sent for an archive: rows of what is small, and large files one by one."""

    def __init__(self, archive: _archive.Reader, place: str, memory: bool) -> None:
        self._archive = archive
        self._memory = memory
        self._inside = place[len(TOP) + 1 :]
        self._closed: Rows = []  # directories that nothing could be put into any more

    def steps(self) -> Iterator[Rows | tuple[str, Member]]:
        """Rows below /session, or the path of a large file, whose data is to be read before the next step."""
        rows: Rows = []
        size = 0
        for member in self._archive.members():
            path = self._path(member.name)
            if member.name == _archive.MEMORY and not self._memory:
                self._archive.skip(member)
                continue
            if member.kind == "file" and member.size > _trees.SMALL:
                yield path, member
                continue
            if len(rows) == _trees.BATCH or size + member.size > FILE_CHUNK:
                yield rows
                rows, size = [], 0
            rows.append(self._small(path, member))
            size += member.size
        if rows:
            yield rows
        for at in range(0, len(self._closed), _trees.BATCH):
            yield self._closed[::-1][at : at + _trees.BATCH]

    def _path(self, name: str) -> str:
        if name in (_archive.PICKLES, _archive.INDEX, _archive.MEMORY):
            return f"{self._inside}/{name}"
        top, _, path = name.rstrip("/").partition("/")
        if top != _archive.FILES or not is_plain(path) or path.startswith(OWN):
            raise RestoreFailed(f"'{self._archive.path}' is malformed: it has {name!r}; nothing was restored")
        return path

    def _small(self, path: str, member: Member) -> dict[str, Any]:
        data = None
        if member.kind == "file":
            whole = bytearray(member.size)
            for start, piece in self._archive.data(member):
                whole[start : start + len(piece)] = piece
            data = bytes(whole)
        if member.kind == "directory" and member.mode & 0o300 != 0o300:
            self._closed.append(_row(path, member, member.mode))
        return _row(path, member, member.mode | 0o700 if member.kind == "directory" else member.mode, data)
