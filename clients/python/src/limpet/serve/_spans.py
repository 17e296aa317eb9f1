"""Traces with OpenTelemetry: a span for each request, and one below it for each operation of the controller.

What a span says is of a small number of words, and ids. Code, output, keys, and paths with names in them are not told.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, TypeVar

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import get_global_textmap
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode

from .. import AsyncClient, Error, Result, __version__
from .._calls._stream import Stream
from .._protocol import _wire
from .._protocol._requests import Request
from ._tracing import Tracing

if TYPE_CHECKING:
    from ._http import Asgi, Receive, Scope, Send

T = TypeVar("T")

_NAMES = (
    "HELLO", "OPEN", "RUN", "INTERRUPT", "RESET", "CLOSE", "SESSIONS", "RESULT", "PUT", "GET", "CHECKPOINT",
    "CHECKPOINTS", "ROLLBACK", "DROP", "BRANCH", "COMMIT", "NAMESPACE", "CONTEXT", "EXEC", "START", "PROCESSES",
    "PROCESS", "CONNECT",
    "SET_NETWORK", "FILES", "TEMPLATE", "TEMPLATES", "REMOVE_TEMPLATE", "SAVE", "EXPORT", "LOAD", "INSTALL",
)  # fmt: skip
_OPERATIONS = {getattr(_wire, name): name.lower() for name in _NAMES}
_SAID = {"session": "limpet.session", "run_id": "limpet.run_id"}
_END_TIME = 2.0  # seconds for which a collector that is away is asked again in the end
_UNNAMED = "unknown_service"  # how OpenTelemetry calls what has no name


class Spans(Tracing):
    """Sends spans from a thread of its own. What cannot be sent is lost, and logged; requests do not notice.

    Args:
        url: Where OTLP is taken, as protobuf over HTTP.
    """

    def __init__(self, url: str) -> None:
        resource = Resource.create({SERVICE_VERSION: __version__})
        if str(resource.attributes[SERVICE_NAME]).startswith(_UNNAMED):
            resource = resource.merge(Resource({SERVICE_NAME: "limpet-serve"}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._exporter = OTLPSpanExporter(endpoint=url)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("limpet.serve", __version__)
        self._propagator = get_global_textmap()
        self._fields = {name.lower().encode(): name for name in self._propagator.fields}

    def client(self, kind: type[AsyncClient]) -> type[AsyncClient]:
        return type(kind.__name__, (_Traced, kind), {"_tracer": self._tracer})

    def around(self, app: Asgi) -> Asgi:
        async def traced(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan":
                await app(scope, receive, send)
                return
            method = scope.get("method", "GET")
            with self._tracer.start_as_current_span(
                method,
                self._parent(scope),
                SpanKind.SERVER,
                {"http.request.method": method, "url.scheme": scope["scheme"]},
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                await app(scope, receive, _noting_status(span, send))

        return traced

    def owner(self, owner: str) -> None:
        if owner:
            trace.get_current_span().set_attribute("limpet.owner", owner)

    def route(self, method: str, template: str) -> None:
        span = trace.get_current_span()
        span.update_name(f"{method} {template}")
        span.set_attribute("http.route", template)

    def answered(self, door: str, operation: str) -> Mapping[str, str]:
        span = trace.get_current_span()
        span.set_attributes({"limpet.door": door, "limpet.operation": operation})
        if door != "rest":  # which has told its route
            span.update_name(f"{door} {operation}")
        return {"trace_id": trace.format_trace_id(span.get_span_context().trace_id)}

    def close(self) -> None:
        giving_up = threading.Timer(_END_TIME, self._exporter.shutdown)
        giving_up.start()
        self._provider.shutdown()
        giving_up.cancel()

    def _parent(self, scope: Scope) -> Any:
        """What the client says of its own trace."""
        heads = {
            self._fields[name]: value.decode("latin-1")
            for name, value in scope["headers"]
            if name in self._fields
        }
        return self._propagator.extract(heads) if heads else None


class _Traced(AsyncClient):
    """Its requests are spans where they belong to one."""

    _tracer: trace.Tracer

    async def _request(self, request: Request[T], start: bool = True, stream: Stream | None = None) -> T:
        if not trace.get_current_span().get_span_context().is_valid:
            return await super()._request(request, start, stream)
        said = {name: request.body[key] for key, name in _SAID.items() if key in request.body}
        with self._tracer.start_as_current_span(
            _OPERATIONS.get(request.kind, "request"),
            kind=SpanKind.CLIENT,
            attributes=said,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                value = await super()._request(request, start, stream)
            except BaseException as error:
                _fail(span, error.name if isinstance(error, Error) else type(error).__name__)
                raise
            if isinstance(value, Result):
                _tell(span, value)
            return value


def _tell(span: Span, result: Result) -> None:
    """How a call has ended. An error in the code of a user is no error of the operation."""
    span.set_attributes({"limpet.status": result.status, "limpet.state": result.state})
    if result.error is not None:
        span.set_attribute("limpet.error", result.error.name)
    if result.status == "failed":
        span.set_status(StatusCode.ERROR)


def _fail(span: Span, name: str) -> None:
    span.set_attribute("error.type", name)
    span.set_status(StatusCode.ERROR)


def _noting_status(span: Span, send: Send) -> Send:
    async def noting(message: MutableMapping[str, Any]) -> None:
        status = {"http.response.start": message.get("status"), "websocket.accept": 101}.get(message["type"])
        if status is not None:
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                _fail(span, str(status))
        await send(message)

    return noting
