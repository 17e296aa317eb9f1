"""What there is in a sandbox, for the description of a tool: asked once for all tools of a process."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass
from typing import Any

from .. import Busy, Client, SessionOptions, Unavailable

_ASK = """
import importlib.metadata, json, platform
names = {found.metadata["Name"]: found.version for found in importlib.metadata.distributions()}
print(json.dumps([platform.python_version(), names]))
"""
_TIMEOUT = 60.0

_lock = threading.Lock()
_known: dict[tuple[str, str], Contents] = {}


@dataclass(frozen=True)
class Contents:
    """What is not known is empty."""

    engine: str | None
    options: SessionOptions
    """All, as they hold."""
    python: str = ""
    packages: tuple[tuple[str, str], ...] = ()
    """Names and versions of what is installed, in the order of the alphabet."""


def contents(client: Client, options: SessionOptions) -> Contents:
    """Of sandboxes with these options. Raises what is wrong with the options.

    Where no sandbox can be had at the moment it is what the options say.
    """
    key = client.address, repr(sorted(options.items()))
    with _lock:
        known = _known.get(key)
    if known is not None:
        return known
    try:
        found = _asked(client, options)
    except (Busy, Unavailable):
        return Contents(None, options)
    with _lock:
        return _known.setdefault(key, found)


def _asked(client: Client, options: SessionOptions) -> Contents:
    with client.open(uuid.uuid4().hex, **options) as session:  # with a name, as those of threads have one
        said = session.run(_ASK, _TIMEOUT)
        python, packages = _read(said.stdout.splitlines()[-1]) if said.ok else ("", ())
        return Contents(session.engine, session.options, python, packages)


def _read(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    python, names = json.loads(text)
    return str(python), tuple(sorted(_texts(names), key=lambda pair: pair[0].lower()))


def _texts(names: dict[Any, Any]) -> list[tuple[str, str]]:
    return [(str(name), str(version)) for name, version in names.items() if name]
