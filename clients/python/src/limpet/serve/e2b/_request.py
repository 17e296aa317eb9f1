"""What is asked for when a sandbox is made: what can be kept is understood, what cannot is refused in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._http import Refused, member, texts


@dataclass(frozen=True)
class Wanted:
    """A sandbox as somebody wants it."""

    template: str
    timeout: float
    metadata: dict[str, str]
    env: dict[str, str]
    auto_pause: bool
    auto_resume: bool
    public: bool


def wanted_of(body: dict[str, Any], longest: float) -> Wanted:
    """Of the body of a request. Raises Refused."""
    for name in ("mcp", "iam", "volumeMounts"):
        if body.get(name):
            raise Refused(400, f"'{name}' is not available here; leave it out")
    if member(body, "allow_internet_access", bool, False):
        raise Refused(
            400, "sandboxes here have no access to the internet; leave allow_internet_access out, or False"
        )
    network = member(body, "network", dict, {})
    check_network(network)
    resume = member(body, "autoResume", dict, {})
    return Wanted(
        member(body, "templateID", str),
        seconds(body, longest, 300),
        texts(body, "metadata"),
        texts(body, "envVars"),
        member(body, "autoPause", bool, False),
        member(resume, "enabled", bool, False),
        member(network, "allowPublicTraffic", bool, False),
    )


def check_network(network: dict[str, Any]) -> None:
    """Sandboxes reach nothing: whoever wants them to reach less is served. Raises Refused."""
    for name in ("allowOut", "egressProxy", "rules"):
        if network.get(name):
            raise Refused(400, f"network.{name}: sandboxes here have no access to a network; leave it out")
    for name in ("maskRequestHost", "httpsPorts"):
        if network.get(name):
            raise Refused(400, f"network.{name} is not available here; leave it out")


def seconds(body: dict[str, Any], longest: float, default: float) -> float:
    """The member ``timeout``. Raises Refused."""
    given = member(body, "timeout", int, None)
    if given is None:
        return min(default, longest)
    if not 0 <= given <= longest:
        raise Refused(400, f"timeout is {given} seconds; it is at most {longest:g} (SANDBOX_TIMEOUT_S)")
    return float(given)
