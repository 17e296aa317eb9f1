"""Every request about files: its body and how its reply is read."""

from __future__ import annotations

from typing import Any

from .._copying._files import Path
from ..errors import ProtocolMismatch
from ..files import Entry, Event, encoded
from . import _wire
from ._requests import Body, Request, field, given


def _ask(what: str, body: Body, read: Any, once: bool = False) -> Request[Any]:
    return Request(_wire.FILES, {"ask": {what: body}}, read, once=what if once else None)


def _nothing(body: Body) -> None:
    return None


def stat(path: Path) -> Request[Entry]:
    return _ask("stat", {"path": encoded(path)}, lambda body: Entry.from_wire(field(body, "entry")))


def list_page(path: Path, depth: int, following: int | None) -> Request[tuple[list[Body], int | None]]:
    """A page of the entries, and where the next one begins. What was begun before a loss has to begin anew."""
    body = {"path": encoded(path), "depth": depth} if following is None else {"next": following}
    return _ask("list", body, lambda body: (field(body, "entries"), body.get("next")), following is not None)


def read(path: Path, offset: int, size: int, file: int | None) -> Request[tuple[int, bytes, int, int]]:
    """Where the data begins, the data, the size of the whole file, and what tells the file from another."""
    body = given(path=encoded(path), offset=offset, size=size, file=file)
    return _ask(
        "read", body, lambda body: tuple(field(body, name) for name in ("offset", "data", "size", "file"))
    )


def write(
    path: Path, data: bytes, last: bool, mode: int, parents: bool, modified: float | None = None
) -> Request[int | None]:
    """Begins a file; its number, unless it is whole."""
    body = given(path=encoded(path), data=data, last=last, mode=mode, parents=parents, modified=modified)
    return _ask("write", body, lambda body: body.get("upload"))


def write_more(upload: int, offset: int, data: bytes, last: bool) -> Request[None]:
    return _ask("write", {"upload": upload, "offset": offset, "data": data, "last": last}, _nothing, last)


def mkdir(path: Path, parents: bool) -> Request[None]:
    return _ask("mkdir", {"path": encoded(path), "parents": parents}, _nothing, not parents)


def move(old: Path, new: Path) -> Request[None]:
    return _ask("move", {"old": encoded(old), "new": encoded(new)}, _nothing, True)


def remove(path: Path, recursive: bool) -> Request[bool]:
    """Whether there is more to remove."""
    body = {"path": encoded(path), "recursive": recursive}
    return _ask("remove", body, lambda body: bool(field(body, "more")), True)


def store(path: Path, rows: list[Body]) -> Request[None]:
    """Files, directories and links below a directory. Twice is as good as once."""
    return _ask("store", {"path": encoded(path), "entries": rows}, _nothing)


def fetch(path: Path, names: list[str]) -> Request[list[Body]]:
    """The first of these files, with what is in them; one at least."""
    body = {"path": encoded(path), "files": [{"path": encoded(name)} for name in names]}
    return _ask("fetch", body, lambda body: some(field(body, "files")))


def some(rows: list[Body]) -> list[Body]:
    if not rows:
        raise ProtocolMismatch("the controller's answer has none of the files")
    return rows


def watch(path: Path, recursive: bool) -> Request[int]:
    return _ask("watch", {"path": encoded(path), "recursive": recursive}, lambda body: field(body, "watch"))


def events(watch: int, timeout: float | None = None) -> Request[list[Event]]:
    return _ask(
        "events",
        given(watch=watch, timeout=timeout),
        lambda body: [Event.from_wire(row) for row in field(body, "events")],
        True,
    )


def unwatch(watch: int) -> Request[None]:
    return _ask("unwatch", {"watch": watch}, _nothing)
