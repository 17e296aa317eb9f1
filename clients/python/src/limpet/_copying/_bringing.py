"""Where artifacts of a controller on another machine go on this one."""

from __future__ import annotations

import hashlib
import os
import urllib.parse
from typing import Union

from .._protocol._wire import FILE_CHUNK
from ..results import ArtifactInfo, Result

Artifacts = Union[str, "os.PathLike[str]", bool, None]

_DEFAULT = "limpet-artifacts"
_BELOW = ("/session/artifacts/", "/work/artifacts/")
_PLAIN = " !#$&'()+,-=@[]^_`{}~"  # besides letters and digits: what a file may be called everywhere


def chosen(given: Artifacts) -> str | None:
    """The directory; None where the paths of the other machine are to stay."""
    if given is None:
        given = os.environ.get("LIMPET_ARTIFACTS") or True
    if given is False or given == "0":
        return None
    return os.path.abspath(_DEFAULT if given is True else os.fspath(given))


def place(directory: str, result: Result, path: str) -> str:
    """Of an artifact: a directory for each session, or for a call without one, and in it the names of the container.

    The other machine may say anything: no name leads out, or is one that this machine cannot have.
    """
    below = next((path[len(prefix) :] for prefix in _BELOW if path.startswith(prefix)), path)
    names = [name for name in below.split("/") if name]
    owners = (result.session or result.run_id).split("/")
    return os.path.join(directory, *(_named(name) for name in (*owners, *names)))


def _named(name: str) -> str:
    quoted = urllib.parse.quote(os.fsencode(name), safe=_PLAIN)
    return quoted.replace(".", "%2E") if not name.strip(".") else quoted


def is_there(local: str, info: ArtifactInfo) -> bool:
    """Whether it has been copied already."""
    try:
        if os.path.getsize(local) != info.size:
            return False
        digest = hashlib.sha256()
        with open(local, "rb") as file:
            while piece := file.read(FILE_CHUNK):
                digest.update(piece)
    except OSError:
        return False
    return digest.hexdigest() == info.sha256


def make_room(local: str) -> None:
    os.makedirs(os.path.dirname(local), exist_ok=True)
