"""The local ends of put() and get()."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any, Protocol, TypeGuard, Union

Path = Union[str, "os.PathLike[str]"]


class Readable(Protocol):
    """What reads at most so many bytes, none at the end: a binary file."""

    def read(self, size: int, /) -> bytes: ...


Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Readable]
Target = Union[str, "os.PathLike[str]", IO[bytes]]


def is_path(local: object) -> TypeGuard[Path]:
    return isinstance(local, (str, os.PathLike))


def is_directory(local: object) -> TypeGuard[Path]:
    """Whether it names a local directory."""
    return is_path(local) and os.path.isdir(local)


def _is_below(text: str, directory: str) -> bool:
    return ".." not in text.split("/") and (text + "/").startswith(directory + "/")


def is_elsewhere(path: Path) -> bool:
    """Whether only the sandbox knows what is at a path: outside ``/session``, with a ``..``, or not UTF-8.

    The same two rules as in ``clients/c/files.c``.
    """
    text = os.fspath(path)
    inside = _is_below(text if text.startswith("/") else f"/session/{text}", "/session")
    return not inside or any("\udc80" <= sign <= "\udcff" for sign in text)


def is_data(path: Path) -> bool:
    """Whether a path in the container is ``/data`` or below it, where only clients write."""
    return _is_below(os.fspath(path), "/data")


class Bytes(io.BytesIO):
    """Where a file goes that nobody named a place for."""


@contextlib.contextmanager
def source(local: Source) -> Iterator[Callable[[int], bytes]]:
    """A function that reads at most so many bytes, b"" at the end."""
    if isinstance(local, (bytes, bytearray, memoryview)):
        yield io.BytesIO(local).read
    elif isinstance(local, (str, os.PathLike)):
        with open(local, "rb") as file:
            yield file.read
    else:
        yield check_readable(local).read


def check_readable(local: Readable) -> Readable:
    """The contents of a file, if that is what this is."""
    if not callable(getattr(local, "read", None)):
        raise TypeError(f"a path, bytes or a binary file is copied, not {type(local).__name__}")
    if isinstance(local, io.TextIOBase):
        raise TypeError("the file was opened as text: open it with mode 'rb'")
    return local


@contextlib.contextmanager
def writable(local: Target) -> Iterator[IO[bytes]]:
    """The target as a file object. A file is there as a whole at the end, or as it was before."""
    if not isinstance(local, (str, os.PathLike)):
        yield local
        return
    path = os.path.realpath(local)
    try:
        before: os.stat_result | None = os.stat(path)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):  # a pipe, a device
        with open(path, "wb") as file:
            yield file
        return
    temporary = os.path.join(os.path.dirname(path), f".limpet-{os.urandom(8).hex()}")
    try:
        beside = open(temporary, "xb")  # noqa: SIM115
    except OSError:
        with _in_its_place(path) as file:
            yield file
        return
    try:
        with beside:
            yield beside
            if before is not None:
                _become(beside.fileno(), before)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _become(file: int, before: os.stat_result) -> None:
    """Gives a file the owner and the permissions of the one whose place it takes, as far as this process may."""
    with contextlib.suppress(OSError):
        os.fchown(file, before.st_uid, before.st_gid)
    with contextlib.suppress(OSError):
        os.fchmod(file, stat.S_IMODE(before.st_mode))


@contextlib.contextmanager
def _in_its_place(path: str) -> Iterator[IO[bytes]]:
    """A file of a directory in which nothing can be made: it is written when all is there."""
    with tempfile.TemporaryFile() as held:
        yield held
        held.seek(0)
        with open(path, "wb") as file:
            shutil.copyfileobj(held, file)


@contextlib.contextmanager
def readable(local: Source) -> Iterator[Readable]:
    """The same as a file object."""
    if isinstance(local, (bytes, bytearray, memoryview)):
        yield io.BytesIO(local)
    elif isinstance(local, (str, os.PathLike)):
        with open(local, "rb") as file:
            yield file
    else:
        yield check_readable(local)


@contextlib.contextmanager
def target(local: Target) -> Iterator[Callable[[bytes], Any]]:
    """A function that writes bytes."""
    with writable(local) as file:
        yield whole(file)


def whole(file: IO[bytes]) -> Callable[[bytes], Any]:
    """A function that writes all that it is given: what has no buffer may take a part."""

    def write(data: bytes) -> None:
        while (count := file.write(data)) is not None and count < len(data):
            data = data[count:]

    return write


def size(local: Source) -> int:
    """Bytes of it, as far as they are known before it is read; 0 otherwise."""
    if isinstance(local, (bytes, bytearray, memoryview)):
        return memoryview(local).nbytes
    with contextlib.suppress(OSError, AttributeError, ValueError):
        number = local if isinstance(local, (str, os.PathLike)) else local.fileno()  # type: ignore[attr-defined]
        status = os.stat(number)
        if stat.S_ISREG(status.st_mode):
            return status.st_size
    return 0
