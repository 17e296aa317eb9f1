"""What a session of the gateway may reach: what its owner asks for, of what the operator allows."""

import pytest

from tests.support.web import GET, serving

HEADERS = {"X-Key": "top-secret"}


@pytest.fixture
def server():
    with serving() as server:
        yield server


@pytest.fixture
def allowing(own_gateway, server):
    with own_gateway("--sandbox-network", f"{server.address} *.example.org").client() as http:
        yield http


@pytest.fixture
def bindings(server):
    return {"api": {"url": f"http://{server.address}/v1", "headers": HEADERS}}


def got(http, name, url):
    """The status, and the answer, that code gets from there."""
    done = http.post(f"/v1/sessions/{name}/run", json={"code": f"{GET}\nprint(*get({url!r}))"}).json()
    status, _, text = done["stdout"].partition(" ")
    return int(status), text


def test_rules_and_bindings(allowing, name, server, bindings):
    made = allowing.post("/v1/sessions", json={"name": name, "network": {"allow": [server.address]}, "bindings": bindings})
    assert made.status_code == 201 and "top-secret" not in made.text
    assert made.json()["options"]["network"] == {"allow": [server.address]}
    assert got(allowing, name, f"http://{server.address}/a")[0] == 200
    status, text = got(allowing, name, "http://api.limpet/b")
    assert (status, '"path": "/v1/b"' in text, '"x-key": "top-secret"' in text) == (200, True, True)
    assert got(allowing, name, "http://example.org/")[0] == 403
    assert allowing.delete(f"/v1/sessions/{name}").status_code == 204


def test_they_are_replaced(allowing, name, server, bindings):
    allowing.post("/v1/sessions", json={"name": name})
    network = f"/v1/sessions/{name}/network"
    changed = allowing.put(network, json={"network": {"allow": [server.address]}, "bindings": bindings})
    assert changed.status_code == 200 and changed.json()["options"]["network"] == {"allow": [server.address]}
    allowing.post(f"/v1/sessions/{name}/run", json={"code": "1"})  # which finds the proxy
    assert [got(allowing, name, url)[0] for url in (f"http://{server.address}/", "http://api.limpet/")] == [200, 200]
    assert allowing.put(network, json={}).status_code == 200
    assert [got(allowing, name, url)[0] for url in (f"http://{server.address}/", "http://api.limpet/")] == [403, 403]
    refused = allowing.put(network, json={"network": {"allow": ["example.com"]}})
    assert (refused.status_code, refused.json()["name"]) == (403, "Denied")
    allowing.delete(f"/v1/sessions/{name}")


def test_a_call_without_a_session(allowing, server, bindings):
    code = f"{GET}\nget('http://api.limpet/')[0], get('http://{server.address}/')[0]"
    done = allowing.post("/v1/run", json={"code": code, "bindings": bindings})
    assert done.json()["result"] == "(200, 403)"


@pytest.mark.parametrize(
    ("options", "status", "error", "says"),
    [
        ({"network": {"allow": ["example.com"]}}, 403, "Denied", "example.com may not be reached: sessions here may reach"),
        ({"network": {"allow": ["*.example.org:8443"]}}, 403, "Denied", "*.example.org:8443 may not"),
        ({"network": {"allow": ["10.0.0.1:443"]}}, 403, "Denied", "10.0.0.1:443 may not"),
        ({"network": {"allow": ["localhost:443"]}}, 403, "Denied", "localhost:443 may not"),
        ({"bindings": {"a": {"url": "https://example.com/v1"}}}, 403, "Denied", "https://example.com/v1 may not"),
        ({"bindings": {"a": {"url": "http://api.example.org"}}}, 403, "Denied", "http://api.example.org may not"),
        ({"bindings": {"a": {"url": "https://[::1]"}}}, 403, "Denied", "https://[::1] may not"),
        ({"bindings": {"a": {"url": "egress://api.example.org:443"}}}, 400, "BadRequest", "no address of a binding"),
        ({"network": {"allow": ["no rule"]}}, 400, "BadRequest", "is no rule of a network"),
        ({"network": {"allow": ["*.example.org"]}, "bindings": {"a b": {"url": "https://api.example.org"}}}, 400, "BadRequest", ""),
    ],
)
def test_what_is_not_allowed(allowing, name, options, status, error, says):
    for path, body in (("/v1/sessions", {"name": name}), ("/v1/run", {"code": "1"})):
        refused = allowing.post(path, json={**body, **options})
        assert (refused.status_code, refused.json()["name"]) == (status, error)
        assert says in refused.json()["detail"]
    assert allowing.get(f"/v1/sessions/{name}").status_code == 404


def test_nothing_is_allowed_by_default(http, name, server):
    refused = http.post("/v1/sessions", json={"name": name, "network": {"allow": [server.address]}})
    assert (refused.status_code, "SANDBOX_NETWORK is not set" in refused.json()["detail"]) == (403, True)
