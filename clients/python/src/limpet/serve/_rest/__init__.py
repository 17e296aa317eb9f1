"""The REST interface under /v1, and what a machine asks of the gateway: /health, /ready, /metrics."""

from __future__ import annotations

from .._app import Door, refuse
from .._gateway import Gateway
from .._http import Receive, Scope, Send
from .._problems import Problem
from . import (  # noqa: F401  they fill the table
    _chatting,
    _completing,
    _files,
    _installing,
    _machine,
    _openapi,
    _processes,
    _running,
    _sessions,
    _state,
)
from ._call import answer
from ._operations import Operation, table

__all__ = ["door", "table"]

_ROOT = ("/health", "/ready", "/metrics")


def door(gateway: Gateway) -> Door:
    """Claims /v1 and these three."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("raw_path") or scope["path"].encode()
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        found = table.find(method, path.partition(b"?")[0])
        if isinstance(found, tuple):
            operation: Operation = found[0]
            gateway.tracing.route(method, operation.template)
            await answer(gateway, operation, found[1], scope, receive, send)
        elif found:
            methods = ", ".join(sorted(found))
            await refuse(scope, send, Problem(405, "BadRequest", f"{scope['path']} takes {methods}"))
        else:
            await refuse(scope, send, Problem(404, "NotFound", f"there is nothing at {scope['path']}"))

    def claims(scope: Scope) -> bool:
        path = scope["path"]
        return scope["type"] == "http" and (path.startswith("/v1/") or path == "/v1" or path in _ROOT)

    return Door(claims, app)
