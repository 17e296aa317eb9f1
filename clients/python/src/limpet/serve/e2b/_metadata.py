"""Metadata of files, which E2B keeps as extended attributes of each: ``user.e2b.NAME``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ... import AsyncSession
from ...files import Entry
from .._http import Scope
from ._archives import HOME
from ._http import Refused

_HEADER = "x-metadata-"
_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,200}\Z")
_VALUE = re.compile(r"[\x20-\x7e]{0,4000}\Z")
_MOST = 64  # of a file
_TIME = 60.0  # seconds
_DEPTH = 64
_SET = """
import json, os, sys
asked = json.load(sys.stdin)
for path in asked["paths"]:
    for name in os.listxattr(path):
        if name.startswith("user.e2b."):
            os.removexattr(path, name)
    for name, value in asked["metadata"].items():
        os.setxattr(path, "user.e2b." + name, value.encode())
"""
_GET = """
import json, os, sys
found = {}
for path in json.load(sys.stdin):
    try:
        names = [name for name in os.listxattr(path) if name.startswith("user.e2b.")]
        values = {name[len("user.e2b."):]: os.getxattr(path, name).decode("ascii", "replace") for name in names}
    except OSError:
        values = {}
    if values:
        found[path] = values
print(json.dumps(found))
"""


def given(scope: Scope) -> dict[str, str]:
    """What an upload asks to keep. Raises Refused."""
    heads = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    found = {name[len(_HEADER) :]: value for name, value in heads if name.startswith(_HEADER)}
    if len(found) > _MOST or not all(_NAME.match(name) and _VALUE.match(found[name]) for name in found):
        raise Refused(
            400, f"metadata: at most {_MOST} names, of letters and digits, with values of printable ASCII"
        )
    return found


async def store(session: AsyncSession, paths: Sequence[str], metadata: dict[str, str]) -> None:
    """Gives files this metadata, and no other. Raises Refused."""
    said = json.dumps({"paths": list(paths), "metadata": metadata})
    done = await session.exec(["python3", "-c", _SET], stdin=said, timeout=_TIME)
    if not done.ok:
        why = done.stderr.strip().rpartition("\n")[2]
        raise Refused(507, f"the files were written, and their metadata could not be kept: {why}")


async def read(session: AsyncSession, entries: Sequence[Entry]) -> dict[str, Any]:
    """The metadata of those of the files that have some, by path."""
    paths = [entry.path for entry in entries if entry.attributes]
    if not paths:
        return {}
    done = await session.exec(["python3", "-c", _GET], stdin=json.dumps(paths), timeout=_TIME)
    return dict(json.loads(done.stdout)) if done.ok else {}


async def not_saved(session: AsyncSession, home: str) -> list[str]:
    """What a saved session does not have of it, where it has any."""
    entries = await session.files.list("/session" if home == HOME else home, _DEPTH)
    found = await read(session, [entry for entry in entries if entry.type == "file"])
    return [f"metadata of {len(found)} files in /session: it is not saved"] if found else []
