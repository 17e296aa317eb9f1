"""Files that users send for /data: a directory of the gateway for each session, which the session sees read-only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from .. import BadRequest, NoSuchSession
from ._problems import Problem

_LONGEST = 255  # bytes of a name
_DEEPEST = 16
_MOST_ENTRIES = 10_000  # files and directories of a session


@dataclass
class _Account:
    """What a session has in /data."""

    size: int
    """Bytes, with those that are on their way there."""
    entries: int
    """Files and directories."""
    has_ended: bool = False
    _replaced: set[str] = field(default_factory=set)

    @contextlib.contextmanager
    def replacing(self, target: str) -> Iterator[int]:
        """Bytes that are free once a file has taken its place. They count for one of those that are on their way."""
        if target in self._replaced:
            yield 0
            return
        self._replaced.add(target)
        try:
            yield _size(target)
        finally:
            self._replaced.discard(target)

    def land(self, partial: str, target: str) -> None:
        """A file takes its place. Raises Problem (413) where there are too many."""
        new, above = 0 if os.path.lexists(target) else 1, os.path.dirname(target)
        while not os.path.lexists(above):
            new, above = new + 1, os.path.dirname(above)
        if new and self.entries + new > _MOST_ENTRIES:
            raise Problem(
                413, "TooLarge", f"a session has at most {_MOST_ENTRIES} files and directories in /data"
            )
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        freed = _size(target)
        os.replace(partial, target)
        self.size -= freed
        self.entries += new


class Uploads:
    """All of them.

    Args:
        state_dir: Of the gateway.
        most: Bytes of one session; 0 is any number.
    """

    def __init__(self, state_dir: str, most: int) -> None:
        self._directory = os.path.join(state_dir, "data")
        self._most = most
        self._accounts: dict[str, _Account] = {}
        self.held: set[str] = set()
        """Sessions that are not there now, and come back."""

    def option(self, inner: str) -> dict[str, Any]:
        """The option ``data`` for a session that is opened."""
        directory = self._of(inner)
        os.makedirs(self._directory, 0o700, exist_ok=True)
        os.makedirs(directory, 0o755, exist_ok=True)
        return {"data": directory}

    def copy(self, inner: str, to: str) -> str:
        """Has what was uploaded for a session for another one, too, and returns the directory."""
        self.option(inner)
        directory: str = self.option(to)["data"]
        shutil.copytree(self._of(inner), directory, copy_function=os.link, dirs_exist_ok=True)
        return directory

    def is_of(self, inner: str, data: object) -> bool:
        """Whether a session with that option sees what is uploaded."""
        return bool(data) and os.fspath(data) == self._of(inner)  # type: ignore[call-overload]

    async def write(self, inner: str, name: str, pieces: AsyncIterator[bytes]) -> int:
        """Writes a file, as a whole or not at all. Returns its size.

        Raises BadRequest, Problem (413), and NoSuchSession where the session ends meanwhile.
        """
        target = os.path.join(self._of(inner), *_parts(name))
        if os.path.isdir(target):
            raise BadRequest(f"'{name}' is a directory in /data")
        account = await self._account(inner)
        partial = os.path.join(self._directory, f".{secrets.token_hex(8)}")
        size = 0
        with account.replacing(target) as freed:
            try:
                with open(partial, "xb", opener=lambda path, flags: os.open(path, flags, 0o644)) as file:
                    async for piece in pieces:
                        self._check(account, len(piece), freed)
                        account.size += len(piece)
                        size += len(piece)
                        await asyncio.to_thread(file.write, piece)
                if account.has_ended:
                    raise NoSuchSession("the session has ended")
                with _named(name):
                    account.land(partial, target)
            except BaseException:
                account.size -= size
                raise
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(partial)
        return size

    async def _account(self, inner: str) -> _Account:
        directory = self._of(inner)
        account = self._accounts.get(directory)
        if account is None:
            measured = await asyncio.to_thread(_measured, directory)
            account = self._accounts.setdefault(directory, _Account(*measured))
        return account

    def _check(self, account: _Account, more: int, freed: int) -> None:
        left = self._most - account.size + freed
        if self._most and more > left:
            raise Problem(
                413, "TooLarge",
                f"a session has {self._most} bytes for /data (SESSION_MAX_BYTES); {max(left, 0)} are left",
            )  # fmt: skip

    def list(self, inner: str) -> dict[str, int]:
        """Files by their names in /data, with their sizes."""
        base = self._of(inner)
        return {
            os.path.relpath(os.path.join(folder, name), base): os.lstat(os.path.join(folder, name)).st_size
            for folder, _, names in sorted(os.walk(base))
            for name in sorted(names)
        }

    def remove(self, inner: str) -> None:
        """The session has ended."""
        if inner not in self.held:
            account = self._accounts.pop(self._of(inner), None)
            if account is not None:
                account.has_ended = True
            shutil.rmtree(self._of(inner), ignore_errors=True)

    def sweep(self, there: set[str]) -> None:
        """These sessions are there; what others have left is removed."""
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._directory):
                if not name.startswith(".") and name not in there:
                    self.remove(name)

    def _of(self, inner: str) -> str:
        return os.path.join(self._directory, inner.partition("/")[0])


def _parts(name: str) -> list[str]:
    """Of a path that stays below. Raises BadRequest."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    wrong = not parts or len(parts) > _DEEPEST or ".." in parts or "\0" in name
    if wrong or any(len(os.fsencode(part)) > _LONGEST for part in parts):
        raise BadRequest(f"{name!r} is no name for a file in /data: a relative path without '..'")
    return parts


@contextlib.contextmanager
def _named(name: str) -> Any:
    try:
        yield
    except (NotADirectoryError, FileExistsError, IsADirectoryError):
        raise BadRequest(f"a part of '{name}' is a file in /data, or all of it a directory") from None


def _size(path: str) -> int:
    """Bytes of a file; 0 where there is none."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _measured(directory: str) -> tuple[int, int]:
    """Bytes of all files below, and how many files and directories there are."""
    size = entries = 0
    for folder, directories, names in os.walk(directory):
        size += sum(_size(os.path.join(folder, name)) for name in names)
        entries += len(directories) + len(names)
    return size, entries
