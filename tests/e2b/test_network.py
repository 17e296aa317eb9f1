"""What sandboxes may reach, within what the operator allows, with E2B's own client."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from e2b import ALL_TRAFFIC, SandboxException
from e2b_code_interpreter import Sandbox

from tests.support.gateway import Gateway

from .conftest import UNLIMITED, made, options


class Weather(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"sunny")

    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def place():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Weather)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def open_gateway(limpetd, tmp_path, place):
    """One whose operator allows something."""
    rules = f"{place} *.example.org api.example.com:443,api.example.com:8080"
    gateway = Gateway(limpetd.socket, tmp_path, *UNLIMITED, "--sandbox-network", rules)
    gateway.ada = gateway.key("create", "ada")
    gateway.start()
    yield gateway
    gateway.stop()


def asked(sandbox, place):
    code = "import os, urllib.request; os.environ['no_proxy'] = ''\n"
    return sandbox.run_code(f"{code}urllib.request.urlopen('http://{place}/').read().decode()")


def test_what_is_allowed_is_reached_also_after_a_pause(open_gateway, place):
    where = options(open_gateway)
    network = {"allow_out": [place, "*.example.org"], "deny_out": [ALL_TRAFFIC]}
    with made(Sandbox, where, network=network) as sandbox:
        assert asked(sandbox, place).text == "sunny"
        assert "403" in asked(sandbox, "api.example.com").error.value
        network = sandbox.get_info().network
        assert network["allow_out"] == [place, "*.example.org:443"]
        sandbox.pause()
        again = sandbox.connect(**where)
        run = asked(again, place)
        assert (run.text, run.error) == ("sunny", None)
        again.update_network({"allow_out": ["api.example.com"]})
        assert "403" in asked(again, place).error.value
        again.update_network({"allow_out": [place]})
        assert asked(again, place).text == "sunny"
        again.update_network({})
        assert asked(again, place).error is not None
        assert Sandbox.get_info(again.sandbox_id, **where).allow_internet_access is False


@pytest.mark.parametrize("given", [{}, {"allow_internet_access": True}])
def test_nothing_is_reached_unless_it_is_allowed_and_asked_for(open_gateway, given):
    """E2B's older clients always ask for the internet."""
    with made(Sandbox, options(open_gateway), **given) as sandbox:
        assert sandbox.get_info().allow_internet_access is False
        assert sandbox.commands.run("env | grep -ci _proxy || true").stdout.strip() == "0"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"network": {"allow_out": ["other.example.com"]}}, r"may reach .*\*\.example\.org"),
        ({"network": {"allow_out": ["example.org"]}}, "may not be reached"),
        ({"network": {"allow_out": ["10.0.0.1"]}}, "may not be reached"),
        ({"network": {"allow_out": ["localhost"]}}, "may not be reached"),
        ({"network": {"allow_out": ["169.254.169.254:80"]}}, "may not be reached"),
        ({"network": {"allow_out": ["10.0.0.0/8"]}}, "ranges of addresses"),
        ({"network": {"allow_out": ["x:y:z"]}}, "is no name of a host"),
        ({"network": {"allow_out": [ALL_TRAFFIC]}}, "may not be reached"),
        ({"network": {"egress_proxy": {"address": "10.0.0.1:1080"}}}, "egressProxy is not available"),
    ],
)
def test_what_the_operator_does_not_allow_is_refused(open_gateway, given, told):
    with pytest.raises(SandboxException, match=told) as caught:
        Sandbox.create(**options(open_gateway), **given)
    assert 400 <= caught.value.status_code < 404


def test_a_whole_internet_is_for_names(limpetd, tmp_path):
    gateway = Gateway(limpetd.socket, tmp_path, *UNLIMITED, "--sandbox-network", "*:443")
    gateway.ada = gateway.key("create", "ada")
    gateway.start()
    where = options(gateway)
    try:
        with made(Sandbox, where, allow_internet_access=True) as sandbox:
            assert sandbox.get_info().allow_internet_access is True
            assert sandbox.get_info().network["allow_out"] == ["*:443"]
        with pytest.raises(SandboxException, match="may not be reached"):
            Sandbox.create(**where, network={"allow_out": ["127.0.0.1"]})
        with pytest.raises(SandboxException, match="denyOut"):
            Sandbox.create(**where, allow_internet_access=True, network={"deny_out": ["8.8.8.8"]})
        network = {"allow_out": ["api.example.com"], "deny_out": [ALL_TRAFFIC]}
        with made(Sandbox, where, allow_internet_access=True, network=network) as sandbox:
            assert sandbox.get_info().network["allow_out"] == ["api.example.com:443"]
    finally:
        gateway.stop()


def test_what_the_operator_allows_no_more_is_gone_after_a_pause(limpetd, tmp_path, place):
    gateway = Gateway(limpetd.socket, tmp_path, *UNLIMITED, environment={"SANDBOX_NETWORK": place})
    gateway.ada = gateway.key("create", "ada")
    gateway.start()
    try:
        where = options(gateway)
        sandbox = Sandbox.create(**where, network={"allow_out": [place]})
        sandbox.pause()
        gateway.stop()
        gateway.environment["SANDBOX_NETWORK"] = "api.example.com"
        gateway.start(gateway.port)
        again = sandbox.connect(**where)
        assert "SANDBOX_NETWORK" in again.run_code("1").error.value
        assert "allow_out" not in again.get_info().network
        again.kill()
    finally:
        gateway.stop()
