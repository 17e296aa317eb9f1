"""What is in a saved session, for people. Nothing in the file is believed, and nothing in it runs."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import RestoreFailed
from . import _archive

_HEAD = struct.Struct("<16s2Q")  # as memory.h has it: its mark, size, kernel


def lines(path: str) -> Iterator[str]:
    """Tells of a file that ``save()`` wrote. Raises RestoreFailed where it is damaged."""
    with _archive.Reader(path) as archive:
        said, found = archive.manifest, _found(archive)
    try:
        yield from _about(said)
        if said.get("memory"):
            yield f"memory    {_size(int(said['memory']))}, {_fit(found.head)}"
        yield f"files     {found.files}, {_size(found.size)}"
        yield from _variables(json.loads(found.index)["variables"])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RestoreFailed(f"'{path}' has a manifest that cannot be read") from error


class _Found:
    """Of the members."""

    index = head = b""
    files = size = 0


def _found(archive: _archive.Reader) -> _Found:
    found = _Found()
    for member in archive.members():
        if member.name == _archive.INDEX and member.size <= _archive.MANIFEST_MAX:
            found.index = b"".join(piece for _, piece in archive.data(member))
            continue
        if member.name == _archive.MEMORY:
            pieces = archive.data(member)
            found.head = next(pieces, (0, b""))[1][: _HEAD.size]
            for _ in pieces:
                pass
            continue
        archive.skip(member)
        if member.kind == "file" and member.name.startswith(f"{_archive.FILES}/"):
            found.files += 1
            found.size += sum(size for _, size in member.data)
    return found


def _about(said: Mapping[str, Any]) -> Iterator[str]:
    made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(float(said["created"])))
    yield f"session   {said['session']}, after call {said['execution_count']}"
    yield f"saved     {made}, by Limpet {said['limpet']} ({said['engine']})"
    yield f"python    {said['python']}"
    options = {name: value for name, value in said["options"].items() if value not in (None, "", [], {})}
    yield f"options   {', '.join(f'{name}={_shown(name, value)}' for name, value in sorted(options.items()))}"


def _shown(name: str, value: Any) -> str:
    """The values of an environment may be secrets."""
    return ",".join(sorted(value)) if name == "env" else json.dumps(value)


def _fit(head: bytes) -> str:
    """The kind of processor is compared when it is restored, and so are the files of the image."""
    if len(head) < _HEAD.size or not head.startswith(b"limpet memory "):
        return "of a format that is not known"
    if _HEAD.unpack(head)[2] == _hash(_vdso()):
        return "fits the kernel of this machine, with the same image"
    return "fits another kernel than that of this machine, where the variables come by their pickles"


def _vdso() -> bytes:
    """What the kernel maps into each process."""
    with open("/proc/self/maps") as maps:
        found = next(line for line in maps if line.endswith("[vdso]\n"))
    start, end = (int(number, 16) for number in found.split()[0].split("-"))
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(start)
        return memory.read(end - start)


def _hash(data: bytes) -> int:
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % (1 << 64)
    return found


def _variables(rows: Any) -> Iterator[str]:
    width = max((len(str(row["name"])) for row in rows), default=0)
    for row in rows:
        what = f"not pickled: {row['why']}" if "why" in row else _size(int(row["size"]))
        yield f"  {row['name']!s:{min(width, 32)}}  {row.get('type', ''):16}  {what}"


def _size(size: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 10_000:
            return f"{size} {unit}"
        size //= 1000
    return f"{size} GB"
