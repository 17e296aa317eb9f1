"""Who is asking."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from ._http import Scope, heads
from ._keys import ANONYMOUS, KeyStore, Owner
from ._problems import Problem


class Doorkeeper:
    """Knows people by their keys.

    Args:
        keys: Of the gateway.
        loopback: Whether it listens on loopback alone: then, and only while there are no keys, no key is asked for.
    """

    def __init__(self, keys: KeyStore, loopback: bool) -> None:
        self._keys = keys
        self._open = loopback and not keys.are_there

    @property
    def is_open(self) -> bool:
        """Whether nobody needs a key. Once there has been a key this stays False, also when it is revoked."""
        self._open = self._open and not self._keys.are_there
        return self._open

    def admit(self, scope: Scope) -> Owner:
        """The owner. Raises Problem."""
        headers = heads(scope)
        key = key_of(headers)
        if self.is_open:
            _refuse_other_sites(headers)
            return ANONYMOUS
        owner = None if key is None else self._keys.owner(key)
        if owner is not None:
            return owner
        if key is None:
            raise Problem(401, "Unauthorized", "send your key as X-API-Key, or as Authorization: Bearer")
        raise Problem(401, "Unauthorized", "this key is not valid, or was revoked")


def key_of(headers: Mapping[bytes, bytes]) -> str | None:
    """What was sent as a key."""
    key = headers.get(b"x-api-key")
    if key is None:
        scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not key:
            return None
    return key.strip().decode("latin-1")


def is_loopback(host: str) -> bool:
    """Whether an address, or ``localhost``, is one of this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse_other_sites(headers: Mapping[bytes, bytes]) -> None:
    """Without keys a browser would do what any page asks of this address, or of a name that leads here."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    origin = headers.get(b"origin")
    other = origin is not None and origin.decode("latin-1").lower().partition("://")[2] != host
    site = headers.get(b"sec-fetch-site", b"none")
    if not is_loopback(name.strip("[]")) and not name.endswith(".localhost"):
        raise Problem(
            403, "Denied", f"'{name}' is no name of this machine; without keys only those are served"
        )
    if other or site not in (b"none", b"same-origin"):
        raise Problem(403, "Denied", "a page of another site may not use this gateway; with a key it may")
