"""What an operator lets people reach: rules of a network, and which of those that are asked for they allow."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

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


def told(allowed: Iterable[str]) -> str:
    """What may be reached, for whoever asked for something else."""
    rules = ", ".join(allowed)
    if not rules:
        return "sessions here have no access to a network (SANDBOX_NETWORK is not set); leave it out"
    return f"sessions here may reach {rules} (SANDBOX_NETWORK), and addresses that are named there"


def excess(allowed: Iterable[str], options: Mapping[str, Any]) -> str | None:
    """The first of the rules and bindings of a session that these rules do not allow. ValueError for what is none."""
    allowed = list(allowed)
    network = options.get("network")
    rules: list[str] = network["allow"] if isinstance(network, Mapping) else []
    places = [(rule, parted(rule)) for rule in rules]
    places += [(each["url"], _place_of(each["url"])) for each in (options.get("bindings") or {}).values()]
    for text, place in places:
        if place is None:
            raise ValueError(f"{text!r} is no rule of a network, and no address of a binding")
        if not covers(allowed, place[0], place[1] or 443):
            return text
    return None


def _place_of(url: str) -> Rule | None:
    """Host and port of a binding's address; None for what is none."""
    try:
        parts = urlsplit(url)
        standard = {"http": 80, "https": 443}[parts.scheme]
        host, port = parts.hostname or "", parts.port or standard
    except (ValueError, KeyError):
        return None
    return parted(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def still(allowed: Iterable[str], rules: Iterable[str]) -> list[str]:
    """Those of the rules that are allowed."""
    allowed = list(allowed)
    return [
        rule
        for rule in rules
        if (parts := parted(rule)) is not None and covers(allowed, parts[0], parts[1] or 443)
    ]
