"""The local side of put() and get() of directories: what is sent, and where it lands. No link leads out of either."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Protocol, TypeVar

from .._connection._passing import Held
from .._protocol._wire import FILE_CHUNK
from ..errors import BadRequest, FileFailed, ProtocolMismatch, file_failed
from ..files import Entry, encoded

DEPTH = 128  # directories within each other
BATCH = 1000  # entries of a message
SMALL = 256 << 10  # bytes of a file that goes with others; larger ones go in pieces, each for itself
_NAMED = 10  # of those that are refused, in a message


@dataclass(frozen=True)
class Item:
    """Something of a tree, by its path below the top."""

    path: str
    kind: str
    mode: int
    size: int = 0
    target: str | None = None

    def row(self, data: bytes | None = None) -> dict[str, Any]:
        """As a message has it."""
        row: dict[str, Any] = {"path": encoded(self.path), "type": self.kind}
        if self.target is not None:
            row["target"] = encoded(self.target)
        else:
            row["mode"] = self.mode
        if data is not None:
            row["data"] = data
        return row


def leads_out(path: str, target: str, directories: Container[str]) -> bool:
    """Whether a link at that path below the top may lead to what is not below it.

    It may go back, by "..", over directories of the tree, and over nothing else: another link would lead elsewhere,
    and be it one that a later copy brings.
    """
    if target.startswith("/"):
        return True
    at = path.split("/")[:-1]
    named = False  # the last part of `at` is not known to be a directory
    for part in target.split("/"):
        if part == "..":
            if not at or (named and "/".join(at) not in directories):
                return True
            at.pop()
            named = False
        elif part not in ("", "."):
            at.append(part)
            named = True
    return False


def _refuse_links(top: str, found: Iterable[Item], refused: list[str]) -> None:
    """Raises BadRequest where links lead out, or others were refused before."""
    items = list(found)
    directories = {item.path for item in items if item.kind == "directory"}
    links = (item for item in items if item.target is not None)
    _refuse(
        top, refused + [link.path for link in links if leads_out(link.path, link.target or "", directories)]
    )


def _refuse(top: str, refused: list[str]) -> None:
    if refused:
        more = f" and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
        raise BadRequest(
            f"'{top}' has links that lead out of it, or what is neither file, directory nor link, and nothing was "
            f"copied: {', '.join(sorted(refused)[:_NAMED])}{more}"
        )


def scan(top: str) -> list[Item]:
    """All of a local directory, each directory before what is in it."""
    found: list[Item] = []
    refused: list[str] = []
    waiting = [""]
    while waiting:
        above = waiting.pop()
        with os.scandir(os.path.join(top, above)) as entries:
            for entry in entries:
                path = f"{above}/{entry.name}" if above else entry.name
                status = entry.stat(follow_symlinks=False)
                mode = stat.S_IMODE(status.st_mode)
                if stat.S_ISREG(status.st_mode):
                    found.append(Item(path, "file", mode, status.st_size))
                elif stat.S_ISDIR(status.st_mode):
                    found.append(Item(path, "directory", mode))
                    waiting.append(path)
                elif stat.S_ISLNK(status.st_mode):
                    found.append(Item(path, "symlink", mode, 0, os.readlink(entry.path)))
                else:
                    refused.append(path)
    _refuse_links(top, found, refused)
    return found


def to_store(top: str, items: Iterable[Item]) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """What is not large, as the rows of one message after the other, with the bytes in each."""
    rows: list[dict[str, Any]] = []
    size = 0
    closed = []  # directories that nothing could be put into any more
    for item in items:
        data = None
        if item.kind == "directory":
            if item.mode & 0o300 != 0o300:
                closed.append(item)
            item = Item(item.path, item.kind, item.mode | 0o700)
        elif item.kind == "file":
            with open(os.path.join(top, item.path), "rb") as file:
                data = file.read(FILE_CHUNK)
        if len(rows) == BATCH or size + len(data or b"") > FILE_CHUNK:
            yield rows, size
            rows, size = [], 0
        rows.append(item.row(data))
        size += len(data or b"")
    for item in reversed(closed):
        rows.append(item.row())
        if len(rows) == BATCH:
            yield rows, size
            rows, size = [], 0
    if rows:
        yield rows, size


def listed(top: str, rows: Iterable[Mapping[str, Any]]) -> list[Item]:
    """What a sandbox says is in its directory: hostile code may have chosen every name of it."""
    found: list[Item] = []
    refused: list[str] = []
    prefix = top.rstrip("/") + "/"
    for row in rows:
        entry = Entry.from_wire(row)
        path = entry.path[len(prefix) :]
        parts = path.split("/")
        if (
            not entry.path.startswith(prefix)
            or "\0" in path
            or not all(part not in ("", ".", "..") for part in parts)
        ):
            raise ProtocolMismatch(f"the sandbox listed {entry.path!r} in {top!r}")
        if row.get("unreadable"):
            raise file_failed(f"'{entry.path}': it may not be read", "EACCES", encoded(entry.path))
        if entry.type == "directory" and len(parts) >= DEPTH:
            raise file_failed(
                f"'{entry.path}' lies too deep to be copied", "ENAMETOOLONG", encoded(entry.path)
            )
        if entry.type == "other":
            refused.append(path)
        found.append(Item(path, entry.type, entry.mode, entry.size, entry.target))
    _refuse_links(top, found, refused)
    return found


class Sized(Protocol):
    @property
    def size(self) -> int: ...


S = TypeVar("S", bound=Sized)


def to_fetch(items: Iterable[S]) -> Iterator[list[S]]:
    """Those that fit into one reply, again and again."""
    batch: list[S] = []
    size = 0
    for item in items:
        if batch and (len(batch) == BATCH or size + item.size > FILE_CHUNK):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item.size
    if batch:
        yield batch


class Landing:
    """A local directory that a tree is merged into. Every part of a path is opened as it is: no link is followed.

    Its directories are open for as long as it is used: a thread may still write for a task that has been cancelled.
    """

    def __init__(self, top: str) -> None:
        os.makedirs(top, exist_ok=True)
        self._top = Held(os.open(top, os.O_RDONLY | os.O_DIRECTORY))
        self._above = ("", self._top)  # the directory of the last path, which is mostly that of the next

    def directory(self, item: Item) -> None:
        self._enter(item.path)

    def symlink(self, item: Item) -> None:
        above, name = self._place(item)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=above.number)
        os.symlink(item.target or "", name, dir_fd=above.number)

    @contextlib.contextmanager
    def file(self, item: Item) -> Iterator[IO[bytes]]:
        """A new file, which takes its place as a whole when it is written."""
        above, name = self._place(item)
        temporary = f".limpet-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        made = os.open(temporary, flags, item.mode & 0o777, dir_fd=above.number)
        try:
            with open(made, "wb") as file:
                yield file
            os.replace(temporary, name, src_dir_fd=above.number, dst_dir_fd=above.number)
        except BaseException:
            os.unlink(temporary, dir_fd=above.number)
            raise

    def contents(self, item: Item, data: bytes) -> None:
        with self.file(item) as file:
            file.write(data)

    def _place(self, item: Item) -> tuple[Held, str]:
        above, _, name = item.path.rpartition("/")
        return self._enter(above), name

    def _enter(self, path: str) -> Held:
        known, at = self._above
        if path == known:
            return at
        at = self._top
        for name in filter(None, path.split("/")):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=at.number)
            at = Held(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at.number))
        self._above = (path, at)
        return at


def failure(top: str, item: Item, number: int) -> FileFailed:
    """Of one file that could not be fetched."""
    path = f"{top.rstrip('/')}/{item.path}"
    return file_failed(f"'{path}': {os.strerror(number)}", errno.errorcode.get(number, "EIO"), encoded(path))
