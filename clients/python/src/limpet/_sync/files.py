# Generated from limpet/_async/files.py by scripts/generate-blocking: change that file.
"""Files of a session, anywhere in its sandbox."""

from __future__ import annotations

import builtins
import contextlib
import io
import json
from collections.abc import Callable
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, overload

from .._copying import _files
from .._copying._files import Path, Readable
from .._protocol import _file_requests as _ask
from .._protocol._wire import FILE_CHUNK
from ..errors import Error, FileFailed, is_stale
from ..files import Entry, Event
from .connecting import in_thread

if TYPE_CHECKING:
    from .session import Session

Progress = Callable[[int, int], Any]

_ATTEMPTS = 3  # at a list or a file that changes while it is read


class Files:
    """Files anywhere that the sandbox's own user may: ``/session``, ``/tmp``, ``/home/user``. As ``session.files``.

    Works beside a running cell, and while there is no interpreter. Paths are absolute, or relative to ``/session``:
    text, with ``surrogateescape`` for what is not UTF-8, or path objects. What fails raises
    :class:`FileFailed`, which is also the OSError of its kind, such as FileNotFoundError, with ``errno`` and
    ``filename``.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @overload
    def read(self, path: Path, *, on_progress: Progress | None = None) -> bytes: ...

    @overload
    def read(self, path: Path, to: IO[bytes], *, on_progress: Progress | None = None) -> None: ...

    def read(
        self, path: Path, to: IO[bytes] | None = None, *, on_progress: Progress | None = None
    ) -> bytes | None:
        """The contents of a regular file.

        Args:
            path: The file. A link is followed, within the sandbox.
            to: A binary file object, so that a large file needs no memory. If the file is replaced meanwhile, the copy
                starts again; with a pipe, which cannot start again, FileFailed is raised.
            on_progress: Called with the bytes so far and those of the whole file.
        """
        target = io.BytesIO() if to is None else to
        start = in_thread(target.tell) if target.seekable() else None
        for attempt in range(_ATTEMPTS):
            try:
                self._read(path, target, start, on_progress)
                break
            except FileFailed as error:
                if not is_stale(error) or attempt == _ATTEMPTS - 1 or start is None:
                    raise
                in_thread(target.seek, start)
        return target.getvalue() if isinstance(target, io.BytesIO) and to is None else None

    def read_text(self, path: Path, encoding: str = "utf-8") -> str:
        """Reads a file as text."""
        return (self.read(path)).decode(encoding)

    def read_json(self, path: Path) -> Any:
        """Reads a file of JSON and returns its value."""
        return json.loads(self.read(path))

    def write_text(self, path: Path, text: str, encoding: str = "utf-8") -> None:
        """Writes text to a file, as :meth:`write` does."""
        self.write(path, text.encode(encoding))

    def write(
        self,
        path: Path,
        data: bytes | bytearray | memoryview | str | Readable,
        mode: int = 0o644,
        parents: bool = True,
        *,
        on_progress: Progress | None = None,
    ) -> None:
        """Writes a file, completely or not at all. An existing file is replaced.

        Args:
            path: The file. A link there is replaced, not followed.
            data: Bytes, text (as UTF-8), or a binary file object, which is read in pieces.
            mode: Its permissions.
            parents: Whether directories are made that are missing.
            on_progress: Called with the bytes so far and those of the whole, where that is known; otherwise with the
                bytes so far, twice.
        """
        if isinstance(data, str):
            data = data.encode()
        whole = _files.size(data)
        read = (
            io.BytesIO(data).read
            if isinstance(data, (bytes, bytearray, memoryview))
            else _files.check_readable(data).read
        )
        piece = in_thread(read, FILE_CHUNK)
        following = in_thread(read, FILE_CHUNK)
        upload = self._session._request(_ask.write(path, piece, not following, mode, parents))
        offset = len(piece)
        while upload is not None:
            piece, following = following, in_thread(read, FILE_CHUNK)
            self._session._request(_ask.write_more(upload, offset, piece, not following))
            offset += len(piece)
            if on_progress is not None:
                on_progress(offset, max(offset, whole if following else 0))
            if not following:
                return

    def list(self, path: Path = "/session", depth: int = 1) -> builtins.list[Entry]:
        """Lists a directory, by path.

        Args:
            path: The directory.
            depth: Levels, up to 128: 2 is what is in its directories as well. Links are not followed.
        """
        return sorted(map(Entry.from_wire, self._rows(path, depth)), key=lambda entry: entry.path)

    def stat(self, path: Path) -> Entry:
        """Describes the entry at a path. Links are not followed."""
        return self._session._request(_ask.stat(path))

    def exists(self, path: Path) -> bool:
        """Whether something has that name, be it a link that leads nowhere."""
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def mkdir(self, path: Path, parents: bool = True) -> None:
        """Makes a directory.

        Args:
            path: The directory.
            parents: Whether those above it are made too, and it may be there already.
        """
        self._session._request(_ask.mkdir(path, parents))

    def move(self, old: Path, new: Path) -> None:
        """Renames a file, a link or a directory, on the same file system. An existing file is replaced.

        Args:
            old: Its path.
            new: Its new path.
        """
        self._session._request(_ask.move(old, new))

    def remove(self, path: Path, recursive: bool = False) -> None:
        """Removes a file, a link or an empty directory.

        Args:
            path: The entry to remove. A link is not followed.
            recursive: Whether to remove a directory with its contents.
        """
        more = True
        while more:
            try:
                more = self._session._request(_ask.remove(path, recursive))
            except FileNotFoundError:
                if more is True:
                    raise
                return

    def watch(self, path: Path, recursive: bool = False) -> Watch:
        """Looks at a directory from now on.

        Args:
            path: The directory.
            recursive: Whether those within it are looked at too, also when they are made later.

        Returns:
            An iterator of :class:`Event`. It waits for each event, and ends when it is closed or the directory can
            no longer be watched. Also a context manager that closes it.
        """
        return Watch(self._session, self._session._request(_ask.watch(path, recursive)))

    def _rows(self, path: Path, depth: int) -> builtins.list[dict[str, Any]]:
        """Of a whole list, begun anew where the sandbox has forgotten about it."""
        for attempt in range(_ATTEMPTS):
            try:
                rows, following = self._session._request(_ask.list_page(path, depth, None))
                while following is not None:
                    page, following = self._session._request(_ask.list_page(path, depth, following))
                    rows += page
                return rows
            except FileFailed as error:
                if not is_stale(error) or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _read(self, path: Path, target: IO[bytes], start: int | None, on_progress: Progress | None) -> None:
        write, at = _files.whole(target), 0
        file: int | None = None
        while True:
            found, data, size, same = self._session._request(_ask.read(path, at, FILE_CHUNK, file))
            if found > at:
                in_thread(_skip, target, start, at, found)
            in_thread(write, data)
            at, file = found + len(data), same
            if on_progress is not None:
                on_progress(at, size)
            if not data or 0 < size <= at:
                return


def _skip(target: IO[bytes], start: int | None, at: int, to: int) -> None:
    """Leaves a hole, where the target can have one."""
    if start is not None:
        target.seek(start + to)
        target.truncate()
        return
    write = _files.whole(target)
    while at < to:
        write(bytes(min(to - at, FILE_CHUNK)))
        at += min(to - at, FILE_CHUNK)


class Watch:
    """Events of a directory, as they come. Made by :meth:`Files.watch`."""

    def __init__(self, session: Session, number: int) -> None:
        self._session = session
        self._number: int | None = number
        self._events: builtins.list[Event] = []

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Event:
        while not self._events:
            if self._number is None:
                raise StopIteration
            self._events = (self._session._request(_ask.events(self._number)))[::-1]
        return self._events.pop()

    def close(self) -> None:
        """Ends it; the iterator ends too. Does nothing if it is closed already."""
        if self._number is not None:
            number, self._number = self._number, None
            self._events = []
            with contextlib.suppress(Error):
                self._session._request(_ask.unwatch(number))

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
