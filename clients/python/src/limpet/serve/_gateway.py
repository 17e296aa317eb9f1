"""What all doors share: the client, the owners and their sessions, the limits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from .. import (
    AsyncClient,
    AsyncSession,
    BadRequest,
    Error,
    NoSuchSession,
    OptionsDiffer,
    Result,
    SessionClosed,
    SessionInfo,
)
from .._adapters import times
from .._calls._asks import NO_ASKS
from .._protocol._options import CONTAINER_OPTIONS, SESSION_OPTIONS, chosen
from .._protocol._requests import new_name
from . import _reach, _uploads
from ._chat import Chats
from ._http import Scope
from ._keys import KeyStore, Owner
from ._problems import Problem
from ._rates import Charges, Rates
from ._runs import Runs
from ._settings import Settings
from ._tracing import Tracing, tracing
from ._watch import Watch
from ._who import Doorkeeper, is_loopback

OPTIONS = (
    "timeout",
    "ttl",
    "memory",
    "cpus",
    "pids",
    "disk",
    "files",
    "env",
    "network",
    "bindings",
    "image",
    "checkpoint",
)
"""Of a session, as its owner may choose them. ``data`` is a directory of the host, and the gateway's alone."""

CLOSES = {"ttl_action": "close"}
"""Sessions of one owner, saved, would take the disk that all owners share. In pods each has a claim of its own."""

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_MOST_NAME = 54  # characters, so that the owner's id fits before it
_REMEMBERED = 4096  # session objects
_SWEEP_EVERY = 15.0  # seconds
_STREAMS = 64  # of events, of one owner


class Gateway:
    """One for all doors. A session is known to its owner by ``name``; what the controller calls it is ``inner``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.keys = KeyStore(settings.keys)
        self.doorkeeper = Doorkeeper(self.keys, is_loopback(settings.host))
        self.tracing = tracing(settings.otlp_endpoint)
        self.watch = Watch(settings.audit_log, self.tracing)
        self.client = _client(settings, self.tracing)
        self.runs = Runs(self.client, self.watch)
        self.uploads = _uploads.Uploads(settings.state_dir, settings.session_max_bytes)
        self.chats = Chats(settings)
        self.ending = asyncio.Event()
        """Set when the gateway is told to end."""
        self.charges = Charges()
        self._rates = Rates(settings.rate_limit_window_ms, settings.rate_limit_max)
        self._sessions: dict[str, AsyncSession] = {}
        self._streams: dict[str, int] = {}
        self._opening: set[str] = set()  # sessions that are being opened
        self._touched: set[str] = set()  # and those that were, or were found, since the last sweep began
        self._creating: dict[str, asyncio.Lock] = {}
        self._sweeper: asyncio.Task[None] | None = None

    # Who

    def admit(self, scope: Scope) -> Owner:
        """Whose request it is, which counts in the rate. Raises Problem: 401, 403, 429."""
        owner = self.doorkeeper.admit(scope)
        self.count(owner)
        return owner

    def count(self, owner: Owner) -> None:
        """A request of somebody who has shown something else than a key counts in the rate too. Raises Problem: 429."""
        self.tracing.owner(owner.id)
        self._rates.count(owner.id)
        self.charges.owned(owner.id)

    def count_stranger(self, scope: Scope) -> None:
        """A request of somebody who has shown nothing yet counts for where it comes from. Raises Problem: 429."""
        self._rates.count(f"from {(scope.get('client') or ('',))[0]}")

    def inner(self, owner: Owner, name: str) -> str:
        """What the controller calls the session, or the branch, of this name. Raises NoSuchSession."""
        base, slash, branch = name.partition("/")
        if not _NAME.match(base) or len(base) > (64 if owner.is_anonymous else _MOST_NAME):
            raise NoSuchSession(f"there is no session '{name}'")
        return f"{_prefix(owner)}{base}{slash}{branch}"

    def name(self, owner: Owner, inner: str) -> str | None:
        """What its owner calls a session; None if it is somebody else's."""
        prefix = _prefix(owner)
        return inner[len(prefix) :] if inner.startswith(prefix) else None

    # Sessions

    async def open(
        self, owner: Owner, name: str | None, options: Mapping[str, Any], own: Mapping[str, Any] | None = None
    ) -> AsyncSession:
        """Opens a session of this owner, or attaches to it: AsyncClient.open() within the owner's limits.

        Options of ``own`` are those of a door, and not of the owner's choice.
        """
        given = self.within_limits({key: value for key, value in options.items() if value is not None})
        name = new_name() if name is None else name
        if not _NAME.match(name) or len(name) > _MOST_NAME:
            raise BadRequest(
                f"'{name}' is no name for a session: 1 to {_MOST_NAME} characters of A-Z a-z 0-9 . _ -"
            )
        given.update(own or {})
        inner = self.inner(owner, name)
        async with self._creating.setdefault(owner.id, asyncio.Lock()):
            with self._opens(inner):
                return self._remember(inner, await self._open(owner, inner, given))

    async def restore(
        self,
        owner: Owner,
        name: str,
        path: str,
        own: Mapping[str, Any],
        unpacked: Callable[[AsyncSession], Awaitable[None]],
    ) -> AsyncSession:
        """Opens a session of this owner from a saved one. ``unpacked`` is called before its variables come back."""
        inner = self.inner(owner, name)
        async with self._creating.setdefault(owner.id, asyncio.Lock()):
            with self._opens(inner):
                await self.check_count(owner)
                fresh = {**self.defaults(), **self._kept(inner), **own}
                options = chosen(fresh, SESSION_OPTIONS)
                session = await self.client._restored(path, inner, NO_ASKS, options, unpacked)
                return self._remember(inner, session)

    async def fork(self, owner: Owner, session: AsyncSession, names: list[str]) -> list[AsyncSession]:
        """Sessions of this owner that begin as that one is: all, or none."""
        inner = [self.inner(owner, name) for name in names]
        async with self._creating.setdefault(owner.id, asyncio.Lock()):
            with contextlib.ExitStack() as opens:
                for name in inner:
                    opens.enter_context(self._opens(name))
                await self.check_count(owner, len(names))
                data = [self.uploads.copy(session.name, name) for name in inner]
                made = await session._forks(inner, None, data)
                return [self._remember(name, each) for name, each in zip(inner, made, strict=True)]

    @contextlib.contextmanager
    def _opens(self, inner: str) -> Iterator[None]:
        """It is not taken for one that has ended meanwhile."""
        self._opening.add(inner)
        self._touched.add(inner)
        try:
            yield
        finally:
            self._opening.discard(inner)

    async def _open(self, owner: Owner, inner: str, given: dict[str, Any]) -> AsyncSession:
        if not given:
            with contextlib.suppress(NoSuchSession):
                return await self.client.attach(inner)
        elif inner in await self.client._names(_group(owner)):
            return await self._attach_with(inner, given)
        await self.check_count(owner)
        fresh = {**self.defaults(), **self._kept(inner), **given}
        return await self.client.open(inner, **fresh)

    async def _attach_with(self, inner: str, given: dict[str, Any]) -> AsyncSession:
        """Options that were not given are as they are, also those that new sessions get from the gateway."""
        try:
            return await self.client.open(inner, **given)
        except OptionsDiffer as error:
            told = tuple(name for name in error.options if name in given)
            raise OptionsDiffer(error.message, told or error.options) from None

    async def session(self, owner: Owner, name: str) -> AsyncSession:
        """The open session, or branch, of that name. Raises NoSuchSession, also where it is somebody else's."""
        inner = self.inner(owner, name)
        known = self._sessions.get(inner)
        if known is not None and not known._closed:
            return known
        try:
            return self._remember(inner, await self.client.attach(inner))
        except NoSuchSession:
            raise NoSuchSession(f"there is no session '{name}'") from None

    def forget(self, owner: Owner, name: str) -> None:
        """The session was found to have ended; the next request looks again."""
        self._sessions.pop(self.inner(owner, name), None)

    async def sessions(self, owner: Owner) -> list[tuple[str, SessionInfo]]:
        """The owner's, branches and contexts as well, each with the owner's name of it."""
        rows = await self.client._listed(_group(owner))
        named = [(self.name(owner, row.session), row) for row in rows]
        return [(name, row) for name, row in named if name is not None]

    async def names(self, owner: Owner) -> set[str]:
        """The owner's names of all of them, and in pods of those that are saved."""
        found = [self.name(owner, inner) for inner in await self.client._names(_group(owner))]
        return {name for name in found if name is not None}

    async def close(self, owner: Owner, name: str) -> None:
        """Ends a session or branch. Raises NoSuchSession."""
        session = await self.session(owner, name)
        inner = self.inner(owner, name)
        try:
            await self.client.close_session(session.name)
        except (NoSuchSession, SessionClosed):
            raise NoSuchSession(f"there is no session '{name}'") from None
        finally:
            self._sessions.pop(inner, None)
        if "/" not in inner:
            self.runs.forget(inner)
            self.uploads.remove(inner)

    # Its life

    async def start(self) -> None:
        """With the event loop."""
        self._sweeper = asyncio.ensure_future(self._sweep())

    def end(self) -> None:
        """The gateway is told to end: streams that would go on for ever end, and no new ones begin."""
        self.ending.set()
        self.runs.end()

    async def stop(self) -> None:
        """Leaves calls that run to the controller: whoever asks the next gateway for them gets them."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self.client.close()
        await asyncio.to_thread(self.tracing.close)

    async def _sweep(self) -> None:
        while True:
            with contextlib.suppress(Error, OSError):
                await self.sweep()
            await asyncio.sleep(_SWEEP_EVERY)

    async def sweep(self) -> None:
        """Forgets sessions that have ended, and removes what was uploaded for them.

        A session that is opened, or found, while the controller is asked may be missing in its answer.
        """
        self._touched = set(self._opening)
        await self.client._sweep()
        there = {*await self.client._names(), *self._touched}
        self.uploads.sweep(there)
        for inner in self._sessions.keys() - there:
            del self._sessions[inner]
        self.chats.keep(there | self._touched)
        for inner in self.runs.watched() - there:
            self.runs.forget(inner)

    # Limits

    def check_input(self, text: str) -> None:
        """Of code and commands. Raises Problem."""
        most = self.settings.max_input_chars
        if most and len(text) > most:
            raise Problem(422, "TooLarge", f"{len(text)} characters are too many; MAX_INPUT_CHARS is {most}")

    def defaults(self) -> dict[str, Any]:
        """Options of sessions that are opened without them."""
        return {name: value for name, value in self._most().items() if value}

    def _kept(self, inner: str) -> dict[str, Any]:
        """Options of a session that is opened, for what is kept on disk."""
        return {**CLOSES, **self.uploads.option(inner)} if self.settings.fleet is None else {}

    async def result(self, owner: Owner, run_id: str, timeout: float | None = None) -> Result | None:
        """AsyncClient.result(), of a call of this owner."""
        await self.client._find(run_id, _group(owner))
        return await self.client.result(run_id, timeout)

    def _most(self) -> dict[str, float]:
        """What a session has, and may ask for, by the options; 0 is what the controller says."""
        settings = self.settings
        return {
            "ttl": settings.session_ttl_s,
            "memory": settings.session_memory,
            "cpus": settings.session_cpus,
            "disk": settings.session_disk,
            "pids": settings.session_pids,
            "timeout": settings.session_timeout,
        }

    def tool_seconds(self) -> float:
        """Of a call of a model that says nothing of it."""
        return min(times.STANDARD, self.settings.session_timeout or times.STANDARD)

    def check_timeout(self, timeout: float | None) -> None:
        """Of one call. Raises Problem."""
        if timeout is not None:
            self.within_limits({"timeout": timeout})

    async def unless_ending(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Waits for it; None if the gateway is told to end before."""
        task, end = asyncio.ensure_future(work), asyncio.ensure_future(self.ending.wait())
        try:
            await asyncio.wait((task, end), return_when=asyncio.FIRST_COMPLETED)
            return await task if task.done() else None
        finally:
            task.cancel()
            end.cancel()

    def container_defaults(self) -> dict[str, Any]:
        """Those of a call without a session."""
        return {name: value for name, value in self.defaults().items() if name in CONTAINER_OPTIONS}

    async def streaming(self, owner: Owner, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """A stream of events, which counts while it is open."""
        if self._streams.get(owner.id, 0) >= _STREAMS:
            yield (
                b"event: problem\ndata: "
                + Problem(429, "LimitReached", f"{_STREAMS} streams are open").body
                + b"\n\n"
            )
            return
        self._streams[owner.id] = self._streams.get(owner.id, 0) + 1
        self.watch.streams.inc()
        try:
            async with contextlib.aclosing(frames) as each:  # type: ignore[type-var]
                async for frame in each:
                    yield frame
        finally:
            self.watch.streams.dec()
            self._streams[owner.id] -= 1

    def within_limits(self, given: dict[str, Any]) -> dict[str, Any]:
        """These options, if they are. Raises BadRequest and Problem."""
        unknown = sorted(given.keys() - set(OPTIONS))
        if unknown:
            raise BadRequest(f"unknown option {', '.join(unknown)}; the options are {', '.join(OPTIONS)}")
        for name, most in self._most().items():
            if most and name in given and not 0 < _number(name, given[name]) <= most:
                raise Problem(422, "LimitReached", f"{name} is at most {most:g}")
        self.check_reach(given)
        return given

    def check_reach(self, options: Mapping[str, Any]) -> None:
        """Whether a session may have this network and these bindings. Raises BadRequest and Problem."""
        allowed = self.settings.sandbox_network
        try:
            excess = _reach.excess(allowed, options)
        except ValueError as error:
            raise BadRequest(str(error)) from None
        if excess is not None:
            raise Problem(403, "Denied", f"{excess} may not be reached: {_reach.told(allowed)}")

    async def check_count(self, owner: Owner, more: int = 1) -> None:
        """Whether there may be as many more. Raises Problem."""
        most = self.settings.max_sessions
        names = await self.names(owner) if most else set()
        have = sum("/" not in name for name in names) + self.runs.alone(owner)
        if have + more > most > 0:
            raise Problem(
                429, "LimitReached", f"{have} sessions are open, and {most} are allowed; close one first", 60
            )

    def _remember(self, inner: str, session: AsyncSession) -> AsyncSession:
        if len(self._sessions) >= _REMEMBERED:
            self._sessions.clear()
        self._sessions[inner] = session
        self._touched |= {inner, inner.partition("/")[0]}
        return session


def _client(settings: Settings, tracing: Tracing) -> AsyncClient:
    artifacts = os.path.join(settings.state_dir, "artifacts")
    if settings.fleet is None:
        return tracing.client(AsyncClient)(settings.address, artifacts=artifacts)
    from ..kubernetes import AsyncPods

    return tracing.client(AsyncPods)(settings.fleet, artifacts=artifacts)


def _group(owner: Owner) -> str:
    return f"k{owner.id}" if owner.id else ""


def _prefix(owner: Owner) -> str:
    return f"{_group(owner)}." if owner.id else ""


def _number(name: str, value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    found = re.fullmatch(r"(\d+)([kmg]?)b?", str(value).strip().lower())
    if not found:
        raise BadRequest(f"{name}: {value!r} is no number of bytes, such as 536870912 or 512m")
    return int(found[1]) * units.get(found[2], 1)
