"""What a sandbox may reach: E2B's ``allow_out``, ``deny_out`` and ``allow_internet_access`` as rules of a network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .. import _reach
from ._http import Refused, member

_ALL = ("0.0.0.0/0", "*", "::/0")
_PORTS = (443, 80)  # where none is named, as E2B has it
_PORT = "${PORT}"
_MASK = re.compile(r"[A-Za-z0-9.-]{1,253}(:(\d{1,5}|\$\{PORT\}))?\Z")


def rules_of(network: dict[str, Any], internet: bool | None, allowed: Sequence[str]) -> list[str]:
    """Rules for what is asked for, within those that the operator allows. Raises Refused.

    That everything may be reached is no wish: E2B's older clients always say so. It is granted where it is allowed.
    """
    for name in ("egressProxy", "rules", "maskRequestHost", "httpsPorts", "dnsServers"):
        given = network.get(name, network.get(_snake(name)))
        if given:
            raise Refused(400, f"network.{name} is not available here; leave it out")
    wanted, denied = _hosts(network, "allowOut"), _hosts(network, "denyOut")
    if internet and not set(denied) & set(_ALL) and any(_covered(_reach.EVERYTHING, None, allowed)):
        wanted.append(_reach.EVERYTHING)
    wanted = [_reach.EVERYTHING if host in _ALL else host for host in wanted]
    if _reach.EVERYTHING in wanted and set(denied) - set(_ALL):
        raise Refused(
            400,
            "network.denyOut beside access to everything cannot be kept: name in allowOut what is to be reached",
        )
    found: dict[str, None] = {}
    for host in wanted:
        found.update(dict.fromkeys(_rules(host, allowed)))
    return list(found)


def mask_of(network: dict[str, Any]) -> str:
    """The host that servers in the sandbox are asked by; empty: the one that came. Raises Refused."""
    mask: str = member(network, "maskRequestHost", str, "")
    if mask and not _MASK.match(mask):
        raise Refused(
            400, f"network.maskRequestHost: {mask!r} is no name of a host, with or without a port or {_PORT}"
        )
    return mask


def masked(mask: str, port: int) -> str:
    """The header ``Host`` of requests to a port."""
    return mask.replace(_PORT, str(port))


def shown(rules: list[str], public: bool, mask: str) -> dict[str, Any]:
    """What its owner may see of a sandbox's network."""
    seen: dict[str, Any] = {"allowPublicTraffic": public}
    if mask:
        seen["maskRequestHost"] = mask
    if rules:
        seen |= {"allowOut": rules, "denyOut": [_ALL[0]]}
    return seen


def is_internet(rules: list[str]) -> bool:
    """Whether they lead everywhere."""
    return any(rule.startswith("*:") for rule in rules)


def _rules(asked: str, allowed: Sequence[str]) -> list[str]:
    parts = _reach.parted(asked)
    if parts is None:
        raise Refused(
            400, f"network.allowOut: {asked!r} is no name of a host, no *.domain and no address; ranges of addresses "
            "are not available here"
        )  # fmt: skip
    host, port = parts
    ports = _covered(host, port, allowed)
    if not ports:
        raise Refused(403, f"{asked} may not be reached: {_reach.told(allowed)}")
    return [f"{host}:{each}" for each in ports]


def _covered(host: str, port: int | None, allowed: Sequence[str]) -> list[int]:
    """The ports that may be reached there."""
    return [each for each in (_PORTS if port is None else (port,)) if _reach.covers(allowed, host, each)]


def _hosts(network: dict[str, Any], name: str) -> list[str]:
    given = member(network, name, list, None) or member(network, _snake(name), list, None) or []
    if len(given) > 100 or not all(isinstance(host, str) for host in given):
        raise Refused(400, f"network.{name} is no list of at most 100 texts")
    return list(given)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
