"""What an operator lets people reach: rules of a network, and which of those that are asked for they allow."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
_NAME = re.compile(rf"(?:\*\.)?(?:{_LABEL}\.)+[a-z](?:[a-z0-9-]*[a-z0-9])?\Z")
_PARTS = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?\Z")

EVERYTHING = "*"
Rule = tuple[str, "int | None"]


def parted(text: str) -> Rule | None:
    """Host and port of a rule; None for what is none."""
    found = _PARTS.match(text.lower())
    if found is None:
        return None
    host, port = found[1], None if found[2] is None else int(found[2])
    known = host in (EVERYTHING, "localhost") or is_name(host) or is_address(host)
    return (host, port) if known and (port is None or 0 < port < 65536) else None


def is_rule(text: str) -> bool:
    """Whether it is one, as the option ``network`` of a session has them."""
    return parted(text) is not None


def is_name(host: str) -> bool:
    """Whether it is the name of a host, or of all below one, and neither an address nor this machine."""
    return _NAME.match(host) is not None and len(host) < 254


def is_address(host: str) -> bool:
    """Whether it is an address of IP."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def covers(allowed: Iterable[str], host: str, port: int) -> bool:
    """Whether these rules allow this host, or pattern. An address has to be named itself, and so does ``localhost``."""
    for rule in map(parted, allowed):
        if rule is None or (rule[1] or 443) != port:
            continue
        if rule[0] == host or (
            is_name(host)
            and (rule[0] == EVERYTHING or (rule[0].startswith("*.") and host.endswith(rule[0][1:])))
        ):
            return True
    return False


def still(allowed: Iterable[str], rules: Iterable[str]) -> list[str]:
    """Those of the rules that are allowed."""
    allowed = list(allowed)
    return [
        rule
        for rule in rules
        if (parts := parted(rule)) is not None and covers(allowed, parts[0], parts[1] or 443)
    ]
