"""A collector of traces: takes OTLP as protobuf over HTTP, on loopback."""

import contextlib
import gzip
import http.server
import threading

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from .gateway import until


class Span:
    """What tests look at."""

    def __init__(self, span, resource):
        self.name, self.id, self.parent, self.trace = span.name, span.span_id.hex(), span.parent_span_id.hex(), span.trace_id.hex()
        self.said = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
        self.failed = span.status.code == span.status.STATUS_CODE_ERROR
        self.seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
        self.resource = {each.key: each.value.string_value for each in resource.attributes}


class Collector:
    def __init__(self, address):
        self.url = "http://{}:{}".format(*address)
        self.bodies, self.heads = [], []

    def spans(self):
        for body in list(self.bodies):
            for each in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in each.scope_spans:
                    yield from (Span(span, each.resource) for span in scope.spans)

    def wait(self, name, parent=None):
        """The span of this name, below that one, when it has come."""
        def found():
            return [span for span in self.spans() if span.name == name and parent in (None, span.parent)]

        until(found, f"a span {name} has come")
        return found()[-1]


@contextlib.contextmanager
def collector():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                made.heads.append(dict(self.headers))
                made.bodies.append(body)
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Collector(server.server_address)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
