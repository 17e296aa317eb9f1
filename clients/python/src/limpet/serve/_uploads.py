"""Files that users send for /data: a directory of the gateway for each session, which the session sees read-only."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from typing import Any

from .. import BadRequest
from ._problems import Problem

_LONGEST = 255  # bytes of a name
_DEEPEST = 16


class Uploads:
    """All of them.

    Args:
        state_dir: Of the gateway.
        most: Bytes of one session; 0 is any number.
    """

    def __init__(self, state_dir: str, most: int) -> None:
        self._directory = os.path.join(state_dir, "data")
        self._most = most
        self.held: set[str] = set()
        """Sessions that are not there now, and come back."""

    def option(self, inner: str) -> dict[str, Any]:
        """The option ``data`` for a session that is opened."""
        directory = self._of(inner)
        os.makedirs(self._directory, 0o700, exist_ok=True)
        os.makedirs(directory, 0o755, exist_ok=True)
        return {"data": directory}

    def is_of(self, inner: str, data: object) -> bool:
        """Whether a session with that option sees what is uploaded."""
        return bool(data) and os.fspath(data) == self._of(inner)  # type: ignore[call-overload]

    async def write(self, inner: str, name: str, pieces: AsyncIterator[bytes]) -> int:
        """Writes a file, as a whole or not at all. Returns its size. Raises BadRequest and Problem (413)."""
        target = os.path.join(self._of(inner), *_parts(name))
        if os.path.isdir(target):
            raise BadRequest(f"'{name}' is a directory in /data")
        room = self._most - _size(self._of(inner)) + (_size(target) if os.path.exists(target) else 0)
        partial = os.path.join(self._directory, f".{secrets.token_hex(8)}")
        size = 0
        try:
            with open(partial, "xb", opener=lambda path, flags: os.open(path, flags, 0o644)) as file:
                async for piece in pieces:
                    size += len(piece)
                    if self._most and size > room:
                        raise Problem(
                            413, "TooLarge",
                            f"a session has {self._most} bytes for /data (SESSION_MAX_BYTES); {max(room, 0)} are left",
                        )  # fmt: skip
                    file.write(piece)
            with _named(name):
                os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
                os.replace(partial, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
        return size

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
    """Bytes of a file, or of all files below."""
    if not os.path.isdir(path):
        return os.lstat(path).st_size if os.path.lexists(path) else 0
    return sum(
        os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names
    )
