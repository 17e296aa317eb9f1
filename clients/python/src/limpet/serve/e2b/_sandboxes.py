"""Sandboxes: sessions with E2B's idea of a life, which is a time that is set, and not one of being idle."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Coroutine
from typing import Any

from ... import AsyncSession, BadRequest, Error, ImageMissing, NoSuchCheckpoint, NoSuchSession, Result
from .._gateway import Gateway
from .._keys import Owner
from . import _inside
from ._http import Refused
from ._records import Record, Records, Snapshot
from ._request import Wanted
from ._tokens import Tokens

USER = "user"
_HOME = "/home/user"
_MOST_SNAPSHOTS = 100
_SNAPSHOT = re.compile(r"s[a-z0-9]{19}\Z")
_DEFAULT = ("base", "code-interpreter-v1")


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
        self.snapshots: Records[Snapshot] = Records(f"{directory}/snapshots", Snapshot)
        self._live: dict[str, Live] = {}
        self._work: set[asyncio.Future[Any]] = set()

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
        """Its Python. Raises NoSuchSession where it has ended, which is then remembered."""
        try:
            return await self.gateway.session(owner_of(record), record.place)
        except NoSuchSession:
            self._forget(record)
            raise

    async def base(self, record: Record) -> AsyncSession:
        """The session whose container it is in."""
        return await self.gateway.session(owner_of(record), record.base)

    async def there(self, record: Record) -> bool:
        """Whether its session is open; one that is not is forgotten."""
        with contextlib.suppress(NoSuchSession):
            self.gateway.forget(owner_of(record), record.place)
            await self.session(record)
            return True
        return False

    # Making

    async def create(self, owner: Owner, wanted: Wanted, key: str | None) -> Record:
        """A new sandbox; the same one for the same idempotency key."""
        id = self.tokens.id(owner.id, key)
        known = self.records.get(id)
        if known is not None and await self.there(known):
            return known
        snapshot = self.snapshots.get(wanted.template)
        if snapshot is not None and snapshot.owner == owner.id:
            return await self._create_from(owner, id, wanted, snapshot)
        if _SNAPSHOT.match(wanted.template):
            raise Refused(
                404, f"template '{wanted.template}' was not found: there is no snapshot of this id (any more)"
            )
        session = await self._open(owner, id, wanted)
        now = time.time()
        record = Record(
            id, owner.id, owner.name, id, wanted.template, now, now + wanted.timeout, wanted.timeout, _HOME,
            metadata=wanted.metadata, env=wanted.env, auto_pause=wanted.auto_pause, auto_resume=wanted.auto_resume,
            public=wanted.public,
        )  # fmt: skip
        try:
            record.home = await self.prepared(record, session)
        except BaseException:
            await self.gateway.close(owner, id)
            raise
        self._keep(record)
        return record

    async def _open(self, owner: Owner, id: str, wanted: Wanted) -> AsyncSession:
        options: dict[str, Any] = {"env": wanted.env}
        if wanted.template not in _DEFAULT:
            options["image"] = wanted.template
        # The time of a sandbox is the gateway's to keep; without a gateway its session ends after the longest one.
        own = {"ttl": self.gateway.settings.sandbox_timeout_s}
        try:
            return await self.gateway.open(owner, id, options, own)
        except ImageMissing as error:
            raise Refused(404, f"template '{wanted.template}' was not found: {error.message}") from None

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
            record.uncounted = result.execution_count or 0
        return where

    async def settle(
        self, record: Record, session: AsyncSession, result: Result, directory: str | None = None
    ) -> None:
        """After a call that did not keep the variables: what has to be there again is made again."""
        back = result.rolled_back_to
        if result.state == "lost" or (
            result.state == "rolled_back" and (back is None or not back.execution_count)
        ):
            before = record.uncounted
            with contextlib.suppress(Error, Refused):
                await self.prepared(record, session, directory)
            if directory is None:  # numbers go on from where they are
                record.uncounted = before + 1
                self.records.put(record)

    async def fork(self, record: Record, timeout: float, count: int) -> list[Record | Exception]:
        """Branches of its variables, as sandboxes in the same container."""
        session, base = await self.session(record), await self.base(record)
        made: list[Record | Exception] = []
        checkpoint = (
            await session.checkpoint()
        )  # all of them have the same variables, and none hangs on another one
        try:
            for _ in range(count):
                id = self.tokens.id(record.owner, None)
                try:
                    branch = await base.branch(id, at=checkpoint)
                    made.append(self._branched(record, branch, id, record.template, timeout))
                except Error as error:
                    made.append(error)
        finally:
            with contextlib.suppress(Error):
                await session.drop(checkpoint)
        return made

    async def _create_from(self, owner: Owner, id: str, wanted: Wanted, snapshot: Snapshot) -> Record:
        try:
            session = await self.gateway.session(owner, snapshot.base)
            branch = await session.branch(id, at=snapshot.id)
        except (NoSuchSession, NoSuchCheckpoint) as error:
            self.snapshots.remove(snapshot.id)
            raise Refused(404, f"template '{snapshot.id}' was not found any more: {error.message}") from None
        like = Record(
            id, owner.id, owner.name, snapshot.base, snapshot.id, 0, 0, 0, snapshot.home, metadata=wanted.metadata,
            env=wanted.env, auto_pause=wanted.auto_pause, auto_resume=wanted.auto_resume, public=wanted.public,
            uncounted=snapshot.uncounted,
        )  # fmt: skip
        return self._branched(like, branch, id, snapshot.id, wanted.timeout)

    def _branched(self, like: Record, branch: AsyncSession, id: str, template: str, timeout: float) -> Record:
        now, place = time.time(), self.gateway.name(owner_of(like), branch.name) or ""
        record = Record(
            id, like.owner, like.owner_name, place, template, now, now + timeout, timeout, like.home,
            metadata=dict(like.metadata), env=like.env, auto_pause=like.auto_pause, auto_resume=like.auto_resume,
            public=like.public, uncounted=like.uncounted,
        )  # fmt: skip
        self._keep(record)
        return record

    async def snapshot(self, record: Record, name: str | None) -> Snapshot:
        """A checkpoint that sandboxes can be made from. It keeps the container."""
        if sum(each.owner == record.owner for each in self.snapshots) >= _MOST_SNAPSHOTS:
            raise Refused(429, f"there are {_MOST_SNAPSHOTS} snapshots of this key; delete one first", 60)
        id = f"s{self.tokens.id(record.owner, None)[1:]}"
        session = await self.session(record)
        await session.checkpoint(id)
        if name is not None:
            for other in self.snapshots:
                if other.owner == record.owner and name in other.names:
                    other.names.remove(name)
                    self.snapshots.put(other)
        names = [] if name is None else [name]
        made = Snapshot(
            id, record.owner, record.owner_name, record.base, record.place, record.home, time.time(), record.uncounted,
            names,
        )  # fmt: skip
        self.snapshots.put(made)
        return made

    # Its life

    def set_timeout(self, record: Record, timeout: float) -> None:
        """Its time is over so many seconds from now."""
        record.timeout = timeout
        record.end = time.time() + timeout
        self._keep(record)

    async def pause(self, record: Record, memory: bool = True) -> None:
        """Nobody gets at it until it is resumed. It keeps its container and what runs in there."""
        if not memory:
            session = await self.session(record)
            await session.reset()
            await self.prepared(record, session)
        record.paused = True
        self._keep(record)

    async def resume(self, record: Record, timeout: float, memory: bool = True) -> None:
        """Ends the pause."""
        record.paused = False
        self.set_timeout(record, timeout)
        if not memory:
            session = await self.session(record)
            await session.reset()
            await self.prepared(record, session)

    async def kill(self, record: Record) -> None:
        """Ends it. The container ends with the last one that is in it, and the last snapshot."""
        self._forget(record)
        if record.is_fork:
            with contextlib.suppress(NoSuchSession):
                await self.gateway.close(owner_of(record), record.place)
        await self._close_if_unused(record)

    async def drop(self, snapshot: Snapshot) -> None:
        """Removes a snapshot."""
        self.snapshots.remove(snapshot.id)
        with contextlib.suppress(Error):
            session = await self.gateway.session(owner_of(snapshot), snapshot.base)
            await session.drop(snapshot.id)
        await self._close_if_unused(snapshot)

    async def _close_if_unused(self, of: Record | Snapshot) -> None:
        if any(each.base == of.base for each in (*self.records, *self.snapshots)):
            return
        with contextlib.suppress(NoSuchSession):
            await self.gateway.close(owner_of(of), of.base)

    def _keep(self, record: Record) -> None:
        """Remembers it as it is now, and sets its clock."""
        self.records.put(record)
        live = self.live(record)
        if live.timer is not None:
            live.timer.cancel()
        left = record.end - time.time()
        live.timer = (
            None if record.paused else asyncio.get_running_loop().call_later(max(left, 0), self._due, record)
        )

    def _due(self, record: Record) -> None:
        task = asyncio.ensure_future(self._end(record))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _end(self, record: Record) -> None:
        """Its time is over."""
        with contextlib.suppress(Error, Refused):
            if record.auto_pause:
                await self.pause(record)
            else:
                await self.kill(record)

    def _forget(self, record: Record) -> None:
        self.records.remove(record.id)
        live = self._live.pop(record.id, None)
        if live is not None:
            if live.timer is not None:
                live.timer.cancel()
            for task in live.tasks:
                task.cancel()

    def begin(self) -> None:
        """With the event loop: clocks go on, also those of an earlier gateway."""
        for record in self.records:
            self._keep(record)

    def stop(self) -> None:
        """Ends what is done beside requests."""
        for live in self._live.values():
            if live.timer is not None:
                live.timer.cancel()
            for task in live.tasks:
                task.cancel()
        for task in self._work:
            task.cancel()


def owner_of(of: Record | Snapshot) -> Owner:
    """Whose it is."""
    return Owner(of.owner, of.owner_name)


def check_user(name: str | None) -> None:
    """There is one user in a sandbox, whom E2B calls ``user``. Raises BadRequest."""
    if name not in (None, "", USER):
        raise BadRequest(
            f"user '{name}' is not there: a sandbox has one user, '{USER}', and nobody in it is root"
        )
