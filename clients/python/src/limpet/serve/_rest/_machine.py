"""What programs that look after the gateway ask."""

from __future__ import annotations

from typing import Any

from .._problems import Problem
from .._who import is_loopback
from ._call import Answer, Call
from ._operations import operation


@operation("GET", "/health", gives=dict[str, str], open=True)
async def health(call: Call) -> Any:
    """Says that the gateway is there."""
    return b'{"status":"ok"}'


@operation("GET", "/ready", gives=dict[str, str], open=True)
async def ready(call: Call) -> Any:
    """Says whether the controller answers, and whether requests are taken."""
    if call.gateway.ending.is_set():
        raise Problem(503, "Unavailable", "the gateway is ending")
    await call.gateway.client.features()
    return b'{"status":"ok"}'


@operation("GET", "/metrics", gives=str, open=True)
async def metrics(call: Call) -> Any:
    """Numbers for Prometheus, as text. Without a key they are told to this machine alone."""
    peer = (call._scope.get("client") or ("",))[0]
    if not is_loopback(peer):
        call.gateway.doorkeeper.admit(call._scope)
    return Answer(
        call.gateway.watch.text(), 200, [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
    )
