"""Pauses: a sandbox that is saved, and whose session ends, until somebody comes back to it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ... import AsyncSession, Error, NoSuchSession
from ._http import Refused
from ._metadata import not_saved
from ._records import MOST_NOTES, Record, owner_of
from ._restoring import restore

if TYPE_CHECKING:
    from ._sandboxes import Sandboxes


class Pauses:
    """Of all sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._all = sandboxes
        self._moving: dict[str, asyncio.Lock] = {}

    async def pause(self, record: Record, memory: bool = True) -> None:
        """Saves a sandbox when the code that runs in it has ended. Where that fails it goes on as before."""
        async with self._moves(record):
            if record.paused:
                raise Refused(409, f"sandbox {record.id} is paused already")
            record.paused = True  # nobody gets in meanwhile
            self._all.set_clock(record)
            try:
                size, notes = await self._saved(record)
            except BaseException:
                record.paused = False
                if record.id in self._all:
                    self._all.set_clock(record)
                raise
            record.size, record.notes, record.anew = size, notes, not memory
            await self._leave(record)

    async def hold(self, record: Record) -> None:
        """Pauses one whose time is over. Where it cannot be saved, it waits in memory."""
        try:
            await self.pause(record, record.pause_memory)
        except (Error, Refused):
            if record.id in self._all:
                record.paused = True
                self._all.keep(record)

    async def resume(self, record: Record, timeout: float, memory: bool = True) -> None:
        """Ends the pause. ``record.notes`` then says what is not as it was."""
        async with self._moves(record):
            if not record.paused:
                return
            if record.size:
                await restore(self._all, record, record.id)
                if record.id not in self._all:
                    await self._all.gateway.close(owner_of(record), record.place)
                    raise NoSuchSession("the sandbox was ended while it was restored")
            if record.anew or not memory:
                session = await self._all.session(record)
                await session.reset()
                await self._all.prepared(record, session)
            record.paused, record.size, record.anew = False, 0, False
            self._all.set_timeout(record, timeout)
            self._all.archives.remove(record.id)

    def _moves(self, record: Record) -> asyncio.Lock:
        """One at a time."""
        if record.id not in self._moving:
            for id in [id for id in self._moving if id not in self._all]:
                del self._moving[id]
            self._moving[record.id] = asyncio.Lock()
        return self._moving[record.id]

    async def _saved(self, record: Record) -> tuple[int, list[str]]:
        """Bytes of it on disk, and what does not come back."""
        session = await self._all.session(record)
        notes = await self._ending(record, session)
        saved = await self._all.archives.save(session, record.id, record.home, self._all.room(record.owner))
        if record.id not in self._all:
            self._all.archives.remove(record.id)
            raise NoSuchSession("the sandbox was ended while it was saved")
        return saved.size, (notes + saved.skipped)[:MOST_NOTES]

    async def _ending(self, record: Record, session: AsyncSession) -> list[str]:
        """What does not come back."""
        notes = [
            f"context {id} ({of['language']}): it has ended, and its variables with it"
            for id, of in record.contexts.items()
        ]
        notes += await not_saved(session, record.home)
        for process in await session.processes():
            if process.running:
                notes.append(f"process {process.pid}: it has ended")
        return notes

    async def _leave(self, record: Record) -> None:
        """Its session ends."""
        owner, place = owner_of(record), record.place
        record.place, record.contexts = "", {}
        self._all.rest(record)
        self._all.keep(record)
        with contextlib.suppress(Error):
            await self._all.gateway.close(owner, place)
