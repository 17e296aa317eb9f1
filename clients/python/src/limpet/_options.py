"""The options of a session, as proto/session_options.def has them; a test compares the two."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from ._files import Path

CheckpointPolicy = Literal["auto", "always", "off"]
Network = Literal["none", "bridge", "host"]


class ContainerOptions(TypedDict, total=False):
    """The options of a container. What is not given, or None, is the controller's default."""

    memory: int | str | None
    """Bytes, or text such as ``"512m"``."""
    cpus: float | None
    """Processors; may be a fraction."""
    pids: int | None
    """Processes and threads."""
    disk: int | str | None
    """What ``/session`` may hold: bytes, or text such as ``"2g"``."""
    files: int | None
    """Files, directories and links in ``/session``."""
    data: Path | None
    """A directory of the host, mounted read-only at ``/data``."""
    env: Mapping[str, str] | None
    """Environment variables."""
    network: Network | None
    """``"none"``, or what the controller allows besides."""
    image: str | None
    """Name of the image; by default the one built last."""


class SessionOptions(ContainerOptions, total=False):
    """The options of a session. What is not given, or None, is the controller's default."""

    timeout: float | None
    """Seconds for a call that names none."""
    ttl: float | None
    """Seconds after which an idle session ends; 0 for never."""
    checkpoint: CheckpointPolicy | None
    """When copies of the variables are taken by themselves, to go back to when a call destroys them: ``"auto"`` while
    the session is idle, ``"always"`` before each call, or ``"off"``."""


CONTAINER_OPTIONS = ContainerOptions.__optional_keys__
SESSION_OPTIONS = SessionOptions.__optional_keys__


def chosen(options: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Those that were given, as the protocol has them. TypeError for one that there is not."""
    unknown = sorted(options.keys() - known)
    if unknown:
        raise TypeError(f"there is no option {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    body = {name: value for name, value in options.items() if value is not None}
    if "data" in body:
        body["data"] = os.path.abspath(os.fspath(body["data"]))
    return body
