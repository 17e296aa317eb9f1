"""Rules and bindings: what a session reaches of the network, through real controllers and servers of this machine."""

import asyncio
import json
import os
import pathlib
import subprocess

import limpet
import pytest

from tests.support.ports import free_port
from tests.support.web import GET, get, make_certificate, serving

pytestmark = pytest.mark.engine

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")
SECRET = "Bearer top-secret"

@pytest.fixture
def server():
    with serving() as server:
        yield server


def test_a_name_that_is_looked_up_without_a_network_says_so(limpetd, client, name, server):
    if not limpetd.isolates:
        pytest.skip("the engine local has the network of the machine")
    look_up = "import urllib.request; urllib.request.urlopen('http://example.com')"
    with client.open(name) as session:
        said = session.run(look_up).error.traceback
        assert "During handling" in said and said.endswith("or put the data into this one from outside.\n")
        session.set_network({"allow": [server.address]})
        assert "This session has no network" not in session.run(look_up).error.traceback


@pytest.mark.docker
@pytest.mark.proves("security: reaching the network")
def test_what_a_rule_names_and_nothing_else(client, name, server):
    other = free_port()
    with client.open(name, network={"allow": [server.address]}) as session:
        status, text = get(session, f"http://{server.address}/a?b=c")
        assert status == 200 and json.loads(text)["path"] == "/a?b=c"
        assert "proxy-connection" not in json.loads(text)["headers"]
        status, text = get(session, f"http://127.0.0.1:{other}/")
        assert status == 403
        assert text == (
            f"127.0.0.1:{other} is not allowed in this session; its owner can allow it with the network rule 127.0.0.1:{other}\n"
        )
        status, text = get(session, "https://example.org/")  # a tunnel
        assert status == 0 and "403 Forbidden: example.org:443 is not allowed in this session" in text
        assert session.options["network"] == {"allow": [server.address]}
    assert server.requests == ["/a?b=c"]


@pytest.mark.parametrize(
    "place",
    ["169.254.169.254:80", "10.0.0.1:80", "192.168.1.1:443", "[::1]:80", "[fd00:ec2::254]:80", "0x7f000001:80", "2130706433:80",
     "127.1:80", "localhost:80", "metadata.google.internal:80"],
)  # fmt: skip
def test_no_address_is_reached_that_is_not_named(client, name, place, server):
    with client.open(name, network={"allow": ["*:80", "*:443", server.address]}) as session:
        status, text = get(session, f"http://{place}/")
        assert status in (403, 502), text
        if place not in ("metadata.google.internal:80",):
            assert status == 403, text
        status, text = get(session, f"https://{place}/")
        assert status == 0 and "40" in text or "502" in text


def test_programs_find_the_proxy(client, name, server):
    with client.open(name, network={"allow": [server.address]}, env={"https_proxy": "mine"}) as session:
        where = session.run("import os; os.environ['http_proxy']").result.strip("'")
        assert where.startswith("http://127.0.0.1:")
        for found in (
            session.exec("env").stdout,
            session.run("env", language="bash").stdout,
            session.run("import subprocess; print(subprocess.run('env', capture_output=True, text=True).stdout)").stdout,
            session.context("other").run("for name, value in __import__('os').environ.items(): print(f'{name}={value}')").stdout,
            session.start("env").wait().stdout,
        ):
            lines = found.splitlines()
            assert f"http_proxy={where}" in lines and f"HTTPS_PROXY={where}" in lines
            assert "https_proxy=mine" in lines and "no_proxy=localhost,127.0.0.1,::1" in lines
    with client.open(f"{name}-none") as session:
        assert "proxy" not in session.exec("env").stdout.lower()


def test_bodies_go_both_ways(client, name, server):
    code = f"""{GET}
import hashlib
body = os.urandom(5 << 20)
status, text = get("http://{server.address}/up", body)
said = json.loads(text)
status, said["size"], said["sha256"] == hashlib.sha256(body).hexdigest(), said["headers"].get("content-length")
"""
    chunked = f"""{GET}
import hashlib
pieces = [os.urandom(1 << 18) for _ in range(9)]
status, text = get("http://{server.address}/up", iter(pieces))
said = json.loads(text)
status, said["size"], said["sha256"] == hashlib.sha256(b"".join(pieces)).hexdigest(), said["headers"]["transfer-encoding"]
"""
    with client.open(name, network={"allow": [server.address]}) as session:
        assert session.run(code).check().result == f"(200, {5 << 20}, True, '{5 << 20}')"
        assert session.run(chunked).check().result == f"(200, {9 << 18}, True, 'chunked')"
        assert session.run(f"len(get('http://{server.address}/bytes/{9 << 20}')[1])").result == str(9 << 20)
        assert get(session, f"http://{server.address}/x", None, "HEAD") == (200, "")
        assert json.loads(get(session, f"http://{server.address}/x", b"", "DELETE")[1])["method"] == "DELETE"


@pytest.mark.docker
@pytest.mark.proves("security: stealing keys")
def test_a_binding(client, name, server, limpetd):
    bindings = {"api": {"url": f"http://{server.address}/v1", "headers": {"Authorization": SECRET, "X-Org": "o"}}}
    with client.open(name, bindings=bindings) as session:
        said = json.loads(get(session, "http://api.limpet/models?all=1")[1])
        assert said["path"] == "/v1/models?all=1"
        assert said["headers"]["authorization"] == SECRET and said["headers"]["x-org"] == "o"
        assert said["headers"]["host"] == server.address
        # What the code says of itself has no weight.
        code = f"{GET}\nurllib.request.install_opener(o := urllib.request.build_opener())\no.addheaders = [('authorization', 'Bearer mine')]"
        session.run(code).check()
        assert json.loads(session.run("get('http://api.limpet/')[1]").result.strip("'"))["headers"]["authorization"] == SECRET
        assert get(session, f"http://{server.address}/")[0] == 403
        assert get(session, "http://other.limpet/") == (403, "the session has no binding other.limpet; it has: http://api.limpet/\n")
        assert "without https" in get(session, "https://api.limpet/")[1]
        assert get(session, "http://api.limpet:81/")[0] == 403
        # It attaches to itself, and not to another.
        assert not client.open(name, bindings=bindings).created
        with pytest.raises(limpet.OptionsDiffer) as caught:
            client.open(name, bindings={"api": {"url": f"http://{server.address}/v1", "headers": {"Authorization": "Bearer wrong"}}})
        assert caught.value.options == ("bindings",) and "wrong" not in str(caught.value)
        assert session.options["bindings"] == {"api": {"url": f"http://{server.address}/v1"}}
        for _, seen in sorted(session.options.items()):
            assert "top-secret" not in repr(seen)
        told = subprocess.run([LIMPET, "ls", "--json"], env=os.environ | {"LIMPET_SOCKET": limpetd.socket}, capture_output=True, text=True)
        assert "top-secret" not in told.stdout + told.stderr
        assert "top-secret" not in session.run("open('/proc/self/environ').read()").result
        journals = pathlib.Path(limpetd.directory, "state", "journals")
        found = [path for path in journals.glob("*.journal") if b"top-secret" in path.read_bytes()]
        assert all(path.stat().st_mode & 0o077 == 0 for path in found)
    assert "top-secret" not in pathlib.Path(limpetd.log).read_text()


def test_an_answer_that_comes_piece_by_piece(client, name, server):
    """As a model says it: what has come is there, before there is more."""
    code = """
import os, urllib.request
with urllib.request.urlopen("http://api.limpet/stream", timeout=100) as answer:
    for line in answer:
        print(line.decode().strip(), flush=True)
"""
    said = []

    def hear(text):
        said.append(text)
        if "one" in "".join(said):
            server.heard.set()

    with client.open(name, bindings={"api": {"url": f"http://{server.address}"}}) as session:
        result = session.run(code, on_stdout=hear).check()
    assert result.stdout.split() == ["data:", "one", "data:", "two"]


@pytest.mark.proves("security: stealing keys")
def test_a_binding_does_not_follow(client, name, server):
    with serving() as other:
        bindings = {"api": {"url": f"http://{server.address}/v1", "headers": {"Authorization": SECRET}}}
        with client.open(name, bindings=bindings) as session:
            server.elsewhere = f"http://{other.address}/steal"
            assert get(session, "http://api.limpet/redirect")[0] == 403
            assert other.requests == []
            session.set_network({"allow": [other.address]})
            assert "authorization" not in json.loads(get(session, "http://api.limpet/redirect")[1])["headers"]
            server.elsewhere = f"http://{server.address}/v1/here"
            assert json.loads(get(session, "http://api.limpet/redirect")[1])["path"] == "/v1/here"


def test_a_server_that_is_not_who_it_should_be(client, name, tmp_path, limpetd):
    with serving(certificate=make_certificate(tmp_path)) as server:
        bindings = {
            "api": {"url": f"https://{server.address}", "headers": {"Authorization": SECRET}},
            "away": {"url": f"http://127.0.0.1:{free_port()}", "headers": {"Authorization": SECRET}},
        }
        with client.open(name, bindings=bindings) as session:
            for binding in bindings:
                status, text = get(session, f"http://{binding}.limpet/")
                assert status == 502 and text.startswith(f"{binding}.limpet cannot be asked: ")
                assert "top-secret" not in text
        assert server.requests == []


def test_what_the_proxy_itself_says(client, name, server):
    with client.open(name, network={"allow": [server.address]}) as session:
        session.run("""
import os, socket
def head(place):
    host, port = os.environ["http_proxy"].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 100) as connection:
        connection.sendall(f"CONNECT {place} HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\n".encode())
        return list(iter(connection.makefile("rb").readline, b"\\r\\n"))
""").check()
        said = session.run(f"head('{server.address}')").check().result
        assert eval(said) == [b"HTTP/1.1 200 Connection established\r\n"]
        said = session.run("head('example.org:443')").check().result
        assert b"Connection: close\r\n" in eval(said)


def test_rules_change_on_a_live_session(client, name, server):
    with serving() as other, client.open(name) as session:
        session.run("x = 41")
        before = session.checkpoint("before")
        session.set_network({"allow": [server.address]})
        assert get(session, f"http://{server.address}/")[0] == 200
        assert "http_proxy" in session.exec("env").stdout
        # A connection that is open is cut when it is allowed no more; one that is, is not.
        code = f"""
import http.client
address = os.environ["http_proxy"].removeprefix("http://")
def tunnel(place):
    connection = http.client.HTTPConnection(address, timeout=100)
    host, port = place.split(":")
    connection.set_tunnel(host, int(port))
    connection.request("GET", "/tunnel")
    connection.getresponse().read()
    return connection
one = tunnel("{server.address}")
"""
        session.run(code).check()
        session.set_network({"allow": [other.address]})
        assert get(session, f"http://{other.address}/")[0] == 200
        assert get(session, f"http://{server.address}/")[0] == 403
        assert session.run("one.sock.recv(1)").result == "b''"
        session.run(f"two = tunnel('{other.address}')").check()
        session.set_network(bindings={"api": {"url": f"http://{server.address}"}})
        assert session.options["network"] == {"allow": [other.address]}
        assert session.run("two.request('GET', '/again'); two.getresponse().status").result == "200"
        assert get(session, "http://api.limpet/")[0] == 200
        # What was frozen before knows of it, too.
        session.rollback(before)
        assert session.run("x").result == "41"
        assert get(session, f"http://{other.address}/")[0] == 200
        session.set_network("none", {})
        assert get(session, f"http://{other.address}/")[0] == 403
        assert session.options["network"] == "none" and session.options["bindings"] == {}


def test_asyncio(limpetd, name, server):
    async def run():
        async with limpet.AsyncClient(limpetd.socket) as client, await client.open(name) as session:
            await session.set_network({"allow": [server.address]})
            result = await session.run(f"{GET}\nget('http://{server.address}/')[0]")
            return result.result

    assert asyncio.run(run()) == "200"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"network": {"allow": ["http://a"]}}, "'http://a' is no destination"),
        ({"network": {"allow": ["a:99999"]}}, "'a:99999' is no destination"),
        ({"network": {"allow": ["a"] * 129}}, "128"),
        ({"bindings": {"A b": {"url": "https://a"}}}, "a name has 1 to 63 characters"),
        ({"bindings": {"a": {"url": "https://u:top@a"}}}, "what is secret belongs in `headers`"),
        ({"bindings": {"a": {"url": "https://a", "headers": {"Host": "top"}}}}, "cannot be set"),
        ({"bindings": {"a": {}}}, '{"url": text, "headers": {name: text}}'),
        ({"bindings": {"a": {"url": "https://a", "headers": {f"h{i}": "x" * 8000 for i in range(9)}}}}, "57344"),
    ],
)
def test_what_is_malformed(client, name, options, says):
    with pytest.raises((limpet.BadRequest, limpet.TooLarge)) as caught:
        client.open(name, **options)
    assert says in str(caught.value) and "top" not in str(caught.value)
    with client.open(name) as session, pytest.raises((limpet.BadRequest, limpet.TooLarge)):
        session.set_network(options.get("network"), options.get("bindings"))


def test_what_python_refuses(client, name):
    for network in ({"deny": ["a"]}, {"allow": "a:1"}, "wifi"):
        with pytest.raises(TypeError), client.open(name) as session:
            session.set_network(network)


def test_attaching(client, name, server):
    network = {"allow": [server.address, "*.example.org"]}
    with client.open(name, network=network) as session:
        assert not client.open(name, network={"allow": ["*.example.org", server.address]}).created
        assert client.attach(name).options["network"] == network
        for other in ({"allow": [server.address]}, "none"):
            with pytest.raises(limpet.OptionsDiffer):
                client.open(name, network=other)
        session.set_network({"allow": [server.address]})
        assert not client.open(name, network={"allow": [server.address]}).created


@pytest.mark.docker
def test_a_session_from_the_pool(own_limpetd, server):
    own_limpetd.launch("--pool", "1")
    own_limpetd.wait()
    with own_limpetd.client() as client:
        client.open("a").close()
        for number in range(3):
            with client.open(f"b{number}", network={"allow": [server.address]}, bindings={"api": {"url": f"http://{server.address}"}}) as session:
                assert get(session, f"http://{server.address}/")[0] == get(session, "http://api.limpet/")[0] == 200


def test_a_call_without_a_session(client, server):
    code = f"{GET}\nget('http://{server.address}/')[0]"
    assert client.run(code, network={"allow": [server.address]}).check().result == "200"


@pytest.mark.parametrize("program", ["curl", "requests", "httpx"])
def test_programs_work_through_it(client, name, server, program, tmp_path):
    """Those that the session has."""
    lines = {
        "curl": "curl --fail --silent --noproxy '' http://{address}/ && curl --fail --silent --noproxy '' --proxytunnel http://{address}/",
        "requests": "NO_PROXY= no_proxy= python3 -c \"import requests; print(requests.get('http://{address}/').text)\"",
        "httpx": "NO_PROXY= no_proxy= python3 -c \"import httpx; print(httpx.get('http://{address}/').text)\"",
    }
    with client.open(name, network={"allow": [server.address]}) as session:
        there = f"command -v {program}" if program == "curl" else f"python3 -c 'import {program}'"
        if session.exec(there).exit_code:
            pytest.skip(f"the session has no {program}")
        result = session.exec(lines[program].format(address=server.address)).check()
    assert '"method": "GET"' in result.stdout


# ---- the command ----


def test_the_command(limpetd, name, server):
    environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0", "KEY": "top-secret"}

    def limpet_(*words):
        ended = subprocess.run([LIMPET, *words], capture_output=True, text=True, env=environment, timeout=120)
        return ended.returncode, ended.stdout, ended.stderr

    code = f"{GET}\nprint(get('http://{server.address}/')[0], json.loads(get('http://api.limpet/')[1])['headers']['authorization'])"
    opened = limpet_("open", name, "--allow", server.address, "--binding", f"api=http://{server.address}",
                     "--header", "api=Authorization: Bearer ${KEY}")  # fmt: skip
    assert opened[0] == 0, opened
    assert limpet_("run", "-s", name, "-c", code)[1] == f"200 {SECRET}\n"
    assert limpet_("network", name)[1] == f"{server.address}\nhttp://api.limpet/ -> http://{server.address}\n"
    assert json.loads(limpet_("network", name, "--json")[1]) == {
        "allow": [server.address], "bindings": {"api": {"url": f"http://{server.address}"}},
    }  # fmt: skip
    assert limpet_("network", name, "--allow", "*.example.org", "--unbind")[1] == "*.example.org\n"
    assert limpet_("network", name, "--none")[1] == "none\n"
    assert limpet_("network", name, "--none", "--allow", "a")[0] == 2
    for wrong, says in [
        (["--binding", "api"], "takes NAME=URL"),
        (["--header", "api=A: b"], "and NAME has a --binding"),
        (["--binding", "api=http://a", "--header", "api=A: ${NOT_SET_AT_ALL}"], "the environment has no NOT_SET_AT_ALL"),
    ]:
        status, _, err = limpet_("network", name, *wrong)
        assert status == 2 and says in err
    status, _, err = limpet_("network", name, "--allow", "http://a")
    assert status == 125 and "is no destination" in err
    assert limpet_("close", name)[0] == 0
