"""Rules for the network of a session in a pod: sealed for limpet-egress, so that no key is in the pod."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from typing import Any

import msgpack
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from .._protocol._requests import Body
from ..errors import BadRequest

EGRESS = "limpet-egress"
EGRESS_PORT = 7311
_BINDING = "egress"
_MOST = 8192  # characters, as of any header of a binding
_MISSING = (
    "a session in a pod reaches what rules and bindings name through limpet-egress: "
    "`limpet kubernetes manifest --egress 2` has it, and whoever opens sessions has its key: "
    "give egress_key=, or set LIMPET_EGRESS_KEY"
)


def read_key(path: str | os.PathLike[str] | None) -> bytes | None:
    """The key in the file, or in the one of LIMPET_EGRESS_KEY; None where neither is set."""
    name = path or os.environ.get("LIMPET_EGRESS_KEY")
    if not name:
        return None
    try:
        with open(name, "rb") as file:
            return file.read().strip()
    except OSError as error:
        raise BadRequest(f"the key of {EGRESS} cannot be read: {error}") from error


def reaches(body: Body) -> bool:
    """Whether a request lets a session reach anything."""
    return bool(body.get("allow") or body.get("bindings"))


def relayed(session: str, body: Body, key: bytes | None, address: str | None) -> Body:
    """The request, with all that it lets the session reach behind one binding, which leads to limpet-egress."""
    if key is None or address is None:
        raise BadRequest(_MISSING)
    allow, bindings = list(body.get("allow") or []), dict(body.get("bindings") or {})
    rules = _sealed(key, {"label": session, "allow": allow, "bindings": bindings})
    if len(rules) > _MOST:
        raise BadRequest(f"the network of a session in a pod takes {len(rules)} characters; at most {_MOST}")
    binding = {"url": f"egress://{address}", "headers": {"rules": rules}}
    return {**body, "allow": allow, "bindings": {_BINDING: binding}}


def _sealed(key: bytes, rules: Mapping[str, Any]) -> str:
    """As host/egress/sealed.h has it."""
    plain: bytes = msgpack.packb(_sorted(rules))
    return base64.b64encode(AESSIV(hashlib.sha512(key).digest()).encrypt(plain, None)).decode()


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return value
