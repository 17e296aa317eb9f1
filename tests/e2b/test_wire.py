"""What no client of E2B says, and who leaves in the middle."""

import http.client
import json
import socket
import struct

import pytest

from limpet.serve.e2b._frames import Failed, Frames
from limpet.serve.e2b._tokens import is_expired, signature

from tests.support.gateway import Gateway

from .conftest import until

STREAM = "application/connect+json"


class Wire:
    """Requests for a sandbox, as they are."""

    def __init__(self, gateway, sandbox):
        self.gateway, self.sandbox = gateway, sandbox

    def headers(self, port=49983, **more):
        return {
            "E2b-Sandbox-Id": self.sandbox.sandbox_id, "E2b-Sandbox-Port": str(port),
            "X-Access-Token": self.sandbox._envd_access_token, "Content-Type": "application/json",
        } | {name.replace("_", "-"): value for name, value in more.items()}  # fmt: skip

    def ask(self, method, path, body=None, **headers):
        """Status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=60)
        try:
            connection.request(method, path, body, self.headers(**headers))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def call(self, procedure, message=None, **headers):
        """Status and answer of a procedure."""
        body = message if isinstance(message, bytes) else json.dumps(message or {}).encode()
        status, _, answer = self.ask("POST", f"/{procedure}", body, **headers)
        return status, json.loads(answer)

    def begin(self, path, body, port=49983, later=b"", **headers):
        """A connection on which a request was sent, but for what the caller sends later."""
        link = socket.create_connection(("127.0.0.1", self.gateway.port), timeout=60)
        lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body) + len(later)}"]
        lines += [f"{name}: {value}" for name, value in self.headers(port, **headers).items()]
        link.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        return link


@pytest.fixture
def wire(gateway, shared):
    return Wire(gateway, shared)


def framed(message, flags=0):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(body)) + body


def frames(body):
    found = []
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        found.append((flags, json.loads(body[5 : 5 + size])))
        body = body[5 + size :]
    return found


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b'"x"', b"[" * 100_000])
def test_what_is_no_json_object(wire, body):
    assert wire.call("filesystem.Filesystem/Stat", body)[0] == 400
    assert wire.ask("POST", "/execute", body, E2b_Sandbox_Port="49999")[0] == 400
    status, _, answer = wire.ask("POST", "/process.Process/Start", framed(body), Content_Type=STREAM)
    assert status == 200 and frames(answer)[-1][1]["error"]["code"] == "invalid_argument"


@pytest.mark.parametrize(
    "body", [b"", b"\x00", framed({})[:-1], framed({}) * 2, framed({}, flags=1), struct.pack(">BI", 0, 1 << 31)]
)
def test_what_is_no_frame(wire, body):
    status, _, answer = wire.ask("POST", "/process.Process/Start", body, Content_Type=STREAM)
    flags, last = frames(answer)[-1]
    assert status == 200 and flags == 2 and last["error"]["code"] in (
        "invalid_argument", "unimplemented", "resource_exhausted",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("procedure", "message", "code"),
    [
        ("filesystem.Filesystem/Stat", {}, "invalid_argument"),
        ("filesystem.Filesystem/Stat", {"path": 5}, "invalid_argument"),
        ("filesystem.Filesystem/Stat", {"path": "a\0b"}, "invalid_argument"),
        ("filesystem.Filesystem/Stat", {"path": "x" * 5000}, "invalid_argument"),
        ("filesystem.Filesystem/ListDir", {"path": ".", "depth": 100_000}, "invalid_argument"),
        ("filesystem.Filesystem/GetWatcherEvents", {"watcherId": "none"}, "not_found"),
        ("process.Process/SendInput", {"process": {"pid": 999_999}, "input": {"stdin": "eA=="}}, "not_found"),
        ("process.Process/SendInput", {"process": 5}, "invalid_argument"),
        ("process.Process/SendSignal", {"process": {"pid": 1}, "signal": "SIGNAL_SIGSTOP"}, "invalid_argument"),
        ("process.Process/Update", {"process": {"pid": 1}, "pty": {"size": {"rows": -1}}}, "invalid_argument"),
    ],
)
def test_messages_that_mean_nothing(wire, procedure, message, code):
    assert wire.call(procedure, message)[1]["code"] == code


def test_procedures_that_are_not_there(wire):
    assert wire.call("process.Process/Explode")[1]["code"] == "unimplemented"
    assert wire.ask("POST", "/process.Process/List", b"{}", Content_Type="application/proto")[0] == 415
    assert wire.ask("GET", "/process.Process/List")[0] == 404
    assert wire.ask("GET", "/init")[0] == 404
    assert wire.ask("PUT", "/files?path=x", b"")[0] == 405


def test_tokens(wire):
    for headers in ({"X_Access_Token": "no"}, {"X_Access_Token": "\u00e9"}, {"X_Access_Token": wire.sandbox.traffic_access_token}):
        assert wire.call("process.Process/List", **headers)[0] == 401
        assert wire.ask("GET", "/files?path=x", **headers)[0] == 401
        assert wire.ask("POST", "/execute", b'{"code": "1"}', **headers, E2b_Sandbox_Port="49999")[0] == 401
    assert wire.ask("POST", "/execute", b'{"code": "1"}', E2b_Sandbox_Port="49999", X_Access_Token="", X_API_Key="no")[0] == 401


def test_both_context_and_language(wire):
    body = json.dumps({"code": "1", "context_id": "python", "language": "python"}).encode()
    assert wire.ask("POST", "/execute", body, E2b_Sandbox_Port="49999")[0] == 400
    body = json.dumps({"code": "1", "context_id": "c123"}).encode()
    status, _, text = wire.ask("POST", "/execute", body, E2b_Sandbox_Port="49999")
    assert (status, text) == (404, b"Context c123 not found")


def test_ports_and_ids_that_are_none(wire):
    for headers in ({"E2b_Sandbox_Port": "0"}, {"E2b_Sandbox_Port": "99999"}, {"E2b_Sandbox_Port": "x"}):
        assert wire.ask("GET", "/health", **headers)[0] in (200, 404)
    for sandbox in ("..", "a/b", "x" * 1000, "%00"):
        assert wire.ask("GET", "/health", E2b_Sandbox_Id=sandbox)[0] == 502


def test_control_that_is_not_served(gateway):
    def ask(method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        connection.request(method, path, body, {"X-API-Key": gateway.ada})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    assert ask("POST", "/v3/templates", b"{}")[0] == 501
    assert ask("GET", "/volumes")[0] == 501
    assert ask("PUT", "/sandboxes")[0] == 405
    assert ask("POST", "/v2/sandboxes", b"{}") == (400, {"code": 400, "message": "'templateID' is missing"})
    assert ask("POST", "/v2/sandboxes", b'{"templateID": 5}')[0] == 400
    assert ask("POST", "/v2/sandboxes", b'{"templateID": "base", "envVars": {"a": 1}}')[0] == 400
    assert ask("POST", "/v2/sandboxes", b'{"templateID": "base", "timeout": -1}')[0] == 400
    assert ask("GET", "/v2/sandboxes?limit=x")[0] == 400
    assert ask("GET", "/v2/sandboxes?startedAfter=x")[0] == 400
    assert ask("DELETE", "/sandboxes/..")[0] == 404
    assert ask("POST", "/sandboxes/none/fork", b'{"count": 1}')[0] == 404


def test_forms_that_are_none(wire):
    form = {"Content_Type": "multipart/form-data"}
    assert wire.ask("POST", "/files?path=x", b"x", **form)[0] == 400
    assert wire.ask("POST", "/files?path=x", b"--B\r\nx", Content_Type="multipart/form-data; boundary=B")[0] == 400
    assert wire.ask("POST", "/files", b"x", Content_Type="application/octet-stream")[0] == 400
    headers = {"Content_Type": "application/octet-stream", "Content_Encoding": "gzip"}
    assert wire.ask("POST", "/files?path=x", b"no gzip", **headers)[0] == 400
    assert wire.ask("POST", "/files?path=x", b"x", **headers | {"Content_Encoding": "br"})[0] == 415


def test_states_are_told_where_there_is_no_stream(wire, gateway):
    status, headers, _ = wire.ask("GET", "/contexts", E2b_Sandbox_Port="49999")
    assert (status, headers["Limpet-State"]) == (200, "kept")
    assert wire.ask("POST", "/contexts/python/restart", E2b_Sandbox_Port="49999")[1]["Limpet-State"] == "lost"
    wire.sandbox.run_code("1")
    assert wire.ask("GET", "/contexts", E2b_Sandbox_Port="49999")[1]["Limpet-State"] == "kept"


def test_who_leaves_while_code_runs_interrupts_it(wire):
    code = "import time\ngone = False\nprint('on', flush=True)\ntry: time.sleep(600)\nfinally: gone = True"
    link = wire.begin("/execute", json.dumps({"code": code}).encode(), 49999)
    seen = b""
    while b'"on' not in seen:
        seen += link.recv(65536)
    link.close()
    assert until(lambda: wire.sandbox.run_code("gone").text) == "True"


def test_who_leaves_a_watch_or_a_half_upload_leaves_nothing(wire):
    link = wire.begin("/filesystem.Filesystem/WatchDir", framed({"path": "."}), Content_Type=STREAM)
    seen = b""
    while b"start" not in seen:
        seen += link.recv(65536)
    link.close()
    half = socket.create_connection(("127.0.0.1", wire.gateway.port), timeout=60)
    head = "\r\n".join([
        "POST /files?path=half HTTP/1.1", "Host: 127.0.0.1", "Content-Length: 1000",
        *(f"{name}: {value}" for name, value in wire.headers(Content_Type="application/octet-stream").items()), "", "",
    ])  # fmt: skip
    half.sendall(head.encode() + b"x" * 500)
    half.close()
    assert wire.sandbox.commands.run("echo on").stdout == "on\n"
    assert not wire.sandbox.files.exists("half")


def test_frames_come_in_pieces_of_any_size():
    wanted = [b"{}", b'{"a": 1}', b""]
    data = b"".join(framed(each) for each in wanted) + framed({}, flags=2)
    for size in range(1, len(data) + 1):
        parts = Frames()
        found = [each for at in range(0, len(data), size) for each in parts.feed(data[at : at + size])]
        parts.close()
        assert found == wanted
    parts = Frames()
    list(parts.feed(data[:3]))
    with pytest.raises(Failed):
        parts.close()


def test_signatures_are_those_of_the_client():
    from e2b.sandbox.signature import get_signature

    for path, user in (("/a b/é", "user"), ("x", None)):
        made = get_signature(path, "read", user, "token", None)
        assert signature(path, "read", user or "", "token", None) == made["signature"]
        made = get_signature(path, "write", user, "token", 60)
        assert signature(path, "write", user or "", "token", str(made["expiration"])) == made["signature"]
    assert is_expired("100", 101.0) and not is_expired("102", 101.0) and is_expired("-1") and is_expired("x")


def test_a_sandbox_that_is_asked_for_at_length(gateway):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    body = json.dumps({"templateID": "base", "metadata": {"a": "x" * 300_000}})
    connection.request("POST", "/v2/sandboxes", body, {"X-API-Key": gateway.ada})
    assert connection.getresponse().status == 413
    connection.close()


def test_unlimited_time(limpetd, tmp_path):
    from e2b_code_interpreter import Sandbox

    own = Gateway(limpetd.socket, tmp_path, "--sandbox-timeout-s", "0").start()
    try:
        where = {"api_key": "none", "api_url": own.url, "sandbox_url": own.url}
        sandbox = Sandbox.create(**where, timeout=10_000_000)
        assert sandbox.run_code("1").text == "1"
        sandbox.kill()
    finally:
        own.stop()
