"""E2B's wire: the unmodified clients of E2B use sessions as their sandboxes.

``_control`` is the control plane, ``_execute`` the code interpreter at port 49999 of a sandbox, ``_process``,
``_filesystem`` and ``_files`` are the daemon at port 49983, and ``_ports`` is every other port.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

from ... import Error
from .._app import Door
from .._gateway import Gateway
from .._http import Receive, Scope, Send
from .._problems import Disconnected, Problem, problem_of
from . import _routing
from ._control import Control, refused
from ._daemon import Daemon
from ._execute import Interpreter
from ._http import Body, Refused, header, query, refuse
from ._ports import Ports
from ._records import Record
from ._routing import Target
from ._sandboxes import Sandboxes, check_user
from ._tokens import is_expired, is_token, signature

__all__ = ["door"]


def door(gateway: Gateway) -> Door:
    """Claims hosts and headers of sandboxes, the paths of the control plane, and signed addresses of files."""
    if not gateway.settings.sandboxes:
        return Door(_claims, _not_served)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    sandboxes = Sandboxes(gateway, os.path.join(gateway.settings.state_dir, "e2b"))

    @contextlib.asynccontextmanager
    async def life() -> AsyncIterator[None]:
        sandboxes.begin()
        try:
            yield
        finally:
            sandboxes.stop()

    return Door(_claims, _E2B(sandboxes), life)


def _claims(scope: Scope) -> bool:
    if _routing.target_of(scope) is not None:
        return True
    return scope["type"] == "http" and (_routing.is_control(scope) or _routing.is_signed(scope))


async def _not_served(scope: Scope, receive: Receive, send: Send) -> None:
    await _refuse(
        scope,
        send,
        Refused(
            501,
            "this gateway does not serve E2B's clients: a sandbox belongs to one gateway, which has --sandboxes yes",
        ),
    )


def _is_news(record: logging.LogRecord) -> bool:
    """An answer that breaks off is how a client learns that its sandbox has ended."""
    return "without completing response" not in record.getMessage()


class _E2B:
    """The application: finds out what a request is about and who may ask it."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._all = sandboxes
        self._control, self._daemon = Control(sandboxes), Daemon(sandboxes)
        self._interpreter, self._ports = Interpreter(sandboxes), Ports(sandboxes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, begun = time.monotonic(), False
        operation, status, who = "refused", 500, "-"

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        body = Body(scope, receive)
        try:
            target = _routing.target_of(scope)
            if target is None and not _routing.is_signed(scope):
                operation, status, owner = await self._control(scope, body.receive, sending)
                who = owner.name
            else:
                record, target = self._found(scope, target)
                who = record.owner_name
                operation, status = await self._at(record, target, scope, body.receive, sending)
        except Disconnected:
            status = 499
        except Exception as error:
            refusal = _refusal(error)
            status = refusal.status
            if not isinstance(error, (Refused, Problem, Error)):
                self._all.gateway.watch.failed(error)
            if not begun:
                await body.drain()
                await _refuse(scope, send, refusal)
        self._all.gateway.watch.request("e2b", operation, who, status, started)

    def _found(self, scope: Scope, target: Target | None) -> tuple[Record, Target]:
        """The sandbox, and where in it. Raises Refused."""
        record = self._signed(scope) if target is None else self._all.records.get(target.sandbox)
        known = record is not None and (
            self._all.gateway.keys.is_there(record.owner)
            or (not record.owner and self._all.gateway.doorkeeper.is_open)
        )
        if record is None or not known:
            sandbox = "" if target is None else target.sandbox
            raise Refused(502, "The sandbox was not found", sandboxId=sandbox)
        return record, target or Target(record.id, _routing.ENVD, False)

    def _signed(self, scope: Scope) -> Record:
        """The sandbox whose token has signed this address. Raises Refused and Problem: 429."""
        self._all.gateway.count_stranger(scope)
        for record in self._all.records:
            if self._is_signed(record, scope):
                return record
        raise Refused(401, "the signature is of no sandbox that is here")

    async def _at(
        self, record: Record, target: Target, scope: Scope, receive: Receive, send: Send
    ) -> tuple[str, int]:
        gateway = self._all.gateway
        self._check(record, target, scope)
        gateway.count(self._all.owner(record))
        await self._all.awake(record)
        if scope["type"] == "websocket":
            await self._ports.websocket(record, target.port, scope, receive, send)
            return "port", 101
        if target.port == _routing.INTERPRETER:
            return await self._interpreter(record, scope, receive, send)
        if target.port == _routing.ENVD:
            return await self._daemon(record, scope, receive, send)
        return "port", await self._ports.http(record, target.port, scope, receive, send)

    def _check(self, record: Record, target: Target, scope: Scope) -> None:
        """Whether who asks may. Raises Refused."""
        tokens = self._all.tokens
        envd = is_token(header(scope, b"x-access-token"), tokens.envd(record.id))
        if envd and target.port == _routing.INTERPRETER:
            return
        if target.port == _routing.ENVD:
            if (
                scope["path"] == "/health"
                or envd
                or (scope["path"] == "/files" and self._is_signed(record, scope))
            ):
                check_user(_user(scope))
                return
            raise Refused(
                401, "this needs the sandbox's X-Access-Token, or a signature that is good and in time"
            )
        traffic = is_token(header(scope, b"e2b-traffic-access-token"), tokens.traffic(record.id))
        if (
            envd
            or traffic
            or (record.public and target.port != _routing.INTERPRETER)
            or self._has_key(record, scope)
        ):
            return
        if target.port == _routing.INTERPRETER and scope["path"] == "/health":
            return
        status = 401 if target.port == _routing.INTERPRETER else 403  # as E2B has it
        raise Refused(status, "this needs the sandbox's E2B-Traffic-Access-Token, or its owner's key")

    def _has_key(self, record: Record, scope: Scope) -> bool:
        try:
            return bool(record.owner) and self._all.gateway.doorkeeper.admit(scope).id == record.owner
        except Problem:
            return False

    def _is_signed(self, record: Record, scope: Scope) -> bool:
        """Whether the address has the sandbox's signature. Raises Refused where it had it."""
        given = query(scope)
        expires = given.get("signature_expiration")
        made = signature(
            given.get("path", ""), "read" if scope["method"] in ("GET", "HEAD") else "write",
            given.get("username", ""), self._all.tokens.envd(record.id), expires,
        )  # fmt: skip
        if not is_token(given.get("signature"), made):
            return False
        if is_expired(expires):
            raise Refused(401, "signature is already expired")
        return True


def _user(scope: Scope) -> str | None:
    """The user that something is to be done as."""
    given = header(scope, b"authorization") or ""
    if given[:6].lower() == "basic ":
        try:
            return base64.b64decode(given[6:]).decode("utf-8", "replace").partition(":")[0]
        except (ValueError, binascii.Error):
            raise Refused(400, "the user cannot be read") from None
    return query(scope).get("username")


def _refusal(error: Exception) -> Refused:
    if isinstance(error, Refused):
        return error
    problem = problem_of(error)
    if problem.status == 404 and problem.name in ("NoSuchSession", "SessionClosed"):
        return Refused(502, "The sandbox was not found: it has ended")
    return refused(problem)


async def _refuse(scope: Scope, send: Send, refusal: Refused) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": refusal.message[:100]})
    else:
        await refuse(send, refusal)
