"""Files of a sandbox: what is told of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .errors import ProtocolMismatch

EntryType = Literal["file", "directory", "symlink", "other"]
EventKind = Literal["created", "modified", "removed", "moved"]


@dataclass(frozen=True)
class Entry:
    """A file, a directory, or something else that has a name.

    Names that are not UTF-8 are as Python's ``os`` has them, with ``surrogateescape``.
    """

    name: str
    path: str
    """Absolute, in the container."""
    type: EntryType
    """``other``: a FIFO, a socket or a device."""
    size: int
    """Bytes."""
    mode: int
    """Permissions."""
    modified: float
    """Unix seconds."""
    target: str | None = None
    """Where a symlink leads."""
    attributes: bool = False
    """Whether it has extended attributes whose names begin with ``user.``."""

    @classmethod
    def from_wire(cls, row: Mapping[str, Any]) -> Entry:
        """From the body of a reply."""
        try:
            path = text(row["path"])
            target = row.get("target")
            return cls(
                path.rstrip("/").rpartition("/")[2] or path,
                path,
                row["type"],
                int(row.get("size") or 0),
                int(row.get("mode") or 0),
                float(row.get("modified") or 0),
                None if target is None else text(target),
                bool(row.get("attributes")),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolMismatch(f"an entry is malformed: {error!r}") from error


@dataclass(frozen=True)
class Event:
    """A change of a path. A rename is ``moved`` at the old path and ``created`` at the new one."""

    kind: EventKind
    path: str
    """Absolute, in the container."""

    @classmethod
    def from_wire(cls, row: Mapping[str, Any]) -> Event:
        """From the body of a reply."""
        try:
            return cls(row["kind"], text(row["path"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ProtocolMismatch(f"an event is malformed: {error!r}") from error


def text(name: bytes) -> str:
    """A name that came."""
    return name.decode("utf-8", "surrogateescape")


def encoded(path: str | bytes | os.PathLike[str]) -> bytes:
    """A path to send."""
    given = os.fspath(path)
    return given if isinstance(given, bytes) else given.encode("utf-8", "surrogateescape")
