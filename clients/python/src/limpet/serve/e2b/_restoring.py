"""How a sandbox comes back from disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import AsyncSession, RestoreFailed
from .._reach import still
from . import _inside
from ._archives import HOME, unpack_home
from ._http import Refused
from ._records import MOST_NOTES, Record, owner_of

if TYPE_CHECKING:
    from ._sandboxes import Sandboxes


async def restore(
    sandboxes: Sandboxes, record: Record, archive: str, env: dict[str, str] | None = None
) -> None:
    """Opens a session for a sandbox, in which it goes on as it was saved, or with this environment.

    ``record.notes`` then says what is not as it was. Raises Refused, and changes nothing then.
    """
    notes, path = list(record.notes), sandboxes.archives.path(archive)
    rules = still(sandboxes.gateway.settings.sandbox_network, record.network)
    if rules != record.network:
        notes.append("network: less may be reached than before (SANDBOX_NETWORK)")
    own = {**sandboxes.own_options(rules), **({"env": env} if env else {})}
    try:
        session = await sandboxes.gateway.restore(owner_of(record), record.id, path, own, unpack_home)
    except RestoreFailed as error:
        why = error.message.replace(path, archive)
        raise Refused(404, f"{archive} cannot be restored: {why}") from None
    try:
        if not session.restored_memory:
            await prepare(record, session)
    except BaseException:
        await sandboxes.gateway.close(owner_of(record), record.id)
        raise
    record.place, record.network = record.id, rules
    record.sized(session.options)
    # Files of the home are no part of a saved session, and have come along all the same.
    told = [note for note in notes + (session.restored or []) if not note.startswith(f"{HOME}/")]
    record.notes = told[:MOST_NOTES]
    if record.notes:
        sandboxes.live(record).state = "restored"


async def prepare(record: Record, session: AsyncSession) -> None:
    """A restored interpreter, which stays in the directory where it is."""
    result, home = await _inside.prepare(session, "", record.home if record.home == HOME else "")
    if not result.ok:
        raise Refused(500, f"the interpreter could not be prepared: {result.error and result.error.message}")
    record.home = home
    record.uncounted += 1
    record.prepared_at = result.execution_count or 1


async def came_back(record: Record, session: AsyncSession) -> None:
    """A fork is as what it comes from, or has the variables alone where memory cannot be copied."""
    result = await session.run("'limpet_e2b' in __import__('sys').modules", _inside.TIME)
    record.uncounted += 1
    record.notes = (result.restored or [])[:MOST_NOTES]
    if result.result != "True":
        await prepare(record, session)
