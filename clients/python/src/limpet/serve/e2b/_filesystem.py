"""E2B's ``filesystem.Filesystem``: what is where, and watching it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import posixpath
import stat
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from ... import AsyncSession, Error
from ..._async.files import AsyncWatch
from ...files import Entry, Event
from . import _metadata
from ._frames import Failed, frame
from ._records import Record
from ._sandboxes import USER, Sandboxes

_TYPES = {"file": "FILE_TYPE_FILE", "directory": "FILE_TYPE_DIRECTORY", "symlink": "FILE_TYPE_SYMLINK"}
_CHMOD = "EVENT_TYPE_CHMOD"
_KINDS = {
    "created": "EVENT_TYPE_CREATE", "modified": "EVENT_TYPE_WRITE", "removed": "EVENT_TYPE_REMOVE",
    "moved": "EVENT_TYPE_RENAME",
}  # fmt: skip
_LETTERS = {"directory": "d", "symlink": "L"}
_WATCHERS = 64  # of a sandbox
_EVENTS = 10_000  # of a watcher that nobody asks
_LINKS = 40  # that one may lead through, as in the kernel
_KEEPALIVE = 20.0  # seconds
_DELAY = 0.2  # seconds in which an event that was just caused still arrives


class Filesystem:
    """Procedures by name: unary ones return an answer, streams yield frames."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._all = sandboxes
        self.unary = {
            "Stat": self._stat, "MakeDir": self._make_dir, "Move": self._move, "ListDir": self._list,
            "Remove": self._remove, "CreateWatcher": self._create_watcher, "GetWatcherEvents": self._events,
            "RemoveWatcher": self._remove_watcher,
        }  # fmt: skip
        self.streams = {"WatchDir": self._watch}

    async def _stat(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        session = await self._all.session(record)
        return {"entry": await _described(session, path_of(record, asked.get("path")))}

    async def _make_dir(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        session, path = await self._all.session(record), path_of(record, asked.get("path"))
        if await session.files.exists(path):
            kind = (await session.files.stat(path)).type
            raise Failed(
                "already_exists" if kind == "directory" else "invalid_argument",
                f"path already exists: {path} ({kind})",
            )
        await session.files.mkdir(path)
        return {"entry": shown(await session.files.stat(path))}

    async def _move(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        session = await self._all.session(record)
        old, new = path_of(record, asked.get("source")), path_of(record, asked.get("destination"))
        await session.files.stat(old)
        await session.files.mkdir(posixpath.dirname(new))
        await session.files.move(old, new)
        return {"entry": await _described(session, new)}

    async def _list(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        depth = asked.get("depth") or 1
        if not isinstance(depth, int) or not 0 < depth <= 128:
            raise Failed("invalid_argument", "depth must be 1 to 128")
        session, path = await self._all.session(record), path_of(record, asked.get("path"))
        entries = [entry for entry in await session.files.list(path, depth) if entry.type in _TYPES]
        return {"entries": await _all_described(session, entries)}

    async def _remove(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        session = await self._all.session(record)
        with contextlib.suppress(FileNotFoundError):  # as E2B has it
            await session.files.remove(path_of(record, asked.get("path")), recursive=True)
        return {}

    # Watching

    async def _watch(
        self, record: Record, asked: dict[str, Any], timeout: float | None
    ) -> AsyncIterator[bytes]:
        session, path, watch = await self._watched(record, asked)
        queue: asyncio.Queue[Event | None] = asyncio.Queue(_EVENTS)
        collecting = self._all.live(record).hold(_collect(watch, queue))
        until = None if timeout is None else asyncio.get_running_loop().time() + timeout
        try:
            yield frame({"start": {}})
            while True:
                now = asyncio.get_running_loop().time()
                if until is not None and now >= until:
                    raise Failed("deadline_exceeded", f"the directory was watched for {timeout:g} seconds")
                try:
                    event = await asyncio.wait_for(
                        queue.get(), _KEEPALIVE if until is None else min(_KEEPALIVE, until - now)
                    )
                except asyncio.TimeoutError:
                    yield frame({"keepalive": {}})
                    continue
                if event is None:
                    return
                for told in await _told(session, path, event, bool(asked.get("includeEntry"))):
                    yield frame({"filesystem": told})
        finally:
            collecting.cancel()
            await watch.close()

    async def _create_watcher(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        live = self._all.live(record)
        if len(live.watchers) >= _WATCHERS:
            raise Failed("resource_exhausted", f"a sandbox has {_WATCHERS} watchers at most; remove one")
        session, path, watch = await self._watched(record, asked)
        id = f"w{self._all.tokens.id(record.owner, None)[1:]}"
        live.watchers[id] = watcher = _Watcher(session, path, watch, bool(asked.get("includeEntry")))
        watcher.collecting = live.hold(watcher.collect())
        return {"watcherId": id}

    async def _events(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        return {"events": await self._watcher(record, asked).taken()}

    async def _remove_watcher(self, record: Record, asked: dict[str, Any]) -> dict[str, Any]:
        await self._watcher(record, asked).close()
        del self._all.live(record).watchers[asked["watcherId"]]
        return {}

    def _watcher(self, record: Record, asked: dict[str, Any]) -> _Watcher:
        watcher = self._all.live(record).watchers.get(str(asked.get("watcherId")))
        if not isinstance(watcher, _Watcher):
            raise Failed(
                "not_found", f"watcher {asked.get('watcherId')} not found; it may be of an earlier gateway"
            )
        return watcher

    async def _watched(self, record: Record, asked: dict[str, Any]) -> tuple[AsyncSession, str, AsyncWatch]:
        session, path = await self._all.session(record), path_of(record, asked.get("path"))
        if (await session.files.stat(path)).type == "file":
            raise Failed("invalid_argument", f"path {path} is not a directory")
        return session, path, await session.files.watch(path, bool(asked.get("recursive")))


class _Watcher:
    """Events that are asked for now and then."""

    def __init__(self, session: AsyncSession, path: str, watch: AsyncWatch, with_entry: bool) -> None:
        self._session, self._path, self._watch, self._with_entry = session, path, watch, with_entry
        self._events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self._new = asyncio.Event()
        self.collecting: asyncio.Future[Any] | None = None

    async def collect(self) -> None:
        """Until it is closed."""
        with contextlib.suppress(Error):
            async for event in self._watch:
                self._events.extend(await _told(self._session, self._path, event, self._with_entry))
                self._new.set()

    async def taken(self) -> list[dict[str, Any]]:
        """Those that have come since the last time."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._new.wait(), _DELAY)
        events = list(self._events)
        self._events.clear()
        self._new.clear()
        return events

    async def close(self) -> None:
        """Ends it."""
        if self.collecting is not None:
            self.collecting.cancel()
        await self._watch.close()


async def _collect(watch: AsyncWatch, queue: asyncio.Queue[Event | None]) -> None:
    with contextlib.suppress(Error):
        async for event in watch:
            await queue.put(event)
    await queue.put(None)


async def _told(session: AsyncSession, path: str, event: Event, with_entry: bool) -> list[dict[str, Any]]:
    """An event as E2B has it. A file that appears as a whole had its rights set, and was written to."""
    told: dict[str, Any] = {"name": posixpath.relpath(event.path, path), "type": _KINDS[event.kind]}
    if event.kind not in ("created", "modified") or not (with_entry or event.kind == "created"):
        return [told]
    try:
        entry = await session.files.stat(event.path)
    except Error:
        return [told]
    if with_entry:
        told["entry"] = shown(entry)
    written = event.kind == "created" and entry.type == "file" and entry.size > 0
    kinds = [_CHMOD, _KINDS["modified"]] if written else []
    return [told, *({**told, "type": kind} for kind in kinds)]


async def _described(session: AsyncSession, path: str) -> dict[str, Any]:
    return (await _all_described(session, [await session.files.stat(path)]))[0]


async def _all_described(session: AsyncSession, entries: list[Entry]) -> list[dict[str, Any]]:
    """Entries as E2B has them, with their metadata."""
    rows = [shown(entry) for entry in entries]
    for row, entry in zip(rows, entries, strict=True):
        if entry.target is not None:
            row.update(await _of_target(session, entry))
    found = await _metadata.read(session, entries)
    for row, entry in zip(rows, entries, strict=True):
        if entry.path in found:
            row["metadata"] = found[entry.path]
    return rows


async def _of_target(session: AsyncSession, link: Entry) -> dict[str, Any]:
    """What E2B says of a link that leads somewhere: the type and rights of what is there."""
    entry = link
    for _ in range(_LINKS):
        if entry.target is None:
            told = shown(entry)
            return {name: told[name] for name in ("type", "mode", "permissions")} | {
                "symlinkTarget": told["path"]
            }
        try:
            entry = await session.files.stat(_absolute(entry))
        except Error:
            break
    return {}


def _absolute(link: Entry) -> str:
    """Where it leads."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(link.path), link.target or ""))


def path_of(record: Record, path: Any) -> str:
    """As a user of E2B means it: relative to the home, which is also ``~``."""
    if not isinstance(path, str) or "\0" in path:
        raise Failed("invalid_argument", "'path' is missing, or no path")
    if path == "~" or path.startswith("~/"):
        path = record.home + path[1:]
    return posixpath.normpath(posixpath.join(record.home, path))


def shown(entry: Entry) -> dict[str, Any]:
    """An entry as E2B has it."""
    told = {
        "name": entry.name,
        "path": entry.path,
        "type": _TYPES.get(entry.type, "FILE_TYPE_UNSPECIFIED"),
        "size": str(entry.size),
        "mode": entry.mode,
        "permissions": _LETTERS.get(entry.type, "-") + stat.filemode(entry.mode)[1:],
        "owner": USER,
        "group": USER,
        "modifiedTime": _time(entry.modified),
    }
    if entry.target is not None:
        told["symlinkTarget"] = _absolute(entry)
    return {name: _plain(value) for name, value in told.items()}


def _plain(value: Any) -> Any:
    """Names that are not UTF-8 lose what JSON cannot carry."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _time(seconds: float) -> str:
    when = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return when.isoformat(timespec="microseconds").replace("+00:00", "Z")
