"""Where a request of a client of E2B leads: the control plane, or a port of a sandbox."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .._http import Scope
from ._http import header

ENVD = 49983
"""The port at which E2B's daemon answers: processes and files."""
INTERPRETER = 49999
"""The port at which code is run."""

# An id of any form: where there is no such sandbox the answer says so.
_HOST = re.compile(r"(\d{1,5})-([a-z0-9]+)\.(.+)\Z")
_CONTROL = re.compile(r"/(v[123]/)?(sandboxes|snapshots|templates|volumes|secrets)(/|\Z)")


@dataclass(frozen=True)
class Target:
    """A port of a sandbox."""

    sandbox: str
    port: int
    by_host: bool
    """Whether the name of the host said so, and not headers."""


def host_of(scope: Scope) -> str:
    """The name that the client asked for, without a port."""
    host = (header(scope, b"host") or "").lower()
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def target_of(scope: Scope) -> Target | None:
    """By ``<port>-<id>.<domain>``, or by the headers that the SDKs add."""
    named = _HOST.match(host_of(scope))
    if named is not None:
        return _target(named[2], named[1], True)
    sandbox = header(scope, b"e2b-sandbox-id")
    if sandbox is None:
        return None
    return _target(sandbox, header(scope, b"e2b-sandbox-port") or str(ENVD), False)


def is_control(scope: Scope) -> bool:
    """Whether it is about sandboxes, and not for one."""
    return _CONTROL.match(scope["path"]) is not None


def is_signed(scope: Scope) -> bool:
    """Whether it is an address of a file, as ``download_url()`` and ``upload_url()`` make them."""
    return bool(scope["path"] == "/files" and b"signature=" in scope.get("query_string", b""))


def domain_of(scope: Scope) -> str | None:
    """The domain of sandboxes, where the control plane was asked for as ``api.<domain>``."""
    host = (header(scope, b"host") or "").lower()
    return host[len("api.") :] if host.startswith("api.") else None


def _target(sandbox: str, port: str, by_host: bool) -> Target | None:
    if not port.isdigit() or len(port) > 5 or not 0 < int(port) < 65536:
        return None
    return Target(sandbox, int(port), by_host)
