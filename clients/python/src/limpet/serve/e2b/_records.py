"""What the gateway has to remember of sandboxes and snapshots, also when it is started again: a file for each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

_ID = re.compile(r"[A-Za-z0-9._-]{1,100}\Z")


class Record(msgspec.Struct):
    """A sandbox: a session, or a branch of the session of another one."""

    id: str
    owner: str
    owner_name: str
    place: str
    """What its owner calls the session or branch."""
    template: str
    started: float
    end: float
    """When its time is over: it then ends, or is paused."""
    timeout: float
    home: str
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    env: dict[str, str] = msgspec.field(default_factory=dict)
    auto_pause: bool = False
    auto_resume: bool = False
    public: bool = False
    """Whether its ports may be used without a token."""
    paused: bool = False
    uncounted: int = 0
    """Calls of Python in it that its owner did not make."""
    contexts: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """By id: language and cwd. Those that are there from the start are not in it."""

    @property
    def base(self) -> str:
        """The session whose container it is in."""
        return self.place.partition("/")[0]

    @property
    def is_fork(self) -> bool:
        """Whether it is a branch."""
        return "/" in self.place


class Snapshot(msgspec.Struct):
    """A checkpoint that sandboxes can be made from."""

    id: str
    owner: str
    owner_name: str
    base: str
    place: str
    """Where it was taken."""
    home: str
    created: float
    uncounted: int = 0
    names: list[str] = msgspec.field(default_factory=list)


T = TypeVar("T", Record, Snapshot)


class Records(Generic[T]):
    """All of a kind.

    Args:
        directory: Where their files are.
        kind: The kind.
    """

    def __init__(self, directory: str, kind: type[T]) -> None:
        self._directory = directory
        os.makedirs(directory, 0o700, exist_ok=True)
        self._all: dict[str, T] = dict(self._read(kind))

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._all.values()))

    def get(self, id: str) -> T | None:
        """The one with that id."""
        return self._all.get(id)

    def put(self, record: T) -> None:
        """Adds or changes one, on disk as a whole or not at all."""
        self._all[record.id] = record
        path = self._path(record.id)
        with open(path + ".new", "wb", opener=_privately) as file:
            file.write(msgspec.json.encode(record))
        os.replace(path + ".new", path)

    def remove(self, id: str) -> None:
        """Forgets one."""
        if self._all.pop(id, None) is not None:
            os.unlink(self._path(id))

    def _read(self, kind: type[T]) -> Iterator[tuple[str, T]]:
        for name in os.listdir(self._directory):
            if not name.endswith(".json"):
                continue
            with open(os.path.join(self._directory, name), "rb") as file:
                try:
                    record = msgspec.json.decode(file.read(), type=kind)
                except msgspec.DecodeError:
                    continue  # of a power cut, or of another version
                yield record.id, record

    def _path(self, id: str) -> str:
        if not _ID.match(id):
            raise ValueError(f"{id!r} is no id")
        return os.path.join(self._directory, id + ".json")


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def shown(record: Record) -> dict[str, Any]:
    """What an owner may see of it, beside its tokens."""
    return {
        "templateID": record.template,
        "sandboxID": record.id,
        "clientID": "limpet",
        "metadata": record.metadata,
    }
