"""What is asked for when a sandbox is made: what can be kept is understood, what cannot is refused in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._http import Refused, member, texts
from ._network import mask_of, rules_of


@dataclass(frozen=True)
class Wanted:
    """A sandbox as somebody wants it."""

    template: str
    timeout: float
    metadata: dict[str, str]
    env: dict[str, str]
    auto_pause: bool
    pause_memory: bool
    auto_resume: bool
    public: bool
    mask: str
    network: list[str]


def wanted_of(body: dict[str, Any], longest: float, allowed: Sequence[str], public: bool) -> Wanted:
    """Of the body of a request, within what sandboxes may reach. Raises Refused.

    Args:
        body: The request.
        longest: The most seconds.
        allowed: Rules of what sandboxes may reach.
        public: Whether ports are public where the request does not say.
    """
    for name in ("mcp", "iam", "volumeMounts"):
        if body.get(name):
            raise Refused(400, f"'{name}' is not available here; leave it out")
    network = dict(member(body, "network", dict, {}))
    mask = mask_of(network)
    network.pop("maskRequestHost", None)
    resume = member(body, "autoResume", dict, {})
    return Wanted(
        member(body, "templateID", str),
        seconds(body, longest, 300),
        texts(body, "metadata"),
        texts(body, "envVars"),
        member(body, "autoPause", bool, False),
        member(body, "autoPauseMemory", bool, True),
        member(resume, "enabled", bool, False),
        member(network, "allowPublicTraffic", bool, public),
        mask,
        rules_of(network, member(body, "allow_internet_access", bool, None), allowed),
    )


def seconds(body: dict[str, Any], longest: float, default: float) -> float:
    """The member ``timeout``. Raises Refused."""
    given = member(body, "timeout", int, None)
    if given is None:
        return min(default, longest)
    if not 0 <= given <= longest:
        raise Refused(400, f"timeout is {given} seconds; it is at most {longest:g} (SANDBOX_TIMEOUT_S)")
    return float(given)
