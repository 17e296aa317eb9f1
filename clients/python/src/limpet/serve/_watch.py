"""What is told of the gateway's work: a line for each operation, and numbers for Prometheus."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ._plain import encode
from ._tracing import Tracing

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Watch:
    """Counts operations and writes them down.

    Args:
        audit_log: A file that lines are added to; None is standard error.
        tracing: Of the gateway.
    """

    def __init__(self, audit_log: str | None, tracing: Tracing) -> None:
        self._tracing = tracing
        self.registry = CollectorRegistry()
        labels = ["door", "operation", "status"]
        self._requests = Counter("limpet_serve_requests", "Requests answered", labels, registry=self.registry)
        self._seconds = Histogram(
            "limpet_serve_request_seconds", "Time until they were answered", ["door", "operation"],
            registry=self.registry, buckets=_SECONDS,
        )  # fmt: skip
        self._runs = Counter(
            "limpet_serve_runs", "Calls ended", ["kind", "status", "state"], registry=self.registry
        )
        self.streams = Gauge("limpet_serve_streams", "Event streams that are open", registry=self.registry)
        self.running = Gauge("limpet_serve_running", "Calls that are running", registry=self.registry)
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._file = open(audit_log, "ab", buffering=0) if audit_log else None  # noqa: SIM115  kept open

    def request(
        self, door: str, operation: str, who: str, status: int, started: float, **more: object
    ) -> None:
        """One was answered. ``operation`` is one of a small number, ``started`` of time.monotonic()."""
        seconds = time.monotonic() - started
        key = door, operation, status
        if key not in self._children:
            labels = self._requests.labels(*key), self._seconds.labels(door, operation)
            self._children[key] = labels
        requests, histogram = self._children[key]
        requests.inc()
        histogram.observe(seconds)
        line = {
            "time": round(time.time(), 3), "who": who, "door": door, "operation": operation, "status": status,
            "ms": round(seconds * 1000, 2), **self._tracing.answered(door, operation), **more,
        }  # fmt: skip
        self._write(encode(line) + b"\n")

    def ran(self, kind: str, status: str, state: str) -> None:
        """A call has ended."""
        self._runs.labels(kind, status, state).inc()

    def failed(self, error: BaseException) -> None:
        """The gateway itself has: a mistake in it, whose traceback is written down."""
        traceback.print_exception(error)

    def _write(self, line: bytes) -> None:
        """A disk that is full stops nobody."""
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.write(line)
            else:
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()

    def text(self) -> bytes:
        """All numbers, as Prometheus reads them."""
        return bytes(generate_latest(self.registry))
