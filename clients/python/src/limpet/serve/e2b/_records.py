"""What the gateway has to remember of sandboxes and snapshots, also when it is started again: a file for each."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from ..._protocol._options import SessionOptions
from .._keys import Owner
from ._request import Wanted

MOST_NOTES = 50
_ID = re.compile(r"[A-Za-z0-9._-]{1,100}\Z")


class Record(msgspec.Struct):
    """A sandbox: a session."""

    id: str
    owner: str
    owner_name: str
    place: str
    """What its owner calls the session; empty while it is saved."""
    template: str
    started: float
    end: float
    """When its time is over: it then ends, or is paused."""
    timeout: float
    home: str
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    env: dict[str, str] = msgspec.field(default_factory=dict)
    auto_pause: bool = False
    pause_memory: bool = True
    """Whether variables are kept when its time is over and it is paused."""
    auto_resume: bool = False
    public: bool = False
    """Whether its ports may be used without a token."""
    mask: str = ""
    """The header ``Host`` of requests to its ports, if not the one that came."""
    paused: bool = False
    uncounted: int = 0
    """Calls of Python in it that its owner did not make."""
    contexts: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """By id: language and cwd. Those that are there from the start are not in it."""
    network: list[str] = msgspec.field(default_factory=list)
    """Rules of what it may reach."""
    size: int = 0
    """Bytes that it takes while it is saved."""
    notes: list[str] = msgspec.field(default_factory=list)
    """What is not as it was before it was saved, until that has been told."""
    anew: bool = False
    """Whether its variables are to be gone when it is resumed."""
    prepared_at: int = 1
    """Number of the call that has prepared its interpreter."""
    cpus: float = 1.0
    """Of its container, like the two after it."""
    memory: int = 0
    """Bytes; 0: no limit, or of a sandbox from before this was remembered."""
    disk: int = 0
    """Likewise."""

    def sized(self, options: SessionOptions) -> None:
        """Its container is one with these options."""
        self.cpus = options.get("cpus") or self.cpus
        self.memory, self.disk = int(options.get("memory") or 0), int(options.get("disk") or 0)


class Snapshot(msgspec.Struct):
    """A saved session that sandboxes can be made from."""

    id: str
    owner: str
    owner_name: str
    sandbox: str
    """Where it was taken."""
    home: str
    created: float
    size: int
    uncounted: int
    env: dict[str, str]
    names: list[str]
    notes: list[str]
    """What is not in it."""


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


def new_record(owner: Owner, id: str, wanted: Wanted, home: str) -> Record:
    """Of a sandbox as somebody wants it, in a session of its own."""
    now = time.time()
    return Record(
        id, owner.id, owner.name, id, wanted.template, now, now + wanted.timeout, wanted.timeout, home,
        metadata=wanted.metadata, env=wanted.env, auto_pause=wanted.auto_pause, auto_resume=wanted.auto_resume,
        pause_memory=wanted.pause_memory, public=wanted.public, mask=wanted.mask, network=wanted.network,
    )  # fmt: skip


def owner_of(of: Record | Snapshot) -> Owner:
    """Whose it is."""
    return Owner(of.owner, of.owner_name)


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
