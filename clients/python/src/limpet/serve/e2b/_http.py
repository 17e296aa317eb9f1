"""Requests and answers in the words of E2B."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from typing import Any
from urllib.parse import parse_qs

import msgspec

from .._http import JSON, Headers, Receive, Scope, Send, body_of, respond
from .._problems import Problem

MOST_JSON = 16 << 20
"""Bytes of a request that is JSON."""


class Refused(Problem):
    """An answer that is an error, in the words of E2B: ``{"code", "message"}``.

    Args:
        status: Of HTTP.
        message: A sentence for people.
        retry_after: Seconds after which it may go better.
        more: Further members.
    """

    def __init__(self, status: int, message: str, retry_after: float | None = None, **more: Any) -> None:
        super().__init__(status, "", message, retry_after, **more)

    @property
    def message(self) -> str:
        """The sentence, as E2B calls it."""
        return self.detail


async def refuse(send: Send, refused: Refused) -> None:
    """Answers with an error."""
    body = {"code": refused.status, "message": refused.message, **refused.more}
    await answer(send, refused.status, body, refused.retry)


async def answer(send: Send, status: int, value: Any = None, headers: Headers = ()) -> None:
    """Answers with JSON; with nothing where there is no value."""
    if value is None:
        await respond(send, status, b"", headers)
    else:
        await respond(send, status, msgspec.json.encode(value), [JSON, *headers])


class Body:
    """What is left of the body of a request. A client that is still sending it when it is refused may not read why."""

    MOST, SECONDS = 1 << 20, 5

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._more = scope["type"] == "http"

    async def receive(self) -> Any:
        """As an application receives it."""
        message = await self._receive()
        self._more = self._more and message["type"] == "http.request" and message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Reads it, if it is not large and comes soon."""
        size, end = 0, time.monotonic() + self.SECONDS
        with contextlib.suppress(asyncio.TimeoutError):
            while self._more and size < self.MOST:
                message = await asyncio.wait_for(self.receive(), max(end - time.monotonic(), 0))
                size += len(message.get("body", b""))


async def json_of(receive: Receive, most: int = MOST_JSON) -> bytes:
    """The body of a request that is JSON. Raises Refused where it is too large."""
    return await body_of(receive, most, Refused(413, f"the request is larger than {most} bytes"))


async def object_of(receive: Receive) -> dict[str, Any]:
    """A request that is a JSON object; nothing is an empty one. Raises Refused."""
    return parsed(await json_of(receive))


def parsed(body: bytes) -> dict[str, Any]:
    """As a JSON object. Raises Refused."""
    try:
        value = msgspec.json.decode(body) if body.strip() else {}
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(400, f"the request is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refused(400, "the request is no JSON object")
    return value


_MISSING: Any = object()
_NAMES = {str: "a text", int: "a whole number", bool: "true or false", dict: "an object", list: "a list"}


def member(value: dict[str, Any], name: str, kind: type, default: Any = _MISSING) -> Any:
    """Of a request; null counts as missing. Raises Refused."""
    given = value.get(name)
    if given is None:
        if default is _MISSING:
            raise Refused(400, f"'{name}' is missing")
        return default
    if not isinstance(given, kind) or (kind is int and isinstance(given, bool)):
        raise Refused(400, f"'{name}' must be {_NAMES[kind]}")
    return given


def shown_time(seconds: float) -> str:
    """As E2B's control plane has it."""
    when = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def texts(value: dict[str, Any], name: str) -> dict[str, str]:
    """A member that is an object of texts."""
    given = member(value, name, dict, {})
    if not all(isinstance(each, str) for each in given.values()):
        raise Refused(400, f"the values of '{name}' must be texts")
    return dict(given)


def header(scope: Scope, name: bytes) -> str | None:
    """The first of that name (in lower case)."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return None


def query(scope: Scope) -> dict[str, str]:
    """The parameters of the address; of those that come twice the last."""
    return {name: given[-1] for name, given in queries(scope).items()}


def queries(scope: Scope) -> dict[str, list[str]]:
    """All parameters of the address."""
    try:
        return parse_qs(
            scope["query_string"].decode("latin-1"),
            keep_blank_values=True,
            max_num_fields=100,
            errors="surrogateescape",
        )
    except ValueError:
        raise Refused(400, "the address has too many parameters") from None
