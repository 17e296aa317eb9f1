"""The options of a session, as proto/session_options.def has them; a test compares the two."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from ._files import Path
from .packages import Requirements, as_text

CheckpointPolicy = Literal["auto", "always", "off"]
Network = Literal["none", "bridge", "host"]


class ContainerOptions(TypedDict, total=False):
    """The options of a container. An option that is missing or None has the controller's default."""

    memory: int | str | None
    """Bytes, or text such as ``"512m"``."""
    cpus: float | None
    """Processors; may be a fraction."""
    pids: int | None
    """Maximum number of processes and threads."""
    disk: int | str | None
    """Maximum size of ``/session``: bytes, or text such as ``"2g"``."""
    files: int | None
    """Maximum number of files, directories and links in ``/session``."""
    data: Path | None
    """Host directory to mount read-only at ``/data``."""
    env: Mapping[str, str] | None
    """Environment variables."""
    network: Network | None
    """``"none"``, or another network that the controller allows."""
    image: str | None
    """Name of the image. Defaults to the image ``default``."""


class SessionOptions(ContainerOptions, total=False):
    """The options of a session. An option that is missing or None has the controller's default."""

    timeout: float | None
    """Time limit in seconds of calls that set none."""
    ttl: float | None
    """Idle time in seconds after which the session ends; 0: never."""
    checkpoint: CheckpointPolicy | None
    """When automatic checkpoints are taken, to restore after a crash: ``"auto"`` when the session is idle, ``"always"``
    before each call, ``"off"`` never."""
    packages: Requirements | None
    """Python packages to install before the session opens: a list, or the path of a requirements file."""
    pip: Literal["refuse", "allow"] | Sequence[str] | None
    """What ``pip install`` in the session may do: ``"refuse"``, ``"allow"``, or a list of the packages it may install."""


CONTAINER_OPTIONS = ContainerOptions.__optional_keys__
SESSION_OPTIONS = SessionOptions.__optional_keys__


def chosen(options: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Those that were given, as the protocol has them. TypeError for one that there is not."""
    unknown = sorted(options.keys() - known)
    if unknown:
        raise TypeError(f"unknown option {', '.join(unknown)}; the options are {', '.join(sorted(known))}")
    body = {name: value for name, value in options.items() if value is not None}
    if "packages" in body:
        body["packages"] = as_text(body["packages"])
    if not isinstance(body.get("pip", ""), str):
        body["pip"] = ",".join(body["pip"])
    if "data" in body:
        body["data"] = os.path.abspath(os.fspath(body["data"]))
    return body


def said(options: Mapping[str, Any]) -> SessionOptions:
    """What the protocol says of a session, as `open()` takes it."""
    told = dict(options)
    if isinstance(told.get("packages"), str):
        told["packages"] = told["packages"].splitlines()
    if told.get("pip") not in ("refuse", "allow", None):
        told["pip"] = told["pip"].split(",")
    return told  # type: ignore[return-value]
