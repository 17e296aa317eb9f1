"""Traces of the gateway, as a collector receives them."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.support.gateway import events

SOON = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
SECRET = "whisper-4711"

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")


@pytest.fixture
def collected():
    from tests.support.collector import collector

    with collector() as made:
        yield made


@pytest.fixture
def traced(collected, own_gateway):
    return own_gateway(OTEL_EXPORTER_OTLP_ENDPOINT=collected.url, **SOON)


@pytest.fixture
def opened(traced, name):
    """A client, and the path of a session."""
    with traced.client() as http:
        http.post("/v1/sessions", json={"name": name}).raise_for_status()
        yield http, f"/v1/sessions/{name}"
        http.delete(f"/v1/sessions/{name}")


def parent():
    """Ids of a trace and of a span in it, and the header that says so."""
    trace, span = os.urandom(16).hex(), os.urandom(8).hex()
    return trace, span, {"traceparent": f"00-{trace}-{span}-01"}


def test_a_call_is_below_its_request_which_is_below_the_client(traced, opened, collected, name):
    http, path = opened
    trace, span, headers = parent()
    run_id = os.urandom(16).hex()
    body = {"code": f"print('{SECRET}'); 1", "run_id": run_id}
    assert http.post(f"{path}/run", json=body, headers=headers).json()["status"] == "ok"

    request = collected.wait("POST /v1/sessions/{session}/run")
    assert (request.trace, request.parent) == (trace, span)
    assert request.said["http.route"] == "/v1/sessions/{session}/run"
    assert request.said["http.response.status_code"] == 200 and not request.failed
    assert request.resource["service.name"] == "limpet-serve"

    call = collected.wait("run", parent=request.id)
    assert call.trace == trace and 0 < call.seconds <= request.seconds
    assert call.said == {
        "limpet.session": name, "limpet.run_id": run_id, "limpet.status": "ok", "limpet.state": "kept",
    }  # fmt: skip
    line = next(line for line in traced.lines() if line["operation"] == "run")
    assert line["trace_id"] == trace
    assert all(SECRET.encode() not in body for body in collected.bodies)


def test_an_error_in_the_code_is_told_by_name_and_fails_no_span(opened, collected):
    http, path = opened
    _, _, headers = parent()
    http.post(f"{path}/run", json={"code": f"raise ValueError('{SECRET}')"}, headers=headers)
    request = collected.wait("POST /v1/sessions/{session}/run")
    call = collected.wait("run", parent=request.id)
    assert (call.said["limpet.status"], call.said["limpet.error"]) == ("error", "ValueError")
    assert not call.failed and not request.failed
    assert all(SECRET.encode() not in body for body in collected.bodies)


def test_an_operation_that_is_refused_says_its_error(traced, collected, name):
    with traced.client() as http:
        assert http.post(f"/v1/sessions/{name}/run", json={"code": "1"}).status_code == 404
    request = collected.wait("POST /v1/sessions/{session}/run")
    attach = collected.wait("open", parent=request.id)
    assert attach.failed and attach.said["error.type"] == "NoSuchSession"
    assert request.said["http.response.status_code"] == 404 and not request.failed


def test_a_stream_of_events_is_one_span_until_its_end(opened, collected):
    http, path = opened
    trace, _, headers = parent()
    headers["Accept"] = "text/event-stream"
    with http.stream("POST", f"{path}/run", json={"code": "print(1)"}, headers=headers) as stream:
        assert list(dict.fromkeys(kind for _, kind, _ in events(stream))) == ["output", "result"]
    request = collected.wait("POST /v1/sessions/{session}/run")
    assert collected.wait("run", parent=request.id).trace == request.trace == trace


def test_of_a_key_the_id_of_its_owner_is_told(collected, own_gateway):
    gateway = own_gateway(start=False, OTEL_EXPORTER_OTLP_ENDPOINT=collected.url, **SOON)
    key = gateway.key("create", "anna")
    gateway.start()
    with gateway.client(key) as http, gateway.client("e2b_" + "0" * 40) as stranger:
        assert http.get("/v1/sessions").status_code == 200
        assert collected.wait("GET /v1/sessions").said["limpet.owner"]
        assert stranger.get("/v1/namespace").status_code == 404
        assert stranger.post("/v1/sessions", json={}).status_code == 401
    refused = collected.wait("POST /v1/sessions")
    assert refused.said["http.response.status_code"] == 401 and "limpet.owner" not in refused.said
    assert all(key.encode() not in body for body in collected.bodies)


def test_the_door_of_e2b_has_spans_too(traced, collected):
    with traced.client("e2b_" + "0" * 40) as http:
        assert http.get("/sandboxes").status_code == 200
    request = collected.wait("e2b list")
    assert request.said["limpet.door"] == "e2b" and request.said["http.response.status_code"] == 200


def test_the_variables_of_opentelemetry_hold(collected, own_gateway):
    with own_gateway(
        "--otlp-endpoint", f"{collected.url}/", OTEL_EXPORTER_OTLP_HEADERS="x-team=blue", OTEL_SERVICE_NAME="analysts",
        OTEL_EXPORTER_OTLP_COMPRESSION="gzip", **SOON,
    ).client() as http:  # fmt: skip
        http.get("/health")
    assert collected.wait("GET /health").resource["service.name"] == "analysts"
    assert collected.heads[0]["x-team"] == "blue"


def test_nobody_waits_for_a_collector_that_is_away(own_gateway, name):
    with socket.socket() as taken:  # it connects, and nothing ever answers
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        gateway = own_gateway(OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_EXPORTER_OTLP_TIMEOUT="1", whole=True, **SOON)
        with gateway.client() as http:
            http.post("/v1/sessions", json={"name": name}).raise_for_status()
            for _ in range(50):
                assert http.post(f"/v1/sessions/{name}/run", json={"code": "1"}).json()["result"] == "1"
            http.delete(f"/v1/sessions/{name}")
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(60) in (0, -signal.SIGTERM)
        assert "Traceback" not in gateway.said()


def refusal(gateway):
    """What it says where it does not start."""
    command = [sys.executable, "-W", "ignore", "-m", "limpet.serve", "--port", "0"]
    done = subprocess.run(command, env=gateway.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done
    return done.stderr


def test_a_protocol_that_is_not_spoken_is_refused(own_gateway):
    gateway = own_gateway(
        start=False, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4317", OTEL_EXPORTER_OTLP_PROTOCOL="grpc"
    )
    assert "set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf" in refusal(gateway)


def test_what_is_no_address_is_refused(own_gateway):
    assert "begins with http://" in refusal(own_gateway(start=False, OTEL_EXPORTER_OTLP_ENDPOINT="localhost:4318"))


@pytest.fixture
def without_packages(tmp_path):
    """An environment in which OpenTelemetry cannot be imported."""
    (tmp_path / "opentelemetry.py").write_text("raise ImportError('it is not here')\n")
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])}


def test_off_it_is_not_imported(own_gateway, without_packages):
    for off in ({}, {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}):
        gateway = own_gateway(**without_packages, **off)
        with gateway.client() as http:
            assert http.get("/health").status_code == 200
            assert http.post("/v1/run", json={"code": "1", "timeout": -1}).status_code >= 400
        assert "trace_id" not in gateway.lines()[-1]
        gateway.stop()


def test_without_its_packages_it_says_how_to_get_them(own_gateway, without_packages):
    gateway = own_gateway(start=False, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318", **without_packages)
    assert "pip install 'opentelemetry-sdk" in refusal(gateway)
