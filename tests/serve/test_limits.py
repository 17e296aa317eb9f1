"""What one key may take."""

import contextlib
import pathlib
import re
import socket
import subprocess
import sys

import pytest

from tests.support.gateway import until
from tests.support.web import is_open


@pytest.fixture
def limited(own_gateway):
    gateway = own_gateway(
        "--max-sessions", "2", "--session-memory", "256m", "--session-cpus", "1.5", "--session-disk", "1g", "--session-pids", "100",
        start=False, SESSION_TIMEOUT="20", SESSION_MAX_BYTES="1000", MAX_INPUT_CHARS="100", RATE_LIMIT_WINDOW_MS="600000", RATE_LIMIT_MAX="60", SESSION_TTL_S="500",
    )  # fmt: skip
    key = gateway.key("create", "limited")
    gateway.start()
    with gateway.client(key) as client:
        yield client


def test_sessions(limited, name):
    for number in range(2):
        assert limited.post("/v1/sessions", json={"name": f"{name}-{number}"}).status_code == 201
    more = limited.post("/v1/sessions", json={"name": f"{name}-2"})
    assert (more.status_code, more.json()["name"]) == (429, "LimitReached") and int(more.headers["retry-after"]) > 0
    assert limited.post("/v1/sessions", json={"name": f"{name}-1"}).status_code == 200
    assert limited.post("/v1/run", json={"code": "1"}).status_code == 429
    limited.delete(f"/v1/sessions/{name}-0")
    assert limited.post("/v1/sessions", json={"name": f"{name}-2"}).status_code == 201
    for number in (1, 2):
        limited.delete(f"/v1/sessions/{name}-{number}")


def test_signatures_that_fit_nothing(limited):
    """Each is compared with those of all sandboxes: whoever guesses is counted, before the comparison."""
    statuses = [limited.get("/files", params={"path": "x", "signature": f"v1_{n}"}).status_code for n in range(61)]
    assert statuses == [401] * 60 + [429]


def test_options(limited, name):
    for wrong in (
        {"memory": "257m"}, {"memory": 1 << 40}, {"ttl": 501}, {"ttl": 0}, {"cpus": 1.6}, {"disk": "2g"}, {"pids": 101}, {"timeout": 21},
    ):  # fmt: skip
        answer = limited.post("/v1/sessions", json={"name": name, **wrong})
        assert (answer.status_code, answer.json()["name"]) == (422, "LimitReached"), wrong
    options = limited.post("/v1/sessions", json={"name": name, "ttl": 400}).json()["options"]
    assert (options["memory"], options["ttl"]) == (256 << 20, 400) and "data" not in options
    assert (options["cpus"], options["disk"], options["pids"], options["timeout"]) == (1.5, 1 << 30, 100, 20)
    for path, body in (
        (f"/v1/sessions/{name}/run", {"code": "1"}), (f"/v1/sessions/{name}/exec", {"command": "true"}), ("/v1/run", {"code": "1"}),
    ):  # fmt: skip
        answer = limited.post(path, json={**body, "timeout": 21})
        assert (answer.status_code, answer.json()["name"]) == (422, "LimitReached")
    limited.delete(f"/v1/sessions/{name}")


def test_input(limited, name):
    limited.post("/v1/sessions", json={"name": name})
    session = f"/v1/sessions/{name}"
    assert limited.post(f"{session}/run", json={"code": "#" * 100}).status_code == 200
    for path, body in (
        ("/run", {"code": "#" * 101}), ("/exec", {"command": "#" * 101}), ("/exec", {"command": ["x" * 60, "y" * 60]}),
        ("/processes", {"command": "#" * 101}),
    ):  # fmt: skip
        answer = limited.post(session + path, json=body)
        assert (answer.status_code, answer.json()["name"]) == (422, "TooLarge")
    answer = limited.post(session + "/run", json={"code": "#" * (2 << 20)})  # and is not read to its end
    assert (answer.status_code, answer.json()["name"]) == (413, "TooLarge")
    limited.delete(session)


@pytest.mark.engine
def test_uploads(limited, name, limpetd):
    if not limpetd.isolates:
        pytest.skip("the engine local has no /data")
    limited.post("/v1/sessions", json={"name": name})
    data = f"/v1/sessions/{name}/data"
    assert limited.post(data, params={"path": "a"}, content=b"x" * 600).status_code == 201
    for _ in range(2):
        answer = limited.post(data, params={"path": "b"}, content=b"x" * 401)
        assert (answer.status_code, answer.json()["name"]) == (413, "TooLarge")
    assert limited.post(data, files={"file": ("c", b"x" * 5_000_000)}).status_code == 413
    assert limited.post(data, params={"path": "b"}, content=b"x" * 400).status_code == 201
    assert limited.post(data, params={"path": "a"}, content=b"y" * 600).status_code == 201  # in place of the other
    assert limited.get(data).json() == {"uploaded": {"a": 600, "b": 400}}
    limited.delete(f"/v1/sessions/{name}")


def test_rate(limited):
    answers = [limited.get("/v1/sessions") for _ in range(70)]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert 5 <= len(refused) <= 15
    assert {(answer.status_code, answer.json()["name"]) for answer in refused} == {(429, "LimitReached")}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert limited.get("/health").status_code == 200


def test_strangers_of_one_address_leave_room_for_others(own_gateway):
    """A quarter of the descriptors is for connections by which nothing is asked."""
    gateway = own_gateway(start=False, whole=True)
    gateway.before = ("prlimit", "--nofile=256:256")
    gateway.start()
    with contextlib.ExitStack() as stack:

        def arrive(address):
            stream = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 60, (address, 0)))
            stream.sendall(b"GET /health HTTP/1.1\r\n")
            return stream

        quiet = [arrive("127.0.0.3") for _ in range(3)]
        flood = [arrive("127.0.0.2") for _ in range(600)]
        http = stack.enter_context(gateway.client())
        assert http.get("/health").status_code == 200
        assert all(map(is_open, quiet)) and sum(map(is_open, flood)) == 64 - len(quiet) - 1
        quiet[0].setblocking(True)
        quiet[0].sendall(b"Host: localhost\r\n\r\n")
        assert quiet[0].recv(1000).startswith(b"HTTP/1.1 200 ")


def test_a_body_without_end(http, gateway):
    """What is too much is not kept."""
    piece = b'{"code": "' + b"x" * (1 << 20)
    with socket.create_connection(("127.0.0.1", gateway.port)) as raw:
        raw.settimeout(60)
        raw.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n")
        for _ in range(300):
            raw.sendall(piece)
        assert raw.recv(1000).startswith(b"HTTP/1.1 413 ")
    status = pathlib.Path(f"/proc/{gateway.process.pid}/status").read_text()
    assert int(re.search(r"VmHWM:\s+(\d+)", status)[1]) < 250 << 10
    assert http.get("/health").status_code == 200


def test_headers_without_end(http, gateway):
    with socket.create_connection(("127.0.0.1", gateway.port)) as raw:
        raw.settimeout(60)
        try:
            raw.sendall(b"GET / HTTP/1.1\r\n")
            for _ in range(500):
                raw.sendall(b"X-Long: " + b"x" * 60000 + b"\r\n")
        except OSError:
            pass
    assert http.get("/health").status_code == 200


def test_the_configuration_file(own_gateway, tmp_path):
    file = tmp_path / "serve.conf"
    file.write_text("# limits\nmax_input_chars = 3\nsession_max_bytes = 2k\n")
    gateway = own_gateway("--config", str(file))
    with gateway.client() as client:
        assert client.post("/v1/run", json={"code": "1234"}).json()["detail"].endswith("MAX_INPUT_CHARS is 3")


@pytest.mark.parametrize(
    "text, told",
    [("unknown = 1\n", "serve.conf:1"), ("\nnonsense\n", "serve.conf:2"), ("port = many\n", "port in the configuration file")],
)
def test_a_wrong_configuration_file(own_gateway, tmp_path, text, told):
    file = tmp_path / "serve.conf"
    file.write_text(text)
    gateway = own_gateway("--config", str(file), start=False)
    command = [sys.executable, "-W", "ignore", "-m", "limpet.serve", "--config", str(file)]
    done = subprocess.run(command, env=gateway.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and told in done.stderr


def test_idle_sessions_end(own_gateway, client, name):
    gateway = own_gateway(SESSION_TTL_S="1")
    with gateway.client() as http:
        http.post("/v1/sessions", json={"name": name})
    until(lambda: name not in [row.session for row in client.sessions()], "the session has ended")
