# Generated from limpet/_async/saving.py by scripts/generate-blocking: change that file.
"""Sessions on disk: saved to an archive, and restored from one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .._calls._asks import Asks
from .._copying import _progress, _trees
from .._copying._files import Path
from .._protocol import _file_requests as _ask
from .._protocol import _requests
from .._protocol._wire import FILE_CHUNK
from .._saved import _archive, _saving
from .._saved._archive import Member
from ..errors import (
    Error,
    FileFailed,
    InstallFailed,
    NoSuchSession,
    ProtocolMismatch,
    RestoreFailed,
    SessionClosed,
    is_stale,
)
from ..saved import Saved
from .connecting import in_thread
from .contexts import Contexts
from .files import Files
from .trees import Told

if TYPE_CHECKING:
    from .client import Client
    from .session import Session

Progress = Callable[[int, int], Any]
Unpacked = Callable[["Session"], Any]

_ATTEMPTS = 3  # at a file that changes while it is read


class Saving(Contexts):
    """How a session goes to disk."""

    files: Files
    restored: list[str] | None = None
    """What is not as it was saved, where ``open(restore=)`` made this session; otherwise None."""
    restored_memory: bool | None = None
    """Whether it then came with its live memory, and not by the pickled variables."""

    def save(
        self,
        path: Path,
        *,
        memory: bool = True,
        on_progress: Progress | None = None,
        progress: bool = False,
    ) -> Saved:
        """Saves the session to a file: its variables, its live memory, ``/session`` and its options.

        The session does not change: variables are pickled in a copy of its interpreter. Variables that cannot be
        pickled are listed with the reason, and do not affect the others. Where the memory fits, a session that is
        made of the file has them all the same.
        :meth:`Client.open` with ``restore`` makes a session of the file, on this machine or another one.

        The file is a tar with everything the session had: treat it like the session itself. It replaces an existing
        file once it is complete.

        Args:
            path: Local path of the file, such as ``"conv.limpet"``.
            memory: Whether the memory is saved besides, where it can be written. The file is smaller without it.
            on_progress: Called with the number of bytes of files copied and the total.
            progress: Whether to show how far it is: by tqdm where that is installed, by a line otherwise.

        Returns:
            The fate of each variable, and the size of the file.

        Raises:
            SaveFailed: The session could not be saved; the message gives the reason.
        """
        self._check_python("save()")
        place = _saving.new_place()
        try:
            wanted = memory and _saving.FEATURE in self._client.features()
            kept = self._request(_saving.save(place, wanted))
            with _progress.shown(progress, f"save {self.name}", on_progress) as tell:
                return _Packing(self, place).pack(os.fspath(path), kept, tell)
        finally:
            _remove(self, place)


class _Packing:
    """One session on its way to an archive."""

    def __init__(self, session: Saving, place: str) -> None:
        self._session = session
        self._place = place
        self._skipped: list[str] = []

    def pack(self, path: str | bytes, memory: bool, on_progress: Progress | None) -> Saved:
        session = self._session
        said = self._bounded(f"{self._place}/{_archive.INDEX}")
        index = _saving.Index(said)
        self._skipped = index.skipped
        members = _saving.items(session.files._rows(_saving.TOP, _trees.DEPTH), self._skipped)
        told = Told(sum(member.size for member in members if member.kind == "file"), on_progress)
        count = self._execution_count()
        kept = (session.files.stat(f"{self._place}/{_archive.MEMORY}")).size if memory else 0
        manifest = _saving.manifest(session.name, session.engine, session.options, count, index, kept)
        archive = in_thread(_archive.Writer, os.fsdecode(path))
        try:
            in_thread(archive.add, _archive.MANIFEST, manifest)
            in_thread(archive.add, _archive.INDEX, said, 0o600)
            for name in (_archive.PICKLES, _archive.MEMORY)[: 2 if memory else 1]:
                self._large(archive, f"{self._place}/{name}", Member(name, "file", 0o600))
            self._all(archive, members, told)
            size = in_thread(archive.finish)
        finally:
            in_thread(archive.close)
        return Saved(archive.path, size, index.variables, self._skipped, kept)

    def _execution_count(self) -> int:
        rows = self._session._client._rows(self._session.name)
        return next((row.execution_count for row in rows if row.session == self._session.name), 0)

    def _bounded(self, path: str) -> bytes:
        """A file that the sandbox has just written; it is not to fill the memory here."""
        data = bytearray()
        while True:
            _, piece, size, _ = self._session._request(_ask.read(path, len(data), FILE_CHUNK, None))
            data += piece
            if size > _archive.MANIFEST_MAX or len(data) > _archive.MANIFEST_MAX:
                raise ProtocolMismatch(
                    f"the sandbox says more than {_archive.MANIFEST_MAX} bytes of its variables"
                )
            if not piece or len(data) >= size:
                return bytes(data)

    def _all(self, archive: _archive.Writer, members: list[Member], told: Told) -> None:
        files = []
        for member in members:
            if member.kind == "file":
                files.append(member)
            else:
                in_thread(archive.begin, _saving.in_archive(member))
        large = [member for member in files if member.size > _trees.SMALL]
        for batch in _trees.to_fetch(member for member in files if member.size <= _trees.SMALL):
            large += self._small(archive, batch, told)
        for member in large:
            path = f"{_saving.TOP}/{member.name}"
            try:
                self._large(archive, path, _saving.in_archive(member))
            except FileFailed as error:
                self._note(path, error)
            told.add(member.size)

    def _note(self, path: str, error: FileFailed) -> None:
        """What has gone meanwhile is not missed."""
        if not isinstance(error, FileNotFoundError):
            self._skipped.append(f"{path}: {error.strerror}")

    def _small(self, archive: _archive.Writer, batch: list[Member], told: Told) -> list[Member]:
        """Those of a batch that have grown so large that they are to be read in pieces."""
        large = []
        while batch:
            rows = self._session._request(_ask.fetch(_saving.TOP, [member.name for member in batch]))
            for member, row in zip(batch, rows, strict=False):
                data = row.get("data")
                if row.get("error"):
                    item = _trees.Item(member.name, member.kind, member.mode)
                    self._note(
                        f"{_saving.TOP}/{member.name}", _trees.failure(_saving.TOP, item, row["error"])
                    )
                elif data is None:
                    large.append(member)
                else:
                    whole = ((0, len(data)),)
                    in_thread(archive.whole, _saving.in_archive(member, size=len(data), data=whole), data)
                    told.add(member.size)
            batch = batch[len(rows) :]
        return large

    def _large(self, archive: _archive.Writer, path: str, member: Member) -> None:
        """A file in pieces, its holes left out. Begun anew where another takes its place."""
        mark = in_thread(archive.mark)
        for attempt in range(_ATTEMPTS):
            try:
                self._pieces(archive, path, member)
                return
            except FileFailed as error:
                in_thread(archive.back, mark)
                if not is_stale(error) or attempt == _ATTEMPTS - 1:
                    raise

    def _pieces(self, archive: _archive.Writer, path: str, member: Member) -> None:
        extents, size, file = self._extents(path)
        in_thread(archive.begin, _saving.resized(member, size, tuple(extents)))
        for start, length in extents:
            at, end = start, start + length
            while at < end:
                found, data, _, _ = self._session._request(
                    _ask.read(path, at, min(end - at, FILE_CHUNK), file)
                )
                if found > at or not data:  # it has become another hole, or shorter
                    data = bytes(
                        min(end - at, FILE_CHUNK) if not data else min(found - at, end - at, FILE_CHUNK)
                    )
                in_thread(archive.write, data)
                at += len(data)
        in_thread(archive.end)

    def _extents(self, path: str) -> tuple[list[_archive.Extent], int, int]:
        """Where a file has data, how large it is, and what tells it from another."""
        extents: list[_archive.Extent] = []
        at, size = 0, 1
        file: int | None = None
        while at < size:
            found, data, size, same = self._session._request(_ask.read(path, at, 1, file))
            file = same
            if not data or found >= size:
                break
            end = min(found + FILE_CHUNK, size)
            if extents and sum(extents[-1]) == found:
                extents[-1] = (extents[-1][0], end - extents[-1][0])
            else:
                extents.append((found, end - found))
            at = end
        return extents, size, file or 0


def restored(
    client: Client,
    archive: _archive.Reader,
    name: str,
    asks: Asks,
    options: Mapping[str, Any],
    unpacked: Unpacked | None = None,
) -> Session:
    """A session made of an archive: all of it or none. Between its files and its variables, ``unpacked`` is called."""
    from .session import Session

    try:
        opened = client._request(_requests.restore_session(name, dict(options)))
    except InstallFailed as error:
        raise _saving.not_installed(archive.manifest, options, error) from error
    session = Session(client, opened, asks)
    try:
        memory = _saving.has_memory_for(archive.manifest, options) and _saving.FEATURE in client.features()
        missing, session.restored_memory = _unpack(session, archive, memory, unpacked)
        session.restored = _saving.not_granted(archive.manifest, options) + missing
    except BaseException as error:
        with contextlib.suppress(Error):
            session.close()
        if isinstance(error, (FileFailed, NoSuchSession, SessionClosed)):
            raise RestoreFailed(f"'{archive.path}' could not be restored: {error}") from error
        raise
    return session


def _unpack(
    session: Session, archive: _archive.Reader, memory: bool, unpacked: Unpacked | None
) -> tuple[list[str], bool]:
    place = _saving.new_place()
    steps = _saving.Unpacking(archive, place, memory).steps()
    while (step := in_thread(next, steps, None)) is not None:
        if isinstance(step, list):
            session._request(_ask.store(_saving.TOP, step))
        else:
            _write(session, archive, f"{_saving.TOP}/{step[0]}", step[1])
    if unpacked is not None:
        unpacked(session)
    found = session._request(_saving.load(place, archive.manifest["execution_count"], memory))
    _remove(session, place)
    return found


def _write(session: Session, archive: _archive.Reader, path: str, member: Member) -> None:
    """A large file in pieces; what lies between them is a hole."""
    upload = session._request(_ask.write(path, b"", False, member.mode, True, member.modified))
    pieces = archive.data(member)
    while (found := in_thread(next, pieces, None)) is not None:
        session._request(_ask.write_more(upload or 0, found[0], found[1], False))
    session._request(_ask.write_more(upload or 0, member.size, b"", True))


def _remove(session: Saving, place: str) -> None:
    with contextlib.suppress(Error):
        session.files.remove(place, recursive=True)
