"""Files written as a program in the sandbox would write them: into what is there, not in its place."""

from __future__ import annotations

import errno
import os

from .. import AsyncSession, FileFailed
from .running import run

WRITABLE = 0o200


async def write(session: AsyncSession, path: str, data: bytes) -> None:
    """Writes a file; directories are made. A link is followed, and what may not be written stays.

    Raises:
        OSError: It could not be written; the class of its kind, such as IsADirectoryError.
    """
    try:
        entry = await session.files.stat(path)
        if entry.type == "symlink":
            path = await realpath(session, path)
            entry = await session.files.stat(path)
    except FileNotFoundError:
        await session.files.write(path, data)
        return
    if entry.type == "directory":
        raise _refused(errno.EISDIR, path)
    if not entry.mode & WRITABLE:
        raise _refused(errno.EACCES, path)
    await session.files.write(path, data, mode=entry.mode & 0o777)


async def realpath(session: AsyncSession, path: str) -> str:
    """Where a path leads in the end, as far as it exists. OSError where it leads in circles."""
    ran = await run(session, ["realpath", "-z", "-m", "--", path], timeout=30)
    if ran.result.exit_code != 0:
        raise _refused(errno.ELOOP, path)
    return ran.stdout.rstrip("\0")


def _refused(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def said(error: FileFailed) -> OSError:
    """The built-in exception with the path in its text."""
    number = error.errno or errno.EIO
    return OSError(number, os.strerror(number), error.filename)
