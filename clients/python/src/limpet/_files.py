"""The local ends of put() and get()."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from typing import IO, Any, Protocol, Union

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
def target(local: Target) -> Iterator[Callable[[bytes], Any]]:
    """A function that writes bytes."""
    if isinstance(local, (str, os.PathLike)):
        with open(local, "wb") as file:
            yield file.write
    else:
        yield local.write
