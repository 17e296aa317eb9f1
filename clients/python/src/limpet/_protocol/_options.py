"""The options of a session, as proto/session_options.def has them; a test compares the two."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar, get_type_hints

from .._copying._files import Path
from ..errors import BadRequest
from ..packages import Requirements, as_text

F = TypeVar("F", bound=Callable[..., Any])

CheckpointPolicy = Literal["auto", "always", "off"]
TtlAction = Literal["close", "save"]


class NetworkRules(TypedDict):
    """What the code may connect to."""

    allow: Sequence[str]
    """``"host:port"``, ``"*.domain:port"`` or an address and port; port 443 where none is named."""


class BindingTarget(TypedDict):
    url: str
    """Where requests go: ``http`` or ``https``, a host, perhaps a port and a path."""


class Binding(BindingTarget, total=False):
    """A name of the session's network, ``http://NAME.limpet/``, behind which the host adds headers."""

    headers: Mapping[str, str]
    """Headers that the host adds, such as keys. The session never sees them."""


Network = Literal["none", "bridge", "host"] | NetworkRules


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
    """Directory to read at ``/data``: of this machine, or as ``"host:/PATH"`` of the controller's. It is mounted
    read-only. One of this machine is copied by ``open()`` where the controller is on another one, and counts as
    ``disk``."""
    env: Mapping[str, str] | None
    """Environment variables."""
    network: Network | None
    """``"none"``, ``{"allow": ["api.example.com:443"]}``, or a network that the controller allows."""
    bindings: Mapping[str, Binding] | None
    """Names behind which the host adds headers: ``{"api": {"url": "https://…", "headers": {"X-Key": "…"}}}``."""
    image: str | None
    """Name of the image. Defaults to the image ``default``."""
    packages: Requirements | None
    """Python packages to install before any code runs: a list, or the path of a requirements file."""
    build: Literal["refuse", "allow"] | None
    """Packages without a wheel: ``"refuse"`` them, or ``"allow"`` the installer to build them, which runs their code in
    its container."""
    template: str | None
    """Template that the session begins from. Its image and environment apply if none are given."""


class SessionOptions(ContainerOptions, total=False):
    """The options of a session. An option that is missing or None has the controller's default."""

    timeout: float | None
    """Time limit in seconds of calls that set none."""
    ttl: float | None
    """Idle time in seconds after which the session is saved or closed; 0: never."""
    ttl_action: TtlAction | None
    """What becomes of the session then: ``"save"``, the default for one with a name, saves it and wakes it when it is
    used again; ``"close"`` ends it."""
    checkpoint: CheckpointPolicy | None
    """When automatic checkpoints are taken, to restore after a crash: ``"auto"`` when the session is idle, ``"always"``
    before each call, ``"off"`` never."""
    pip: Literal["refuse", "allow"] | Sequence[str] | None
    """What ``pip install`` in the session may do: ``"refuse"``, ``"allow"``, or a list of packages."""


def spelled(options: type) -> Callable[[F], F]:
    """Of a function with ``**options``: ``help()``, Tab and ``inspect.signature()`` show each of them."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        each = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in get_type_hints(options).items()
            if name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=[*own, *each])  # type: ignore[attr-defined]
        return function

    return decorate


_HOST = "host:"  # before a directory of the controller's machine

CONTAINER_OPTIONS = ContainerOptions.__optional_keys__
SESSION_OPTIONS = SessionOptions.__optional_keys__


def chosen(options: Mapping[str, Any], known: frozenset[str], far: bool = False) -> dict[str, Any]:
    """Those that were given, as the protocol has them. TypeError for one that there is not.

    ``far``: they are for a controller on another machine.
    """
    unknown = sorted(options.keys() - known)
    if unknown:
        raise TypeError(f"unknown option {', '.join(unknown)}; the options are {', '.join(sorted(known))}")
    body = {name: value for name, value in options.items() if value is not None}
    if "packages" in body:
        body["packages"] = as_text(body["packages"])
    if not isinstance(body.get("pip", ""), str):
        body["pip"] = _names(body["pip"])
    if "data" in body:
        body["data"] = data_option(os.fspath(body["data"]), far)
    if isinstance(body.get("network"), Mapping):
        body["allow"] = allowed(body["network"])
        body["network"] = "none"
    return body


def _names(pip: Sequence[str]) -> str:
    try:
        return ",".join(pip)
    except TypeError:
        raise TypeError('pip must be "refuse", "allow" or a list of packages') from None


def without_copied(options: Mapping[str, Any], far: bool) -> tuple[dict[str, Any], str | None]:
    """The options, and the directory of this machine that is copied instead of mounted: None where none is."""
    options = dict(options)
    data = options.get("data")
    if not far or data is None or os.fspath(data).startswith(_HOST):
        return options, None
    return options, os.fspath(options.pop("data"))


def data_option(path: str, far: bool) -> str:
    if path.startswith(_HOST):
        return path.removeprefix(_HOST)
    if far:
        raise BadRequest(
            f"data: '{path}' is a directory of this machine, and the controller is on another one: open() a session "
            "with it, to which it is copied, or name a directory of that machine as 'host:/PATH'"
        )
    return os.path.abspath(path)


def allowed(network: Network) -> list[str]:
    """The rules of ``network``. TypeError for what are none."""
    if network == "none":
        return []
    if not isinstance(network, Mapping) or set(network) != {"allow"} or isinstance(network["allow"], str):
        raise TypeError('network must be "none" or {"allow": ["host:port", ...]}')
    return list(network["allow"])


def told(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the protocol has them, as they are given."""
    options = dict(options)
    allow = options.pop("allow", None)
    if allow:
        options["network"] = {"allow": allow}
    if isinstance(options.get("packages"), str):
        options["packages"] = options["packages"].splitlines()
    if options.get("pip") not in ("refuse", "allow", None):
        options["pip"] = options["pip"].split(",")
    return options
