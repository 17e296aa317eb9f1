"""MCP over HTTP: the client of the official SDK, unchanged, at /mcp of the gateway."""

import contextlib
import subprocess
import sys
import time

import anyio
import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from tests.support import CLIENT
from tests.support.gateway import Gateway, events, until

from .conftest import Session, environment

pytestmark = pytest.mark.anyio

PNG = "class Figure:\n    def _repr_png_(self): return b'\\x89PNG'\nFigure()"
LOOP = "import pathlib\npathlib.Path('began').touch()\nwhile True: pass"
VERSION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
UNLIMITED = ("--rate-limit-max", "0", "--max-sessions", "100")


@pytest.fixture(scope="module")
def gateway(limpetd, tmp_path_factory):
    """With the keys of two people."""
    gateway = Gateway(limpetd.socket, tmp_path_factory.mktemp("gateway"), *UNLIMITED)
    gateway.anna, gateway.ben = gateway.key("create", "anna"), gateway.key("create", "ben")
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture
def own_gateway(limpetd, tmp_path):
    """own_gateway(*options): one for this test, without keys."""
    made = []

    def start(*options, **environment):
        made.append(Gateway(limpetd.socket, tmp_path, *options, environment=environment).start())
        return made[-1]

    yield start
    for gateway in made:
        gateway.stop()


@contextlib.asynccontextmanager
async def over_http(gateway, key=None, session=None, mode="auto", headers=(), **callbacks):
    """A Session over HTTP."""
    headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **dict(headers)}
    url = f"{gateway.url}/mcp" + (f"?session={session}" if session else "")
    async with httpx2.AsyncClient(headers=headers, timeout=120, trust_env=False) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode, **callbacks) as client:
            yield Session(client)


def body(method, params=None, capabilities=None, **meta):
    """A request of 2026-07-28 by hand, and its headers."""
    meta = {"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": capabilities or {}, **meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": meta}}
    name = (params or {}).get("name") or (params or {}).get("taskId")
    headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method, "Accept": "application/json, text/event-stream"}
    return {"json": message, "headers": {**headers, **({"Mcp-Name": name} if name else {})}}


def running(code, capabilities=None, **meta):
    return body("tools/call", {"name": "run_python", "arguments": {"code": code}}, capabilities, **meta)


def names(gateway, key):
    with gateway.client(key) as http:
        return [row["session"] for row in http.get("/v1/sessions").json()["sessions"]]


async def test_a_session_over_http(gateway, mode, name):
    heard = []

    async def progress(count, total, message):
        heard.append(message)

    async with over_http(gateway, gateway.anna, name, mode) as server:
        assert (await server.run("x = 6 * 7; x")).data["result"] == "42"
        await server.run("print('live')", progress_callback=progress)
        assert "".join(heard) == "live\n"
        assert (await server.run(PNG)).of("image")
        made = await server.run("open('artifacts/a.txt', 'w').write('hello')")
        assert made.data["session"] == name and list(made.data["artifacts"].values()) == ["limpet://artifacts/a.txt"]
        (content,) = (await server.client.read_resource(made.of("resource_link")[0].uri)).contents
        assert content.text == "hello"
        assert (await server.run("1/0")).failed
        assert "Unknown" not in (await server.call("exec", command="echo there")).text
    with gateway.client(gateway.anna) as http:  # it is kept, and the same by every door
        assert http.post(f"/v1/sessions/{name}/run", json={"code": "x"}).json()["result"] == "42"
        http.delete(f"/v1/sessions/{name}")


async def test_a_session_named_in_a_header(gateway, name):
    async with over_http(gateway, gateway.anna, headers={"Limpet-Session": name}) as server:
        assert (await server.run("1")).data["session"] == name
    with gateway.client(gateway.anna) as http:
        assert http.delete(f"/v1/sessions/{name}").status_code == 204


async def test_a_connection_has_a_session_of_its_own_that_ends_with_it(gateway):
    async with over_http(gateway, gateway.anna, mode="legacy") as one, over_http(gateway, gateway.anna, mode="legacy") as two:
        first, second = (await one.run("x = 1")).data["session"], (await two.run("x = 2")).data["session"]
        assert first != second and {first, second} <= set(names(gateway, gateway.anna))
        assert (await one.run("x")).data["result"] == "1"
    until(lambda: not {first, second} & set(names(gateway, gateway.anna)), "their sessions end")


async def test_without_connections_it_is_the_session_of_the_client(gateway):
    for code in ("y = 5", "y"):
        async with over_http(gateway, gateway.ben, mode="auto") as server:
            said = await server.run(code)
    assert said.data["result"] == "5" and said.data["session"].startswith("mcp-")
    with gateway.client(gateway.ben) as http:
        http.delete(f"/v1/sessions/{said.data['session']}")


async def test_two_clients_at_once_in_one_session(gateway, name):
    async with over_http(gateway, gateway.anna, name, "legacy") as one, over_http(gateway, gateway.anna, name) as two:
        await one.run("seen = []")
        async with anyio.create_task_group() as group:
            for server, mark in ((one, 1), (two, 2)):
                for _ in range(5):
                    group.start_soon(server.run, f"seen.append({mark})")
        assert (await two.run("sorted(seen)")).data["result"] == str([1] * 5 + [2] * 5)
        assert (await one.run("1")).data["execution_count"] == 13
    with gateway.client(gateway.anna) as http:
        http.delete(f"/v1/sessions/{name}")


async def test_the_same_name_of_another_is_another_session(gateway, name):
    async with over_http(gateway, gateway.anna, name) as anna, over_http(gateway, gateway.ben, name) as ben:
        await anna.run("secret = 1")
        assert (await ben.run("secret")).data["error"]["name"] == "NameError"
    for key in (gateway.anna, gateway.ben):
        with gateway.client(key) as http:
            assert http.delete(f"/v1/sessions/{name}").status_code == 204


def initialize(http):
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    headers = {"Accept": "application/json, text/event-stream"}
    opened = http.post("/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, headers=headers)
    assert opened.status_code == 200, opened.text
    return {**headers, "Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}


def test_the_connection_of_another_is_none(gateway):
    with gateway.client(gateway.anna) as anna, gateway.client(gateway.ben) as ben:
        connection = initialize(anna)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert anna.post("/mcp", json=ping, headers=connection).status_code == 200
        assert ben.post("/mcp", json=ping, headers=connection).status_code == 404
        assert ben.delete("/mcp", headers=connection).status_code == 404
        assert anna.post("/mcp", json=ping, headers=connection).status_code == 200
        assert anna.delete("/mcp", headers=connection).status_code == 200
        assert anna.post("/mcp", json=ping, headers=connection).status_code == 404


@pytest.mark.parametrize("key", [None, "e2b_" + "0" * 40])
def test_a_wrong_key(gateway, key):
    with gateway.client() as http:
        request = body("tools/list")
        headers = {**request["headers"], **({"Authorization": f"Bearer {key}"} if key else {})}
        refused = http.post("/mcp", json=request["json"], headers=headers)
    assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Bearer")
    assert gateway.lines()[-1]["operation"] == "refused" and gateway.lines()[-1]["status"] == 401


@pytest.mark.parametrize(("origin", "status"), [("http://evil.example", 403), (None, 200), ("own", 200)])
def test_pages_of_other_sites(gateway, origin, status):
    with gateway.client(gateway.anna) as http:
        request = body("tools/list")
        given = {} if origin is None else {"Origin": gateway.url if origin == "own" else origin}
        assert http.post("/mcp", json=request["json"], headers={**request["headers"], **given}).status_code == status


@pytest.mark.parametrize("query", ["session=a/b", "session=" + "x" * 70, "session=.."])
def test_a_wrong_name(gateway, query):
    with gateway.client(gateway.anna) as http:
        refused = http.post(f"/mcp?{query}", **body("tools/list"))
    assert (refused.status_code, refused.json()["name"]) == (400, "BadRequest")


def test_a_body_that_is_too_large(gateway):
    with gateway.client(gateway.anna) as http:
        assert http.post("/mcp", **running("#" * (33 << 20))).status_code == 413
        assert http.post("/mcp", **body("tools/list")).status_code == 200


async def test_limits_of_the_gateway(own_gateway):
    gateway = own_gateway("--max-input-chars", "1000", "--max-sessions", "1")
    async with over_http(gateway, session="one") as one, over_http(gateway, session="two") as two:
        assert (await one.run("1")).data["result"] == "1"
        assert "TooLarge" in (await one.run("#" * 1001)).text and "TooLarge" in (await one.call("exec", command=":" * 1001)).text
        assert "TooLarge" in (await one.call("try_each", codes=["1", "#" * 1001])).text
        assert "LimitReached" in (await two.run("1")).text
    with gateway.client() as http:
        http.delete("/v1/sessions/one")


def test_too_many_requests(own_gateway):
    gateway = own_gateway("--rate-limit-max", "3", "--rate-limit-window-ms", "3600000")
    with gateway.client() as http:
        said = [http.post("/mcp", **body("tools/list")).status_code for _ in range(4)]
        assert said == [200, 200, 200, 429]


def test_what_is_done_is_written_down_and_counted(gateway, name):
    with gateway.client(gateway.anna) as http:
        assert http.post(f"/mcp?session={name}", **running("print('private')")).status_code == 200
        http.post(f"/mcp?session={name}", **body("tools/call", {"name": "nothing", "arguments": {}}))
        http.delete(f"/v1/sessions/{name}")
    mine = [line for line in gateway.lines() if line["door"] == "mcp"]
    assert [(line["who"], line["operation"], line["status"]) for line in mine[-2:]] == [("anna", "tools/call run_python", 200), ("anna", "tools/call", 400)]
    assert "private" not in gateway.audit.read_text()
    with gateway.client(gateway.anna) as http:
        text = http.get("/metrics").text
    assert 'limpet_serve_requests_total{door="mcp",operation="tools/call run_python",status="200"}' in text


async def test_a_cancelled_call_is_interrupted(gateway, client, mode, name):
    async with over_http(gateway, gateway.anna, name, mode) as server:
        await server.run("x = 1")
        with gateway.client(gateway.anna) as http:
            async with anyio.create_task_group() as group:
                group.start_soon(server.run, LOOP)
                await anyio.to_thread.run_sync(until, lambda: http.get(f"/v1/sessions/{name}/files/began").status_code == 200, "it begins")
                group.cancel_scope.cancel()
            assert (await server.run("x")).data["result"] == "1"
            http.delete(f"/v1/sessions/{name}")


def test_a_client_that_vanishes_in_a_call(gateway, name):
    """The stream is closed: the code is interrupted, and the session goes on."""
    with gateway.client(gateway.anna) as http:
        request = running("print('on', flush=True)\nwhile True: pass", progressToken=1)
        with http.stream("POST", f"/mcp?session={name}", **request) as stream:
            assert any("progress" in line for line in stream.iter_lines())
        done = http.post(f"/v1/sessions/{name}/run", json={"code": "1"}).json()
        assert (done["result"], done["execution_count"]) == ("1", 2)
        http.delete(f"/v1/sessions/{name}")


def test_a_client_that_vanishes_between_calls(own_gateway):
    gateway = own_gateway("--session-ttl-s", "10")
    with gateway.client() as http:
        connection = initialize(http)
        http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=connection)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_python", "arguments": {"code": "1"}}}
        assert http.post("/mcp", json=call, headers=connection).status_code == 200
        until(lambda: not http.get("/v1/sessions").json()["sessions"], "its session ends")
        # Each request that finds the connection keeps it for another ten seconds.
        until(lambda: http.post("/mcp", json=call, headers=connection).status_code == 404 or time.sleep(11), "it is forgotten")


def test_a_client_that_reads_slowly_holds_up_nobody(gateway, name):
    code = "for i in range(3000): print('x' * 1000, flush=True)"
    with gateway.client(gateway.anna) as slow, gateway.client(gateway.ben) as other:
        with slow.stream("POST", f"/mcp?session={name}", **running(code, progressToken=1)) as stream:
            lines = stream.iter_lines()
            next(lines)  # and then nothing for a while
            for _ in range(3):
                assert other.post("/mcp", **body("tools/list")).status_code == 200
            assert '"status":"ok"' in list(lines)[-2]
        slow.delete(f"/v1/sessions/{name}")


async def test_questions_over_http(own_gateway, mode, tmp_path):
    (tmp_path / "tools.py").write_text("def price(what): return len(what)\ndef buy(what): return [what]\n")
    gateway, asked = own_gateway("--mcp-tools", str(tmp_path / "tools.py"), "--mcp-allow", "price"), []

    async def answer(context, params):
        if "Name?" in params.message:
            return types.ElicitResult(action="accept", content={"line": "Ada"})
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"allow": len(asked) == 1})

    async with over_http(gateway, session="one", mode=mode, elicitation_callback=answer) as server:
        assert (await server.run("input('Name? ')")).data["result"] == "'Ada'"
        assert (await server.run("import limpet_tools\nlimpet_tools.price('tea')")).data["result"] == "3" and not asked
        assert (await server.run("limpet_tools.buy('tea')")).data["result"] == "['tea']" and "buy('tea')" in asked[0]
        assert "PermissionError" in (await server.run("limpet_tools.buy('tea')")).text


@pytest.mark.parametrize(("tools", "allowed", "said"), [("/dev/null", "", "--mcp-tools: /dev/null defines no function"), (None, "x", "--mcp-allow: --mcp-tools has no function 'x'")])
def test_wrong_functions(tmp_path, tools, allowed, said):
    options = [*(["--mcp-tools", tools] if tools else []), "--mcp-allow", allowed, "--port", "0", "--state-dir", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "limpet.serve", *options], env=environment(), capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr


async def test_the_end_of_the_gateway(own_gateway, limpetd):
    """Sessions of connections end with it; a client that listens does not hold it up."""
    gateway = own_gateway()
    async with over_http(gateway, mode="legacy") as server:
        mine = (await server.run("1")).data["session"]
        assert mine in limpetd.sessions()
        await anyio.to_thread.run_sync(gateway.stop)
        assert mine not in limpetd.sessions()


async def test_a_call_that_runs_ends_before_the_gateway(own_gateway, limpetd, mode, name):
    gateway, said = own_gateway(), []
    began = "import pathlib, time\npathlib.Path('began').touch()\ntime.sleep(1)\nprint('end')"
    async with over_http(gateway, session=name, mode=mode) as server:
        await server.client.list_tools()  # which the client would do afterwards, to check the result
        async with anyio.create_task_group() as group:

            async def run():
                said.append((await server.run(began)).text)

            group.start_soon(run)
            with gateway.client() as http:
                await anyio.to_thread.run_sync(until, lambda: http.get(f"/v1/sessions/{name}/files/began").status_code == 200, "it begins")
            gateway.process.terminate()
    assert "end" in said[0]
    with limpetd.client() as client:
        client.close_session(name)


def test_without_the_extra(own_gateway, tmp_path):
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "mcp.py").write_text("")
    gateway = own_gateway(PYTHONPATH=f"{tmp_path}/shadow:{CLIENT}")
    with gateway.client() as http:
        refused = http.post("/mcp", **body("tools/list"))
        assert refused.status_code == 501 and "pip install 'mcp>=2.3,<3'" in refused.json()["detail"]


@pytest.mark.parametrize(
    "tool, arguments, kind, shown",
    [
        ("run_python", {"code": f"print('from inside')\n{PNG}"}, "python", ["display", "output", "result"]),
        ("exec", {"command": "echo from inside"}, "command", ["output", "result"]),
    ],
)
async def test_those_who_look_at_the_session_see_it(gateway, name, tool, arguments, kind, shown):
    with gateway.client(gateway.anna) as http:
        http.post("/v1/sessions", json={"name": name})
        with http.stream("GET", f"/v1/sessions/{name}/events") as stream:
            async with over_http(gateway, gateway.anna, name) as session:
                called = await session.call(tool, **arguments)
            heard = []
            for _, kind_of_event, data in events(stream):
                heard.append((kind_of_event, data))
                if kind_of_event == "result":
                    break
    begun = heard[0][1]
    assert heard[0][0] == "run" and (begun["kind"], begun["session"]) == (kind, name)
    assert begun["code"] == next(iter(arguments.values()))
    assert sorted({event for event, _ in heard[1:]}) == shown  # output and displays come on ways of their own
    assert {data["run_id"] for _, data in heard} == {called.data["run_id"]}
    assert dict(heard)["output"]["text"] == heard[-1][1]["stdout"] == "from inside\n"
