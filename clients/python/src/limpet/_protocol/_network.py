"""The request that changes the network of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _wire
from ._options import Binding, Network, allowed, told
from ._requests import Request, given


def change(network: Network | None, bindings: Mapping[str, Binding] | None) -> Request[dict[str, Any]]:
    body = given(allow=None if network is None else allowed(network), bindings=bindings)
    return Request(_wire.SET_NETWORK, body, lambda reply: told({"network": "none", "bindings": {}, **reply}))
