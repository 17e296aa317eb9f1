"""Traces of what the gateway does, for those who collect them. Off, nothing is done and nothing is imported for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .. import AsyncClient
from .._adapters.arguments import WrongOption

if TYPE_CHECKING:
    from ._http import Asgi

INSTALL = "pip install 'opentelemetry-sdk>=1.30' 'opentelemetry-exporter-otlp-proto-http>=1.30'"

_OURS = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"


class Tracing:
    """None. ``_spans.Spans`` says more."""

    def client(self, kind: type[AsyncClient]) -> type[AsyncClient]:
        """Clients of that kind, whose requests are spans."""
        return kind

    def around(self, app: Asgi) -> Asgi:
        """The application, whose requests are spans."""
        return app

    def owner(self, owner: str) -> None:
        """Whose request it is, by the id of the key."""

    def route(self, method: str, template: str) -> None:
        """What was asked for: the path without names of sessions and files."""

    def answered(self, door: str, operation: str) -> Mapping[str, str]:
        """An operation was done. What the line of the audit log says of its trace."""
        return {}

    def close(self) -> None:
        """Sends what has not been sent yet."""


def tracing(endpoint: str | None, environment: Mapping[str, str] = os.environ) -> Tracing:
    """What the settings and the variables of OpenTelemetry ask for. Raises WrongOption.

    Args:
        endpoint: Of the collector, without the path of traces.
        environment: Has the variables.
    """
    url = environment.get(_OURS) or (f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None)
    off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if url is None or off or environment.get("OTEL_TRACES_EXPORTER", "otlp").strip() == "none":
        return Tracing()
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _SPOKEN)
    if protocol != _SPOKEN:
        raise WrongOption(
            f"traces are sent by {_SPOKEN}, not by {protocol}: set {_PROTOCOLS[0]}={_SPOKEN} and, in the endpoint, "
            "the port at which the collector takes that, which mostly is 4318"
        )
    try:
        from ._spans import Spans
    except ImportError as error:
        raise WrongOption(
            f"traces need more packages ({error}): {INSTALL}; OTEL_SDK_DISABLED=true does without traces"
        ) from None
    return Spans(url)
