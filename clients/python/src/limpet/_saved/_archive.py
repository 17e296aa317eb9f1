"""A saved session as a file: a tar of GNU's format, which ordinary tools list and unpack.

    manifest.json       what it is, the options of the session, and what its variables were made with
    variables           pickles, which nobody but a sandbox reads
    variables.json      what is in them
    memory              of the interpreter, where it was kept, which nobody but a sandbox reads
    files/…             /session
    limpet.sha256       of all bytes before it; always the last 2048 bytes of the file

Whoever reads one believes nothing in it: it may come from anywhere.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from .._protocol._wire import FILE_CHUNK
from ..errors import RestoreFailed

FORMAT = "limpet-session"
VERSION = 1
MANIFEST, PICKLES, INDEX, MEMORY, FILES = "manifest.json", "variables", "variables.json", "memory", "files"
MANIFEST_MAX = 16 << 20
BLOCK = tarfile.BLOCKSIZE
_CHECK = "limpet.sha256"
_END = 4 * BLOCK  # its header and contents, and the two blocks that end a tar
_NAME_MAX = 4096 + len(FILES) + 2
_SPARSE_AT, _SPARSE_HERE, _SPARSE_MORE = 386, 4, 21  # where a header has what is data, and how many it has
_TYPES = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.GNUTYPE_SPARSE: "file",
    tarfile.DIRTYPE: "directory",
    tarfile.SYMTYPE: "symlink",
}

Extent = tuple[int, int]  # where data is in a file, and how much


@dataclass(frozen=True)
class Member:
    """Something in the archive. Of a file, its data follows."""

    name: str
    kind: str
    mode: int
    size: int = 0
    """Of the whole file, holes included."""
    target: str | None = None
    data: tuple[Extent, ...] = ()
    modified: float = 0.0


def _number(value: int) -> bytes:
    """As a header has it; what does not fit in octal digits goes in base 256."""
    return b"%011o\0" % value if value < 8**11 else b"\x80" + value.to_bytes(11, "big")


def _sparse(extents: list[Extent], room: int, more: bool) -> bytes:
    entries = b"".join(_number(start) + _number(size) for start, size in extents[:room])
    return entries.ljust(room * 24, b"\0") + bytes([more])


def _header(member: Member) -> bytes:
    info = tarfile.TarInfo(member.name)
    info.mode, info.linkname, info.mtime = member.mode, member.target or "", max(0, int(member.modified))
    info.type = {"file": tarfile.REGTYPE, "directory": tarfile.DIRTYPE, "symlink": tarfile.SYMTYPE}[
        member.kind
    ]
    stored = sum(size for _, size in member.data)
    info.size = stored if member.kind == "file" else 0
    block = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    if stored == member.size or member.kind != "file":
        return block
    extents = [*member.data, (member.size, 0)]  # where the file ends
    head = bytearray(block[-BLOCK:])
    rest = extents[_SPARSE_HERE:]
    head[156:157] = tarfile.GNUTYPE_SPARSE
    sparse = _sparse(extents, _SPARSE_HERE, bool(rest)) + _number(member.size)
    head[_SPARSE_AT : _SPARSE_AT + len(sparse)] = sparse
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    blocks = [block[:-BLOCK], bytes(head)]
    while rest:
        here, rest = rest[:_SPARSE_MORE], rest[_SPARSE_MORE:]
        blocks.append(_sparse(here, _SPARSE_MORE, bool(rest)).ljust(BLOCK, b"\0"))
    return b"".join(blocks)


class Writer:
    """A new archive, which takes its place when it is whole; whatever is there until then stays."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._temporary = f"{self.path}.limpet-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        if os.path.isdir(self.path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        try:
            self._file = os.fdopen(os.open(self._temporary, flags, 0o600), "wb")
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        self._hash = hashlib.sha256()
        self._left = self._size = 0

    def begin(self, member: Member) -> None:
        """Its data follows by write()."""
        self._put(_header(member))
        self._left = self._size = sum(size for _, size in member.data)

    def write(self, data: bytes) -> None:
        self._left -= len(data)
        self._put(data)

    def end(self) -> None:
        """What was promised of the data and did not come is filled up."""
        while self._left > 0:
            self.write(bytes(min(self._left, FILE_CHUNK)))
        self._put(bytes(-self._size % BLOCK))
        self._left = self._size = 0

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        self.whole(Member(name, "file", mode, len(data), data=((0, len(data)),), modified=time.time()), data)

    def whole(self, member: Member, data: bytes) -> None:
        self.begin(member)
        self.write(data)
        self.end()

    def mark(self) -> tuple[int, Any]:
        return self._file.tell(), self._hash.copy()

    def back(self, mark: tuple[int, Any]) -> None:
        """Forgets what came since then."""
        self._file.seek(mark[0])
        self._file.truncate()
        self._hash = mark[1]
        self._left = self._size = 0

    def finish(self) -> int:
        """Its size. It is on the disk then."""
        self.add(_CHECK, f"{self._hash.hexdigest()}\n".encode())
        self._file.write(bytes(2 * BLOCK))
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        os.replace(self._temporary, self.path)
        return size

    def close(self) -> None:
        """Where it is not finished, nothing of it is left."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary)

    def _put(self, data: bytes) -> None:
        self._hash.update(data)
        self._file.write(data)


def _damaged(path: str, what: str) -> RestoreFailed:
    return RestoreFailed(f"'{path}' {what}; nothing was restored")


class Reader:
    """An archive that is whole: all of it is read once before anything is believed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: IO[bytes] = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC), "rb")
        try:
            self._end = os.fstat(self._file.fileno()).st_size - _END
            self._check()
            self.manifest = self._manifest()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def members(self) -> Iterator[Member]:
        """All but the manifest. The data of each is read by data() before the next."""
        while self._file.tell() < self._end:
            yield self._member()

    def data(self, member: Member) -> Iterator[tuple[int, bytes]]:
        """Where each piece lies in the file, and the piece."""
        for start, size in member.data:
            while size > 0:
                piece = self._take(min(size, FILE_CHUNK))
                yield start, piece
                start, size = start + len(piece), size - len(piece)
        self._take(-sum(size for _, size in member.data) % BLOCK)

    def skip(self, member: Member) -> None:
        """In place of data()."""
        size = sum(size for _, size in member.data)
        if size + -size % BLOCK > self._end - self._file.tell():
            raise _damaged(self.path, "is malformed: something in it does not end")
        self._file.seek(size + -size % BLOCK, os.SEEK_CUR)

    def _check(self) -> None:
        if self._end < 0:
            raise _damaged(self.path, "is no saved session, or the beginning of one")
        digest, left = hashlib.sha256(), self._end
        while left > 0 and (piece := self._file.read(min(left, FILE_CHUNK))):
            digest.update(piece)
            left -= len(piece)
        end = self._file.read()
        says = end[BLOCK : BLOCK + 64]
        if not end.startswith(_CHECK.encode() + b"\0"):
            raise _damaged(self.path, "is no saved session, or the beginning of one")
        if left or says != digest.hexdigest().encode():
            raise _damaged(self.path, "is damaged: its checksum is another")
        self._file.seek(0)

    def _manifest(self) -> dict[str, Any]:
        member = self._member()
        if member.name != MANIFEST or member.kind != "file" or member.size > MANIFEST_MAX:
            raise _damaged(self.path, "has no manifest")
        data = b"".join(piece for _, piece in self.data(member))
        try:
            manifest = json.loads(data)
            known = manifest["format"] == FORMAT and isinstance(manifest["options"], dict)
            version = int(manifest["version"])
            count = manifest["execution_count"]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise _damaged(self.path, "has a manifest that cannot be read") from error
        if not known or type(count) is not int or not 0 <= count < 1 << 63:
            raise _damaged(self.path, "has a manifest that cannot be read")
        if version != VERSION:
            raise _damaged(
                self.path,
                f"has version {version} of the format, and this is version {VERSION}: use a newer Limpet",
            )
        return dict(manifest)

    def _take(self, size: int) -> bytes:
        if size > self._end - self._file.tell():
            raise _damaged(self.path, "is malformed: something in it does not end")
        return self._file.read(size)

    def _long(self, size: int) -> str:
        if size > _NAME_MAX:
            raise _damaged(self.path, "is malformed: a name is too long")
        text = self._take(size)
        self._take(-size % BLOCK)
        return text.rstrip(b"\0").decode("utf-8", "surrogateescape")

    def _member(self) -> Member:
        name = target = None
        while True:
            block = self._take(BLOCK)
            try:
                info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                raise _damaged(self.path, f"is malformed: {error}") from error
            if info.type == tarfile.GNUTYPE_LONGNAME:
                name = self._long(info.size)
            elif info.type == tarfile.GNUTYPE_LONGLINK:
                target = self._long(info.size)
            else:
                break
        kind = _TYPES.get(info.type)
        if kind is None or info.size < 0:
            raise _damaged(self.path, f"is malformed: '{name or info.name}' is no file, directory or link")
        extents, size = [(0, info.size)], info.size
        if info.type == tarfile.GNUTYPE_SPARSE:
            extents, size = self._extents(block, info.size)
        return Member(
            name or info.name,
            kind,
            info.mode & 0o7777,
            size if kind == "file" else 0,
            (target or info.linkname) if kind == "symlink" else None,
            tuple(extents) if kind == "file" else (),
            float(info.mtime),
        )

    def _extents(self, block: bytes, stored: int) -> tuple[list[Extent], int]:
        at, room = _SPARSE_AT, _SPARSE_HERE
        size = tarfile.nti(block[at + 24 * room + 1 : at + 24 * room + 13])  # type: ignore[attr-defined]
        extents: list[Extent] = []
        while True:
            for _ in range(room):
                entry = block[at : at + 24]
                if entry[0]:
                    extents.append((tarfile.nti(entry[:12]), tarfile.nti(entry[12:])))  # type: ignore[attr-defined]
                at += 24
            if not block[at]:
                break
            block, at, room = self._take(BLOCK), 0, _SPARSE_MORE
        reached = 0
        for start, length in extents:
            if start < reached or length < 0 or start + length > size:
                raise _damaged(self.path, "is malformed: the parts of a file overlap")
            reached = start + length
        if sum(length for _, length in extents) != stored:
            raise _damaged(self.path, "is malformed: the parts of a file are not all there")
        return extents, size
