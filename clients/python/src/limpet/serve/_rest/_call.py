"""One request of the REST interface, and what it is answered with."""

from __future__ import annotations

import contextlib
import time
import urllib.parse
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from ... import AsyncSession, BadRequest, NoSuchSession, SessionClosed
from .._gateway import Gateway
from .._http import JSON, Receive, Scope, Send, body_of, heads, pieces_of, respond, stream
from .._keys import ANONYMOUS, Owner
from .._plain import encode
from .._problems import Problem, problem_of
from ._operations import Operation

T = TypeVar("T")

_LARGEST = 32 << 20  # bytes of a body that is JSON
_BESIDE = 1 << 20  # bytes of one beside its code
_ESCAPED = 6  # bytes of a character at most
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


@dataclass
class Answer:
    """What is neither JSON nor a problem."""

    body: bytes | AsyncIterator[bytes] = b""
    status: int = 200
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


def events(call: Call, frames: AsyncIterator[bytes]) -> Answer:
    """A stream of server-sent events. Raises Problem where the owner has too many open."""
    headers = [
        (b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"),
    ]  # fmt: skip
    return Answer(call.gateway.streaming(call.owner, frames), 200, headers)


class Call:
    """A request. ``params`` are those of the path, ``body`` what the operation takes."""

    def __init__(
        self, gateway: Gateway, operation: Operation, params: dict[str, str], scope: Scope, receive: Receive
    ) -> None:
        self.gateway = gateway
        self.operation = operation
        self.params = params
        self.headers = heads(scope)
        self.owner: Owner = ANONYMOUS
        self.body: Any = None
        self.noted: dict[str, object] = {}
        """What the line of the audit log says besides."""
        self._scope = scope
        self._receive = receive

    @property
    def wants_events(self) -> bool:
        """Whether the client takes a stream rather than JSON."""
        return b"text/event-stream" in self.headers.get(b"accept", b"")

    @property
    def last_event_id(self) -> str | None:
        """Of the event that the client has had last."""
        return self.headers.get(b"last-event-id", b"").decode("latin-1") or self.query.get("last_event_id")

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the query."""
        text = self._scope["query_string"].decode("latin-1")
        return dict(urllib.parse.parse_qsl(text, keep_blank_values=True)) if text else {}

    def number(self, name: str, default: T) -> float | T:
        """A parameter of the query that is a number which is not negative. Raises BadRequest."""
        text = self.query.get(name)
        if text is None:
            return default
        try:
            number = float(text)
        except ValueError:
            number = -1
        if not 0 <= number < 1e15:
            raise BadRequest(f"{name}: {text!r} is no number that is not negative")
        return number

    def flag(self, name: str) -> bool:
        """A parameter of the query that is yes or no."""
        return self.query.get(name, "").lower() in ("1", "true", "yes")

    def json(self, value: Any, status: int) -> Answer:
        """An answer with a status of its own."""
        return Answer(encode(value), status, [JSON])

    async def session(self) -> AsyncSession:
        """The one that the path names."""
        return await self.gateway.session(self.owner, self.params["session"])

    @property
    def inner(self) -> str:
        """What the controller calls it."""
        return self.gateway.inner(self.owner, self.params["session"])

    def changed(self, what: str, **more: Any) -> None:
        """Tells those who look at the session that something else than a call has changed it."""
        self.gateway.runs.changed(self.owner, self.inner, what, **more)

    def pieces(self) -> AsyncIterator[bytes]:
        """The body, as it comes. Raises Disconnected where the client goes away before its end."""
        return pieces_of(self._receive)

    async def read(self) -> None:
        """Reads the body, if it is JSON."""
        takes = self.operation.takes
        if takes is None or takes is bytes:
            return
        most = self._most(takes)
        refusal = Problem(413, "TooLarge", f"a body of JSON has at most {most} bytes here")
        data = await body_of(self._receive, most, refusal)
        self.body = _decoded(takes, data or b"{}", self.headers.get(b"content-type", b""))

    def _most(self, takes: Any) -> int:
        """Bytes of a body."""
        chars = self.gateway.settings.max_input_chars
        if not chars or "code" not in takes.__struct_fields__:
            return _LARGEST
        return min(_ESCAPED * chars + _BESIDE, _LARGEST)


def _decoded(takes: Any, data: bytes, content_type: bytes) -> Any:
    kind = content_type.partition(b";")[0].strip().lower()
    if data != b"{}" and kind not in (b"application/json", b"application/x-www-form-urlencoded", b""):
        raise Problem(415, "BadRequest", "the body has to be JSON (Content-Type: application/json)")
    decoder = _DECODERS.get(takes)
    if decoder is None:
        decoder = _DECODERS[takes] = msgspec.json.Decoder(takes)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise BadRequest(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}") from None


async def answer(
    gateway: Gateway, operation: Operation, params: dict[str, str], scope: Scope, receive: Receive, send: Send
) -> None:
    """Does an operation, answers, and writes the line for it down."""
    started = time.monotonic()
    call = Call(gateway, operation, params, scope, receive)
    status = 500
    try:
        given = await _given(call)
        status = given.status
        await _send(given, receive, send, scope["method"] == "HEAD")
    finally:
        session = {"session": params["session"]} if "session" in params else {}
        gateway.watch.request(
            "rest", operation.name, call.owner.name, status, started, **session, **call.noted
        )


async def _given(call: Call) -> Answer:
    try:
        if not call.operation.open:
            call.owner = call.gateway.admit(call._scope)
        await call.read()
        given = await call.operation.handler(call)
    except Exception as error:
        if isinstance(error, (NoSuchSession, SessionClosed)) and "session" in call.params:
            with contextlib.suppress(NoSuchSession):
                call.gateway.forget(call.owner, call.params["session"])
            error = NoSuchSession(f"there is no session '{call.params['session']}'")
        problem = problem_of(error)
        if problem.status == 500:
            call.gateway.watch.failed(error)
        return Answer(problem.body, problem.status, problem.headers)
    if isinstance(given, Answer):
        return given
    if given is None:
        return Answer(b"", 204)
    body = given if isinstance(given, bytes) else encode(given)
    return Answer(body, call.operation.status, [JSON])


async def _send(given: Answer, receive: Receive, send: Send, head: bool) -> None:
    if isinstance(given.body, bytes):
        await respond(send, given.status, given.body, given.headers, head)
        return
    await send({"type": "http.response.start", "status": given.status, "headers": given.headers})
    if head:
        await send({"type": "http.response.body", "body": b""})
    else:
        await stream(receive, send, given.body)
