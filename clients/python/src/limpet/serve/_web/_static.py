"""Files of the page."""

from __future__ import annotations

from .._app import Receive, Scope, Send, refuse
from .._gateway import Gateway
from .._problems import Problem


class Static:
    """Answers with a file of the package."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        await refuse(scope, send, Problem(404, "NotFound", f"there is nothing at {scope['path']}"))
