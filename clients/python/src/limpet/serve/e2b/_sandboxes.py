"""Sandboxes: sessions with E2B's idea of a life, which is a time that is set, and not one of being idle."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
import weakref
from collections.abc import Coroutine
from typing import Any

from ... import (
    AsyncSession,
    BadRequest,
    Error,
    ImageMissing,
    NoSuchSession,
    Result,
)
from .._gateway import Gateway
from .._keys import Owner
from .._problems import Problem
from . import _inside
from ._archives import HOME, Archives
from ._http import Refused
from ._metadata import not_saved
from ._pauses import Pauses
from ._records import MOST_NOTES, Record, Records, Snapshot, new_record, owner_of
from ._request import Wanted
from ._restoring import came_back, restore
from ._snapshots import Snapshots
from ._templates import options_of
from ._tokens import Tokens

USER = "user"
_SNAPSHOT = re.compile(r"s[a-z0-9]{19}\Z")


class Live:
    """What is known of a sandbox while the gateway runs."""

    def __init__(self) -> None:
        self.state = "kept"
        """Of the variables, as the last call that changed it has told."""
        self.uncounted: dict[str, int] = {}
        """Calls of contexts that their user did not make, by id."""
        self.configs: dict[str, dict[str, Any]] = {}
        """How processes were started, by id."""
        self.watchers: dict[str, Any] = {}
        self.tasks: set[asyncio.Future[Any]] = set()
        """What ends with the sandbox."""
        self.timer: asyncio.TimerHandle | None = None
        self.opening = asyncio.Lock()
        """One context is made at a time."""

    def hold(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Does something beside requests until it is done, or the sandbox ends."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


class Sandboxes:
    """All of a gateway.

    Args:
        gateway: The gateway.
        directory: Where they are remembered.
    """

    def __init__(self, gateway: Gateway, directory: str) -> None:
        self.gateway = gateway
        self.tokens = Tokens(directory)
        self.records: Records[Record] = Records(f"{directory}/sandboxes", Record)
        self.snapshots = Snapshots(self, f"{directory}/snapshots")
        self.pauses = Pauses(self)
        self.archives = Archives(f"{directory}/saved")
        self._live: dict[str, Live] = {}
        self._work: set[asyncio.Future[Any]] = set()
        # One at a time for each id: the same request may come twice at once.
        self._making: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    # Finding

    def __contains__(self, id: str) -> bool:
        """Whether it has not been ended."""
        return self.records.get(id) is not None

    def live(self, record: Record) -> Live:
        """What is known of it."""
        return self._live.setdefault(record.id, Live())

    def owned(self, owner: Owner, id: str) -> Record:
        """The owner's sandbox of that id. Raises Refused, also where it is somebody else's."""
        record = self.records.get(id)
        if record is None or record.owner != owner.id:
            raise Refused(404, f"sandbox {id} was not found; it may have ended")
        return record

    def owner(self, of: Record | Snapshot) -> Owner:
        """Whose it is."""
        return owner_of(of)

    async def session(self, record: Record) -> AsyncSession:
        """Its Python, also where it was paused since the request was let in: see awake().

        Raises NoSuchSession where it has ended, which is then remembered.
        """
        if not record.place:
            await self.awake(record)
        try:
            return await self.gateway.session(owner_of(record), record.place)
        except NoSuchSession:
            self._forget(record)
            raise

    async def awake(self, record: Record) -> None:
        """Ends its pause, if it has one, for whoever reaches into it. Raises Refused where that takes a connect()."""
        if not record.paused:
            return
        if not record.auto_resume:
            raise Refused(502, "The sandbox was not found: it is paused", sandboxId=record.id)
        await self.pauses.resume(record, record.timeout)

    async def base(self, record: Record) -> AsyncSession:
        """The session that it is."""
        return await self.gateway.session(owner_of(record), record.place)

    async def there(self, record: Record) -> bool:
        """Whether it is saved, or its session is open; one that is not is forgotten."""
        if not record.place:
            if not self.archives.is_there(record.id):
                self._forget(record)
            return record.id in self
        with contextlib.suppress(NoSuchSession):
            self.gateway.forget(owner_of(record), record.place)
            await self.session(record)
            return True
        return False

    def room(self, owner: str) -> float:
        """Bytes that are left for what the owner has saved."""
        most = self.gateway.settings.sandbox_saved_bytes
        saved = [each.size for each in (*self.records, *self.snapshots.records) if each.owner == owner]
        return most - sum(saved) if most else math.inf

    # Making

    async def create(self, owner: Owner, wanted: Wanted, key: str | None) -> Record:
        """A new sandbox; the same one for the same idempotency key."""
        id = self.tokens.id(owner.id, key)
        turn = self._making.setdefault(id, asyncio.Lock())
        async with turn:
            return await self._create(owner, id, wanted)

    async def _create(self, owner: Owner, id: str, wanted: Wanted) -> Record:
        known = self.records.get(id)
        if known is not None and await self.there(known):
            return known
        snapshot = self.snapshots.find(owner, wanted.template)
        if snapshot is not None:
            return await self.snapshots.create(owner, id, wanted, snapshot)
        if _SNAPSHOT.match(wanted.template):
            raise Refused(
                404, f"template '{wanted.template}' was not found: there is no snapshot of this id (any more)"
            )
        session = await self._open(owner, id, wanted)
        record = new_record(owner, id, wanted, HOME)
        record.sized(session.options)
        try:
            record.home = await self.prepared(record, session)
        except BaseException:
            await self.gateway.close(owner, id)
            raise
        self.keep(record)
        return record

    async def _open(self, owner: Owner, id: str, wanted: Wanted) -> AsyncSession:
        own = {**self.own_options(wanted.network), **await options_of(self.gateway, wanted.template)}
        try:
            return await self.gateway.open(owner, id, {"env": wanted.env}, own)
        except ImageMissing as error:
            raise Refused(404, f"template '{wanted.template}' was not found: {error.message}") from None

    def own_options(self, network: list[str]) -> dict[str, Any]:
        """Options of a session that are not for its owner to choose.

        The time of a sandbox is the gateway's to keep; without a gateway its session ends after the longest one.
        """
        rules = {"network": {"allow": network}} if network else {}
        return {"ttl": self.gateway.settings.sandbox_timeout_s, **rules}

    async def prepared(self, record: Record, session: AsyncSession, directory: str | None = None) -> str:
        """Makes a fresh interpreter of it what E2B's is, and returns where that is.

        In its own one, where no directory is given, that call is none of its owner's.
        """
        result, where = await _inside.prepare(session, directory or record.home, record.home)
        if not result.ok:
            raise Refused(
                500, f"the interpreter could not be prepared: {result.error and result.error.message}"
            )
        if directory is None:
            record.uncounted = record.prepared_at = result.execution_count or 0
        return where

    async def settle(
        self, record: Record, session: AsyncSession, result: Result, directory: str | None = None
    ) -> None:
        """After a call that did not keep the variables: what has to be there again is made again."""
        back, first = result.rolled_back_to, record.prepared_at if directory is None else 1
        if result.state == "lost" or (
            result.state == "rolled_back" and (back is None or (back.execution_count or 0) < first)
        ):
            before = record.uncounted
            with contextlib.suppress(Error, Refused):
                await self.prepared(record, session, directory)
            if directory is None:  # numbers go on from where they are
                record.uncounted = before + 1
                self.records.put(record)

    async def set_network(self, record: Record, rules: list[str]) -> None:
        """What it may reach from now on."""
        base = await self.base(record)
        await base.set_network({"allow": rules} if rules else "none", {})
        record.network = rules
        self.records.put(record)

    def told(self, record: Record) -> list[str]:
        """What is not as it was before it was saved, which is told once."""
        notes, record.notes = record.notes, []
        if notes:
            self.records.put(record)
        return notes

    async def fork(self, record: Record, timeout: float, count: int) -> list[Record | Exception]:
        """Sandboxes that begin as this one is; where there is no room for all, as many as there is room for."""
        ids = [self.tokens.id(record.owner, None) for _ in range(count)]
        made: list[Record | Exception] = []
        try:
            return [*await self._forks(record, ids, timeout)]
        except (Error, Problem) as error:
            if count == 1:
                return [error]
        for id in ids:
            try:
                made += await self._forks(record, [id], timeout)
            except (Error, Problem) as error:
                made.append(error)
        return made

    async def _forks(self, record: Record, ids: list[str], timeout: float) -> list[Record]:
        """All, or none."""
        if self.gateway.settings.fleet is not None:
            return await self._copies(record, ids, timeout)
        sessions = await self.gateway.fork(owner_of(record), await self.session(record), ids)
        made = [self._forked(record, id, timeout) for id in ids]
        for each, session in zip(made, sessions, strict=True):
            await came_back(each, session)
            self.keep(each)
        return made

    async def _copies(self, record: Record, ids: list[str], timeout: float) -> list[Record]:
        """Likewise, by way of the disk: pods have no memory in common."""
        session = await self.session(record)
        notes = await not_saved(session, record.home)
        saved = await self.archives.save(session, ids[0], record.home, self.room(record.owner))
        made: list[Record] = []
        try:
            for id in ids:
                made.append(self._forked(record, id, timeout))
                made[-1].notes = (notes + saved.skipped)[:MOST_NOTES]
                await restore(self, made[-1], ids[0])
        except BaseException:
            for each in made[:-1]:
                await self.gateway.close(owner_of(each), each.place)
            raise
        finally:
            self.archives.remove(ids[0])
        for each in made:
            self.keep(each)
        return made

    def _forked(self, like: Record, id: str, timeout: float) -> Record:
        now = time.time()
        return Record(
            id, like.owner, like.owner_name, id, like.template, now, now + timeout, timeout, like.home,
            metadata=dict(like.metadata), env=like.env, auto_pause=like.auto_pause, auto_resume=like.auto_resume,
            public=like.public, mask=like.mask, network=like.network, pause_memory=like.pause_memory,
            uncounted=like.uncounted, prepared_at=like.prepared_at,
            cpus=like.cpus, memory=like.memory, disk=like.disk,
        )  # fmt: skip

    # Its life

    def set_timeout(self, record: Record, timeout: float) -> None:
        """Its time is over so many seconds from now."""
        record.timeout = timeout
        record.end = time.time() + timeout
        self.keep(record)

    async def kill(self, record: Record) -> None:
        """Ends it."""
        owner, place = owner_of(record), record.place
        self._forget(record)
        if place:
            with contextlib.suppress(NoSuchSession):
                await self.gateway.close(owner, place)

    def keep(self, record: Record) -> None:
        """Remembers it as it is now, and sets its clock."""
        self.records.put(record)
        self._hold_uploads(record)
        self.set_clock(record)

    def set_clock(self, record: Record) -> None:
        """It runs while the sandbox does."""
        live = self.live(record)
        if live.timer is not None:
            live.timer.cancel()
        left = record.end - time.time()
        live.timer = (
            None if record.paused else asyncio.get_running_loop().call_later(max(left, 0), self._due, record)
        )

    def _hold_uploads(self, record: Record) -> None:
        """What was uploaded for /data waits while it is saved."""
        held, inner = self.gateway.uploads.held, self.gateway.inner(owner_of(record), record.id)
        (held.discard if record.place else held.add)(inner)

    def _due(self, record: Record) -> None:
        task = asyncio.ensure_future(self._end(record))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _end(self, record: Record) -> None:
        """Its time is over."""
        with contextlib.suppress(Error, Refused):
            if record.auto_pause:
                await self.pauses.hold(record)
            else:
                await self.kill(record)

    def _forget(self, record: Record) -> None:
        self.records.remove(record.id)
        self.archives.remove(record.id)
        self.gateway.uploads.held.discard(self.gateway.inner(owner_of(record), record.id))
        self.rest(record)

    def rest(self, record: Record) -> None:
        """What is done for it beside requests ends."""
        live = self._live.pop(record.id, None)
        if live is not None:
            if live.timer is not None:
                live.timer.cancel()
            for task in live.tasks:
                task.cancel()

    def begin(self) -> None:
        """With the event loop: clocks go on, also those of an earlier gateway."""
        self._forget_strangers()
        for record in self.records:
            self.keep(record)
        saved = [record.id for record in self.records if not record.place]
        self.archives.sweep([*saved, *(snapshot.id for snapshot in self.snapshots.records)])

    def _forget_strangers(self) -> None:
        """What was saved for keys that have been revoked, and that nobody can ask for any more."""
        keys = self.gateway.keys
        if not keys.are_there:
            return
        for record in self.records:
            if not record.place and not keys.is_known(record.owner):
                self._forget(record)
        for snapshot in self.snapshots.records:
            if not keys.is_known(snapshot.owner):
                self.snapshots.drop(snapshot)

    def stop(self) -> None:
        """Ends what is done beside requests."""
        for live in self._live.values():
            if live.timer is not None:
                live.timer.cancel()
            for task in live.tasks:
                task.cancel()
        for task in self._work:
            task.cancel()


def check_user(name: str | None) -> None:
    """There is one user in a sandbox, whom E2B calls ``user``. Raises BadRequest."""
    if name not in (None, "", USER):
        raise BadRequest(
            f"user '{name}' is not there: a sandbox has one user, '{USER}', and nobody in it is root"
        )
