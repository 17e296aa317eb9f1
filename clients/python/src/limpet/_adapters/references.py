"""References to sessions, by which another program finds them again."""

from __future__ import annotations

from typing import TypeVar

from .. import AsyncClient, AsyncSession, Client, NoSuchSession, Session

S = TypeVar("S", Session, AsyncSession)


def reference(session: Session | AsyncSession) -> str:
    """Name and instance: another session that has the name later is not meant."""
    return f"{session.name}@{session.instance}"


def attach(client: Client, wanted: str) -> Session:
    """The session of a reference. Raises NoSuchSession where it has ended, also when its name is in use again."""
    return _checked(client.attach(_name(wanted)), wanted)


async def attach_async(client: AsyncClient, wanted: str) -> AsyncSession:
    """The same for asyncio."""
    return _checked(await client.attach(_name(wanted)), wanted)


def _name(wanted: str) -> str:
    return wanted.partition("@")[0]


def _checked(session: S, wanted: str) -> S:
    if reference(session) != wanted:
        raise NoSuchSession(f"the session of {wanted} has ended; another one has its name since")
    return session
