"""Sandboxes on disk: a saved session for each one that is paused, and for each snapshot."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection

from ... import AsyncSession, Error, Saved
from ._http import Refused

HOME = "/home/user"
"""Memory of the container, which is no part of a saved session: it goes along as one file."""

_PACKED = "/session/.e2b-home.tar"
_PACK = f"tar --create --sparse --xattrs --xattrs-include='user.e2b.*' --file={_PACKED} --directory={HOME} ."
_UNPACK = f"tar --extract --preserve-permissions --file={_PACKED} --directory={HOME}"
# tar would make files by a system call that sandboxes do not have.
_ATTRIBUTES = f"""
import os, tarfile
prefix = "SCHILY.xattr."
for member in tarfile.open({_PACKED!r}):
    for name, value in member.pax_headers.items():
        if name.startswith(prefix + "user.e2b."):
            os.setxattr(os.path.join({HOME!r}, member.name), name[len(prefix):], value.encode())
"""
_TIME = 600.0  # seconds
_CHANGED = 1  # exit status of tar where a file changed while it was read


class Archives:
    """All of a gateway, of which only its user can read one.

    Args:
        directory: Where their files are.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        os.makedirs(directory, 0o700, exist_ok=True)

    def path(self, id: str) -> str:
        """Of the one of this id."""
        return os.path.join(self._directory, f"{id}.limpet")

    def is_there(self, id: str) -> bool:
        """Whether there is one."""
        return os.path.exists(self.path(id))

    async def save(self, session: AsyncSession, id: str, home: str, room: float) -> Saved:
        """Saves a session, which is to take at most so many bytes: if need be without its live memory.

        Raises Refused, and leaves nothing then.
        """

        def check(_: int, files: int) -> None:
            _check_room(files, room)

        if home == HOME:
            await _pack_home(session)
        try:
            saved = await session.save(self.path(id), on_progress=check)
            if saved.memory and saved.size > room:
                saved = await session.save(self.path(id), memory=False)
        finally:
            if home == HOME:
                with contextlib.suppress(Error):
                    await session.files.remove(_PACKED)
        try:
            _check_room(saved.size, room)
        except Refused:
            self.remove(id)
            raise
        return saved

    def remove(self, id: str) -> None:
        """Removes one, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(id))

    def sweep(self, ids: Collection[str]) -> None:
        """These are wanted; what a gateway that was killed has left is removed."""
        wanted = {os.path.basename(self.path(id)) for id in ids}
        for name in set(os.listdir(self._directory)) - wanted:
            os.unlink(os.path.join(self._directory, name))


async def unpack_home(session: AsyncSession) -> None:
    """The home of a session whose files have just been restored, if it had one of its own."""
    if not await session.files.exists(_PACKED):
        return
    for command in (_UNPACK, ["python3", "-c", _ATTRIBUTES]):
        done = await session.exec(command, timeout=_TIME)
        if not done.ok:
            raise Refused(500, f"the files of {HOME} could not be restored: {done.stderr.strip()}")
    await session.files.remove(_PACKED)


async def _pack_home(session: AsyncSession) -> None:
    done = await session.exec(_PACK, timeout=_TIME)
    if not done.ok and done.exit_code != _CHANGED:
        with contextlib.suppress(Error):
            await session.files.remove(_PACKED)
        raise Refused(507, f"the files of {HOME} could not be saved in /session: {done.stderr.strip()}")


def _check_room(size: int, room: float) -> None:
    if size > room:
        raise Refused(
            507,
            f"it takes {size} bytes, and {max(room, 0):.0f} are left for paused sandboxes and snapshots of this key "
            "(SANDBOX_SAVED_BYTES); end some of them first",
        )
