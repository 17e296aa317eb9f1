"""The local ends of put() and get()."""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
from collections.abc import Callable, Iterator
from typing import IO, Any, Protocol, TypeGuard, Union

Path = Union[str, "os.PathLike[str]"]


class Readable(Protocol):
    """What reads at most so many bytes, none at the end: a binary file."""

    def read(self, size: int, /) -> bytes: ...


Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Readable]
Target = Union[str, "os.PathLike[str]", IO[bytes]]


def remote_path(path: Path) -> str | bytes:
    """A path in the container; bytes when it is not UTF-8, as the keys of the artifact map have it."""
    text = os.fspath(path)
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")


def is_path(local: object) -> TypeGuard[Path]:
    return isinstance(local, (str, os.PathLike))


def is_directory(local: object) -> TypeGuard[Path]:
    """Whether it names a local directory."""
    return is_path(local) and os.path.isdir(local)


def is_elsewhere(path: Path) -> bool:
    """Whether a path in the container is outside ``/session``."""
    text = posixpath.normpath(os.fspath(path))
    return text.startswith(("/", "../")) and text != "/session" and not text.startswith("/session/")


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
        yield local.read


@contextlib.contextmanager
def writable(local: Target) -> Iterator[IO[bytes]]:
    """The target as a file object."""
    if isinstance(local, (str, os.PathLike)):
        with open(local, "wb") as file:
            yield file
    else:
        yield local


@contextlib.contextmanager
def readable(local: Source) -> Iterator[Readable]:
    """The same as a file object."""
    if isinstance(local, (bytes, bytearray, memoryview)):
        yield io.BytesIO(local)
    elif isinstance(local, (str, os.PathLike)):
        with open(local, "rb") as file:
            yield file
    else:
        yield local


@contextlib.contextmanager
def target(local: Target) -> Iterator[Callable[[bytes], Any]]:
    """A function that writes bytes."""
    if isinstance(local, (str, os.PathLike)):
        with open(local, "wb") as file:
            yield file.write
    else:
        yield local.write
