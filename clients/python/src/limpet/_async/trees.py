"""put() and get() of directories. The blocking one is generated from this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._copying import _files, _trees
from .._copying._files import Path
from .._protocol import _file_requests as _ask
from ..files import encoded, text
from .connecting import in_thread

if TYPE_CHECKING:
    from .session import AsyncSession

Progress = Callable[[int, int], Any]


class Told:
    """Tells a callback how far it is."""

    def __init__(self, whole: int, on_progress: Progress | None) -> None:
        self._done, self._whole, self._tell = 0, whole, on_progress

    def add(self, size: int) -> None:
        self._done += size
        if self._tell is not None:
            self._tell(self._done, self._whole)


async def put_tree(session: AsyncSession, local: str, path: Path, on_progress: Progress | None) -> None:
    """A local directory to one of the sandbox, which may be there already."""
    top = text(encoded(path)).rstrip("/") or "/"
    items = await in_thread(_trees.scan, local)
    told = Told(sum(item.size for item in items), on_progress)
    large = [item for item in items if _is_large(item)]
    batches = _trees.to_store(local, (item for item in items if not _is_large(item)))
    data = _files.is_data(top)
    if not data:
        await session.files.mkdir(top)
    while batch := await in_thread(next, batches, None):
        rows, size = batch
        await session._request(_ask.store(top, rows))
        told.add(size)
    for item in large:
        if data:
            await session.put(f"{local}/{item.path}", f"{top}/{item.path}")
        else:
            with open(f"{local}/{item.path}", "rb") as file:
                await session.files.write(f"{top}/{item.path}", file, item.mode)
        told.add(item.size)


def _is_large(item: _trees.Item) -> bool:
    return item.kind == "file" and item.size > _trees.SMALL


async def get_tree(session: AsyncSession, path: Path, local: str, on_progress: Progress | None) -> None:
    """A directory of the sandbox to a local one, which may be there already."""
    top = (await session.files.stat(path)).path
    items = _trees.listed(top, await session.files._rows(top, _trees.DEPTH))
    files = [item for item in items if item.kind == "file"]
    told = Told(sum(item.size for item in files), on_progress)
    landing = _trees.Landing(local)
    for item in items:
        if item.kind == "directory":
            await in_thread(landing.directory, item)
    large = [item for item in files if item.size > _trees.SMALL]
    for batch in _trees.to_fetch(item for item in files if item.size <= _trees.SMALL):
        large += await _fetch(session, top, batch, landing, told)
    for item in large:
        with landing.file(item) as file:
            await session.files.read(f"{top}/{item.path}", file)
        told.add(item.size)
    for item in items:
        if item.kind == "symlink":
            await in_thread(landing.symlink, item)


async def _fetch(
    session: AsyncSession, top: str, batch: list[_trees.Item], landing: _trees.Landing, told: Told
) -> list[_trees.Item]:
    """Those of a batch that have grown so large that they are to be read in pieces."""
    large = []
    while batch:
        rows = await session._request(_ask.fetch(top, [item.path for item in batch]))
        for item, row in zip(batch, rows, strict=False):
            if row.get("error"):
                raise _trees.failure(top, item, row["error"])
            if row.get("data") is None:
                large.append(item)
                continue
            await in_thread(landing.contents, item, row["data"])
            told.add(item.size)
        batch = batch[len(rows) :]
    return large
