"""What programs that look after the gateway ask."""

from __future__ import annotations

from typing import Any

from .._problems import Problem
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


@operation("GET", "/metrics", gives=str)
async def metrics(call: Call) -> Any:
    """Numbers for Prometheus, as text. Where there are keys, one is needed: whoever comes by a proxy seems near."""
    return Answer(
        call.gateway.watch.text(), 200, [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
    )
