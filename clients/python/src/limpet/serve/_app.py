"""The application: it hands each request to the door that it came to.

A door is an ASGI application and a question: whether a request is for it. To add one, write a module with a function
``door(gateway) -> Door`` and name the module in ``_DOORS``, before those that claim more. What a door needs is in the
``Gateway``:

- ``gateway.admit(scope)`` says whose request it is, or raises a ``Problem`` (401, 403, 429), which a door of another
  wire puts into words of its own;
- ``gateway.open()``, ``session()``, ``sessions()``, ``close()`` take the owner and the owner's name of a session;
  ``NoSuchSession`` is all that anybody learns of other people's;
- ``gateway.watch.request(...)`` writes the line for the operation down once it has been answered;
- ``gateway.ending`` is set when streams that would go on for ever have to end; ``gateway.unless_ending()`` waits for
  something, but no longer than that.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._gateway import Gateway
from ._http import Asgi, Receive, Scope, Send, respond
from ._problems import Problem

_DOORS = ("limpet.serve.e2b", "limpet.serve._rest", "limpet.serve._mcp", "limpet.serve._web")


@dataclass(frozen=True)
class Door:
    """A way in."""

    claims: Callable[[Scope], bool]
    """Whether a request (``http`` or ``websocket``) is for it: by its path, its host or a header."""
    app: Asgi
    life: Callable[[], contextlib.AbstractAsyncContextManager[Any]] = contextlib.nullcontext
    """What is entered before the first request and left after the last one."""


class App:
    """A gateway's application, which is ``asgi``."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._doors: list[Door] = [importlib.import_module(name).door(gateway) for name in _DOORS]
        self.asgi = gateway.tracing.around(self._answer)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        for door in self._doors:
            if door.claims(scope):
                with self.gateway.charges.request():
                    await door.app(scope, receive, send)
                return
        await refuse(scope, send, Problem(404, "NotFound", f"there is nothing at {scope['path']}"))

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with contextlib.AsyncExitStack() as stack:
                await self.gateway.start()
                stack.push_async_callback(self.gateway.stop)
                for door in self._doors:
                    await stack.enter_async_context(door.life())
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except BaseException as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.shutdown.complete"})


async def refuse(scope: Scope, send: Send, problem: Problem) -> None:
    """Answers with a problem."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": problem.detail[:100]})
        return
    await respond(send, problem.status, problem.body, problem.headers)
