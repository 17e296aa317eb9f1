"""Contexts of a sandbox: variables of their own, in Python or another language."""

from __future__ import annotations

from typing import Any

from ... import AsyncSession, BadRequest, NoSuchSession, OptionsDiffer
from ._http import Refused, member
from ._records import Record
from ._sandboxes import Sandboxes

PYTHON = "python"
_FROM_THE_START = (PYTHON, "javascript")
_ALIASES = {
    "py": "python",
    "python3": "python",
    "js": "javascript",
    "ts": "typescript",
    "sh": "bash",
    "shell": "bash",
    "c++": "cpp",
}


class Place:
    """Where code runs. ``cwd`` is None in the sandbox's own Python."""

    def __init__(self, id: str, session: AsyncSession, language: str, cwd: str | None) -> None:
        self.id, self.session, self.language, self.cwd = id, session, language, cwd


class Contexts:
    """Of all sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._all = sandboxes

    async def list(self, record: Record) -> list[dict[str, str]]:
        """Those that there are, and those that are there from the start."""
        shown = [{"id": PYTHON, "language": PYTHON, "cwd": record.home}]
        for language in _FROM_THE_START[1:]:
            try:
                await self.place(record, language)
                shown.append({"id": language, "language": language, "cwd": record.home})
            except Refused:
                pass  # the image does not have it
        shown += [{"id": id, **of} for id, of in record.contexts.items() if id not in _FROM_THE_START]
        return shown

    async def create(self, record: Record, asked: dict[str, Any]) -> dict[str, str]:
        """A new one."""
        language = named(member(asked, "language", str, PYTHON))
        cwd = member(asked, "cwd", str, record.home)
        # With a hyphen, so that it is never taken for a language.
        id = f"c-{self._all.tokens.id(record.owner, None)[1:13]}"
        await self._make(record, id, language, cwd if cwd.startswith("/") else f"{record.home}/{cwd}")
        return {"id": id, **record.contexts[id]}

    async def remove(self, record: Record, id: str) -> None:
        """Ends one."""
        if id == PYTHON:
            raise Refused(
                400, "the first context of a sandbox stays as long as the sandbox; it can be restarted"
            )
        place = await self.place(record, id)
        await place.session.close()
        self._forget(record, id)

    async def restart(self, record: Record, id: str) -> None:
        """Its variables are gone, and it begins anew."""
        place = await self.place(record, id)
        await place.session.reset()
        if place.language == PYTHON:
            await self._all.prepared(record, place.session, place.cwd)
        if place.cwd is not None:
            self._all.live(record).uncounted.pop(id, None)
        self._all.live(record).state = "lost"

    async def place(self, record: Record, id: str) -> Place:
        """One by its id; one of a language is made when it is used first. Raises Refused."""
        if id == PYTHON:
            return Place(id, await self._all.session(record), PYTHON, None)
        if id not in record.contexts and not id.isalpha():
            raise Refused(404, f"Context {id} not found")
        async with self._all.live(record).opening:
            known = record.contexts.get(id)
            if known is None:
                return Place(id, await self._make(record, id, id, record.home), id, record.home)
            try:
                session = await self._all.gateway.session(
                    self._all.owner(record), f"{record.place}/{_name(id)}"
                )
            except NoSuchSession:
                self._forget(record, id)
                raise Refused(
                    404, f"Context {id} not found: it has ended, and its variables with it"
                ) from None
            return Place(id, session, known["language"], known["cwd"])

    def uncounted(self, record: Record, place: Place) -> int:
        """Calls in it that its owner did not make."""
        own = record.uncounted if place.cwd is None else int(place.language == PYTHON)
        return own + self._all.live(record).uncounted.get(place.id, 0)

    def not_counted(self, record: Record, place: Place) -> None:
        """One more."""
        uncounted = self._all.live(record).uncounted
        uncounted[place.id] = uncounted.get(place.id, 0) + 1

    async def _make(self, record: Record, id: str, language: str, cwd: str) -> AsyncSession:
        base = await self._all.base(record)
        try:
            made = await base.context(_name(id), language, cwd)
        except (BadRequest, OptionsDiffer) as error:
            raise Refused(400, error.message) from None
        if language == PYTHON:
            await self._all.prepared(record, made, cwd)
        record.contexts[id] = {"language": language, "cwd": cwd}
        self._all.records.put(record)
        return made

    def _forget(self, record: Record, id: str) -> None:
        record.contexts.pop(id, None)
        self._all.live(record).uncounted.pop(id, None)
        self._all.records.put(record)


def named(language: str | None) -> str:
    """A language, however people write it."""
    name = (language or PYTHON).strip().lower()
    return _ALIASES.get(name, name)


def _name(id: str) -> str:
    """Of a context in the container."""
    return f"e2b.{id}"
