"""Ports of a sandbox: by header and by host name, with and without a token, websockets included."""

import asyncio
import http.client
import json

import pytest
import websockets
from e2b import SandboxException
from e2b_code_interpreter import Sandbox
from websockets.asyncio.client import connect

from tests.support.gateway import Gateway

from .conftest import UNLIMITED, made, options, until

SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.answer(200, (self.path + '\\n' + str(self.headers)).encode())
    def do_POST(self):
        if self.headers.get('Transfer-Encoding'):
            body = b''
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers['Content-Length']))
        self.answer(201, body[::-1])
    def answer(self, status, body):
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        self.send_header('X-Mine', 'yes')
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""

ECHO = """
import base64, hashlib, socket, struct
listening = socket.create_server(('127.0.0.1', 0))
print(listening.getsockname()[1], flush=True)
while True:
    near, _ = listening.accept()
    file = near.makefile('rb')
    head = b''
    while (line := file.readline()) not in (b'\\r\\n', b''):
        head += line
    key = next(each.split(b':')[1].strip() for each in head.splitlines() if each.lower().startswith(b'sec-websocket-key'))
    made = base64.b64encode(hashlib.sha1(key + b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest())
    near.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + made + b'\\r\\n\\r\\n')
    while frame := file.read(2):
        size = frame[1] & 127
        size = struct.unpack('>H', file.read(2))[0] if size == 126 else size
        mask, data = file.read(4), file.read(size)
        data = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
        near.sendall(frame[:1] + (bytes([size]) if size < 126 else b'\\x7e' + struct.pack('>H', size)) + data)
        if frame[0] & 15 == 8:
            break
    near.close()
"""


def listening(sandbox, program):
    """Starts a server in the sandbox; its port."""
    sandbox.files.write("server.py", program)
    said = []
    handle = sandbox.commands.run("exec python3 -u server.py", background=True, timeout=0)
    for out, _, _ in handle:
        said.append(out)
        if out and "\n" in out:
            break
    handle.disconnect()
    return int("".join(filter(None, said)))


@pytest.fixture(scope="module")
def served(gateway):
    """A sandbox and the port of its server."""
    with made(Sandbox, options(gateway)) as sandbox:
        yield sandbox, listening(sandbox, SERVER)


def ask(gateway, method, path, host=None, body=None, **headers):
    """Status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named | ({"Host": host} if host else {}))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_by_host_name_with_a_token(gateway, served):
    sandbox, port = served
    host = sandbox.get_host(port)
    assert host.startswith(f"{port}-{sandbox.sandbox_id}.")
    assert ask(gateway, "GET", "/", host)[0] == 403
    token = {"E2B_Traffic_Access_Token": sandbox.traffic_access_token}
    status, headers, body = ask(gateway, "GET", "/a%20b?c=d&c=e", host, Cookie="mine=1", **token)
    assert status == 200 and headers["x-mine"] == "yes"
    path, _, seen = body.decode().partition("\n")
    assert path == "/a%20b?c=d&c=e"
    assert "mine=1" in seen and f"host: {host}" in seen.lower()
    assert sandbox.traffic_access_token not in seen


@pytest.mark.parametrize("id", ["abc", "i" + "0" * 19, "0" * 40])
def test_a_host_name_of_no_sandbox(gateway, id):
    status, _, body = ask(gateway, "GET", "/", f"49983-{id}.sand.test", X_API_Key=gateway.ada)
    assert status == 502 and b"The sandbox was not found" in body


def test_the_owners_key_opens_it_and_stays_outside(gateway, served):
    sandbox, port = served
    host = sandbox.get_host(port)
    for headers in ({"X_API_Key": gateway.ada}, {"Authorization": f"Bearer {gateway.ada}"}, {"Authorization": f"bearer  {gateway.ada}"}):
        status, _, body = ask(gateway, "GET", "/", host, **headers)
        assert status == 200 and gateway.ada.encode() not in body
    assert ask(gateway, "GET", "/", host, X_API_Key=gateway.bob)[0] == 403


def test_bodies_go_in_and_come_out(gateway, served):
    sandbox, port = served
    token = {"E2B_Traffic_Access_Token": sandbox.traffic_access_token}
    body = bytes(range(256)) * 4000
    assert ask(gateway, "POST", "/", sandbox.get_host(port), body, **token)[::2] == (201, body[::-1])
    pieces = iter([b"one ", b"two"])
    assert ask(gateway, "POST", "/", sandbox.get_host(port), pieces, **token)[2] == b"owt eno"


def test_by_headers(gateway, served):
    sandbox, port = served
    headers = {
        "E2b_Sandbox_Id": sandbox.sandbox_id, "E2b_Sandbox_Port": str(port),
        "E2B_Traffic_Access_Token": sandbox.traffic_access_token,
    }  # fmt: skip
    assert ask(gateway, "GET", "/x", **headers)[0] == 200


def test_public_traffic_needs_nothing_but_code_does(gateway):
    with made(Sandbox, options(gateway), network={"allow_public_traffic": True}) as sandbox:
        port = listening(sandbox, SERVER)
        assert ask(gateway, "GET", "/", sandbox.get_host(port))[0] == 200
        assert ask(gateway, "POST", "/execute", sandbox.get_host(49999), b'{"code": "1"}')[0] == 401
        assert ask(gateway, "GET", "/contexts", sandbox.get_host(49999))[0] == 401


def test_ports_are_public_where_the_operator_says_so(limpetd, tmp_path):
    gateway = Gateway(limpetd.socket, tmp_path, *UNLIMITED, "--sandbox-ports", "public").start()
    where = {"api_key": "e2b_" + "0" * 40, "api_url": gateway.url, "sandbox_url": gateway.url}
    try:
        with made(Sandbox, where) as open_one, made(Sandbox, where, network={"allow_public_traffic": False}) as other:
            for sandbox, status in ((open_one, 502), (other, 403)):
                assert ask(gateway, "GET", "/", sandbox.get_host(1))[0] == status
    finally:
        gateway.stop()


def test_servers_see_the_host_that_was_asked_for(gateway):
    network = {"allow_public_traffic": True, "mask_request_host": "mine.test:${PORT}"}
    with made(Sandbox, options(gateway), network=network) as sandbox:
        port = listening(sandbox, SERVER)
        seen = ask(gateway, "GET", "/", sandbox.get_host(port))[2].decode().lower()
        assert f"host: mine.test:{port}\n" in seen.replace("\r", "") and sandbox.sandbox_id not in seen
        assert sandbox.get_info().network["mask_request_host"] == "mine.test:${PORT}"
    with pytest.raises(SandboxException, match="is no name of a host"):
        Sandbox.create(**options(gateway), network={"mask_request_host": "a\r\nb"})


def test_a_port_where_nobody_listens(gateway, served):
    sandbox, _ = served
    headers = {"E2B_Traffic_Access_Token": sandbox.traffic_access_token}
    status, _, body = ask(gateway, "GET", "/", sandbox.get_host(1), **headers)
    told = json.loads(body)
    assert status == 502 and "port is not open" in told["message"]
    assert (told["port"], told["sandboxId"]) == (1, sandbox.sandbox_id)


def test_a_sandbox_that_is_not_there(gateway):
    status, _, body = ask(gateway, "GET", "/", "8000-iaaaaaaaaaaaaaaaaaaa.e2b.test")
    assert status == 502 and "was not found" in json.loads(body)["message"]


def test_the_control_plane_by_name_says_its_domain(gateway, where):
    body = json.dumps({"templateID": "base"}).encode()
    status, _, made_ = ask(gateway, "POST", "/v2/sandboxes", "api.sand.test:8443", body, X_API_Key=gateway.ada)
    told = json.loads(made_)
    assert status == 201 and told["domain"] == "sand.test:8443"
    host = f"49983-{told['sandboxID']}.sand.test:8443"
    assert ask(gateway, "GET", "/health", host)[0] == 204
    assert Sandbox.kill(told["sandboxID"], **where)


def test_websockets(gateway):
    with made(Sandbox, options(gateway)) as sandbox:
        port = listening(sandbox, ECHO)
        headers = {
            "E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(port),
            "E2B-Traffic-Access-Token": sandbox.traffic_access_token,
        }  # fmt: skip

        async def talk():
            address = f"ws://127.0.0.1:{gateway.port}/chat?x=1"
            async with connect(address, additional_headers=headers, open_timeout=60) as link:
                for message in ("text", b"bytes", "x" * 5000):
                    await link.send(message)
                    assert await asyncio.wait_for(link.recv(), 60) == message
            with pytest.raises(websockets.exceptions.InvalidStatus):
                await connect(address, additional_headers=headers | {"E2B-Traffic-Access-Token": "no"})
            with pytest.raises(websockets.exceptions.InvalidStatus):
                await connect(address, additional_headers=headers | {"E2b-Sandbox-Port": "1"})

        asyncio.run(talk())
        assert until(sandbox.is_running)
