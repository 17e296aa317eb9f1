"""Snapshots: saved sessions that sandboxes are made from."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .._keys import Owner
from ._http import Refused
from ._metadata import not_saved
from ._records import MOST_NOTES, Record, Records, Snapshot, new_record
from ._request import Wanted
from ._restoring import restore

if TYPE_CHECKING:
    from ._sandboxes import Sandboxes

_MOST = 100  # of a key


class Snapshots:
    """Of all sandboxes.

    Args:
        sandboxes: These.
        directory: Where they are remembered.
    """

    def __init__(self, sandboxes: Sandboxes, directory: str) -> None:
        self._all = sandboxes
        self.records: Records[Snapshot] = Records(directory, Snapshot)

    async def take(self, record: Record, name: str | None) -> Snapshot:
        """Saves a sandbox as it is, which goes on. A name that another snapshot has is then this one's."""
        mine = [each for each in self.records if each.owner == record.owner]
        if len(mine) >= _MOST:
            raise Refused(507, f"there are {_MOST} snapshots of this key; delete one first")
        id = f"s{self._all.tokens.id(record.owner, None)[1:]}"
        session = await self._all.session(record)
        notes = await not_saved(session, record.home)
        saved = await self._all.archives.save(session, id, record.home, self._all.room(record.owner))
        notes += saved.skipped
        for other in mine:
            if name in other.names:
                other.names.remove(name)
                self.records.put(other)
        made = Snapshot(
            id, record.owner, record.owner_name, record.id, record.home, time.time(), saved.size, record.uncounted,
            dict(session.options.get("env") or {}), [] if name is None else [name],
            notes[:MOST_NOTES],
        )  # fmt: skip
        self.records.put(made)
        return made

    def find(self, owner: Owner, name: str) -> Snapshot | None:
        """The owner's snapshot of this id, or name."""
        for each in self.records:
            if each.owner == owner.id and name in (each.id, *each.names):
                return each
        return None

    async def create(self, owner: Owner, id: str, wanted: Wanted, snapshot: Snapshot) -> Record:
        """A sandbox that begins as a snapshot."""
        record = new_record(owner, id, wanted, snapshot.home)
        record.template, record.env = snapshot.id, {**snapshot.env, **wanted.env}
        record.uncounted, record.notes = snapshot.uncounted, list(snapshot.notes)
        await restore(self._all, record, snapshot.id, record.env)
        self._all.keep(record)
        return record

    def drop(self, snapshot: Snapshot) -> None:
        """Removes one. Sandboxes that were made from it stay."""
        self.records.remove(snapshot.id)
        self._all.archives.remove(snapshot.id)
