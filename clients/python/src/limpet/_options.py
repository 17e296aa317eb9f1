"""The options of a session, as proto/session_options.def has them; a test compares the two."""

from __future__ import annotations

from typing import Any

SECONDS = NUMBER = float
COUNT = int
SIZE = int | str
TEXT = str

OPTIONS: dict[str, Any] = {
    "timeout": SECONDS,
    "memory": SIZE,
    "cpus": NUMBER,
    "pids": COUNT,
    "disk": SIZE,
    "files": COUNT,
    "data": TEXT,
    "env": dict,
    "ttl": SECONDS,
    "network": TEXT,
    "image": TEXT,
    "checkpoint": TEXT,
}
# Of no use to a container that is there for one call.
PINNED_ONLY = ("ttl", "checkpoint")
