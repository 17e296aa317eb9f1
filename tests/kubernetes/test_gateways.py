"""Two gateways, each a process, before the same sessions in pods."""

import asyncio
import os
import random
import subprocess
import sys
import threading

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.gateway import events, until
from tests.support.web import GET, serving

ROUNDS = int(os.environ.get("LIMPET_TEST_ROUNDS", "25"))  # of what is to be right each time


@pytest.fixture(scope="module")
def two(gateways):
    return gateways(), gateways()


@pytest.fixture
def both(two, gateways, fleet):
    """A client of anna's at each."""
    fleet()  # which removes what is left
    with two[0].client(gateways.keys["anna"]) as first, two[1].client(gateways.keys["anna"]) as second:
        yield first, second


def opened(http, name):
    made = http.post("/v1/sessions", json={"name": name})
    assert made.status_code in (200, 201), made.text
    return made.json()


def ran(http, name, code, **more):
    done = http.post(f"/v1/sessions/{name}/run", json={"code": code, **more})
    assert done.status_code == 200, done.text
    return done.json()


async def tool(gateway, key, session, code):
    """What the tool of MCP says of code."""
    async with (
        httpx2.AsyncClient(headers={"X-API-Key": key}, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{gateway.url}/mcp?session={session}", http_client=http)) as client,
    ):
        return (await client.call_tool("run_python", {"code": code})).content[0].text


def test_both_serve_the_same_session(both, standin):
    first, second = both
    assert opened(first, "shared")["created"] is True
    ran(first, "shared", "x = 41")
    assert opened(second, "shared")["created"] is False
    assert ran(second, "shared", "x + 1")["result"] == "42"
    assert [row["session"] for row in second.get("/v1/sessions").json()["sessions"]] == ["shared"]
    assert second.delete("/v1/sessions/shared").status_code == 204
    standin.until_gone()
    assert first.post("/v1/sessions/shared/run", json={"code": "x"}).status_code == 404
    assert opened(first, "shared")["created"] is True
    assert ran(second, "shared", "'x' in dir()")["result"] == "False"


def test_nobody_sees_the_sessions_of_others(both, two, gateways):
    opened(both[0], "private")
    run_id = ran(both[0], "private", "1")["run_id"]
    with two[1].client(gateways.keys["ben"]) as ben:
        assert ben.get("/v1/sessions").json() == {"sessions": []}
        assert ben.post("/v1/sessions/private/run", json={"code": "1"}).status_code == 404
        assert ben.get(f"/v1/runs/{run_id}").status_code == 404
    assert both[1].get(f"/v1/runs/{run_id}").json()["result"] == "1"


def test_a_gateway_that_is_killed_takes_nothing_along(both, gateways, tmp_path):
    """Whoever asked it asks the other one for the same call."""
    third, run_id = gateways(), "5" * 32
    begun, released = tmp_path / "begun", tmp_path / "released"
    code = f"import os, time\nn = globals().get('n', 0) + 1\nopen({str(begun)!r}, 'w').close()\n"
    code += f"while not os.path.exists({str(released)!r}): time.sleep(0.01)\nn"
    with third.client(gateways.keys["anna"]) as http:
        opened(http, "survives")
        asking = threading.Thread(target=lambda: pytest.raises(Exception, ran, http, "survives", code, run_id=run_id))
        asking.start()
        until(begun.exists, "the call runs")
        third.kill()
        asking.join()
    again = []
    asking = threading.Thread(target=lambda: again.append(ran(both[0], "survives", code, run_id=run_id)))
    asking.start()
    assert both[1].get(f"/v1/runs/{run_id}", params={"timeout": 0}).status_code == 202
    released.touch()
    asking.join()
    assert (again[0]["result"], again[0]["state"]) == ("1", "kept")
    assert both[1].get(f"/v1/runs/{run_id}").json()["result"] == "1"


def test_what_a_call_made_is_had_from_either(both):
    opened(both[0], "artifacts")
    code = "open('artifacts/a.txt', 'w').write('hello'); open('b.txt', 'w').write('plain')"
    run_id = ran(both[0], "artifacts", code)["run_id"]
    for http in both:
        assert http.get("/v1/sessions/artifacts/artifacts/a.txt").text == "hello"
        assert http.get(f"/v1/runs/{run_id}/artifacts/session/artifacts/a.txt").text == "hello"
        assert http.get("/v1/sessions/artifacts/files/b.txt").text == "plain"


def test_events_come_from_either(both):
    opened(both[0], "events")
    for http in both:
        with http.stream("POST", "/v1/sessions/events/run", json={"code": "print('hi')\n6 * 7"}, headers={"Accept": "text/event-stream"}) as answer:
            seen = [(name, data) for _, name, data in events(answer)]
        assert ("output", "hi\n") in [(name, data.get("text")) for name, data in seen]
        assert seen[-1][1]["result"] == "42"


def test_mcp_shares_sessions_with_rest(both, two, gateways):
    assert "21" in asyncio.run(tool(two[1], gateways.keys["anna"], "models", "x = 20; x + 1"))
    assert ran(both[0], "models", "x")["result"] == "20"


def test_sessions_reach_what_their_rules_and_bindings_name(both, gateways, standin):
    """By limpet-egress, whichever gateway and door their owner comes to."""
    with serving() as server:
        allowing = [gateways("--sandbox-network", server.address) for _ in range(2)]
        bindings = {"api": {"url": f"http://{server.address}/v1", "headers": {"X-Key": "top-secret"}}}
        options = {"network": {"allow": [server.address]}, "bindings": bindings}
        with allowing[0].client(gateways.keys["anna"]) as http, allowing[1].client(gateways.keys["anna"]) as other:
            made = http.post("/v1/sessions", json={"name": "net", **options})
            assert (made.status_code, "top-secret" in made.text) == (201, False), made.text
            assert other.post("/v1/sessions", json={"name": "net", **options}).status_code == 200
            asked = f"{GET}\nget('http://{server.address}/')[0], 'top-secret' in get('http://api.limpet/')[1], get('http://10.0.0.1/')[0]"
            assert ran(other, "net", asked)["result"] == "(200, True, 403)"
            assert ran(both[0], "net", asked)["result"] == "(200, True, 403)"
            assert "(200, True, 403)" in asyncio.run(tool(allowing[1], gateways.keys["anna"], "net", asked))
            assert other.put("/v1/sessions/net/network", json={"network": {"allow": [server.address]}}).status_code == 200
            assert ran(http, "net", asked)["result"] == "(200, False, 403)"
            alone = http.post("/v1/run", json={"code": asked, **options})
            assert alone.json()["result"] == "(200, True, 403)"
            refused = http.post("/v1/sessions", json={"name": "more", "network": {"allow": ["example.com"]}})
            assert (refused.status_code, refused.json()["name"]) == (403, "Denied")
            assert http.delete("/v1/sessions/net").status_code == 204
    standin.until_gone()


def test_a_call_without_a_session_has_a_pod(both, standin):
    done = both[0].post("/v1/run", json={"code": "6 * 7"})
    assert (done.json()["result"], done.json()["session"]) == ("42", None)
    standin.until_gone()


def test_limits_hold_over_all_gateways(both, gateways):
    few = gateways("--max-sessions", "1")
    opened(both[0], "one")
    with few.client(gateways.keys["anna"]) as http:
        refused = http.post("/v1/sessions", json={"name": "two"})
        assert (refused.status_code, refused.json()["name"]) == (429, "LimitReached")
        assert opened(http, "one")["created"] is False


def test_with_claims_a_drain_loses_nothing(gateways, standin, fleet):
    """Neither for the gateway that has used the session, nor for one that has not."""
    fleet(volume="1Gi")  # which removes what is left
    first, second = (gateways("--max-sessions", "1", LIMPET_POD_VOLUME="1Gi") for _ in range(2))
    with first.client(gateways.keys["anna"]) as http, second.client(gateways.keys["anna"]) as other:
        opened(http, "drained")
        ran(http, "drained", "x = [1]")
        for each in (http, other):
            drain(standin)
            result = ran(each, "drained", "x.append(2); len(x)")
            assert (result["state"], result["restored"]) == ("kept", [])
        assert result["result"] == "3"
        drain(standin)
        standin.until_gone()
        assert other.post("/v1/sessions", json={"name": "another"}).status_code == 429
        assert other.delete("/v1/sessions/drained").status_code == 204
    assert standin.names() + standin.names("persistentvolumeclaims") == []


def drain(standin):
    (name,) = standin.names()
    standin.delete(name)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/v1/sessions", {"name": "big", "memory": "64g"}, 400, "PodOptions"),
        ("POST", "/v1/sessions/told/data?path=f", None, 400, "no /data"),
        ("POST", "/sandboxes", {"templateID": "base"}, 501, "--sandboxes yes"),
    ],
)
def test_what_pods_do_not_have_is_told(both, method, path, body, status, says):
    opened(both[0], "told")
    answer = both[0].request(method, path, json=body)
    assert (answer.status_code, says in answer.text) == (status, True)


def test_it_is_ready_while_the_api_server_is_away(both, standin, monkeypatch):
    opened(both[0], "away")
    with monkeypatch.context() as away:
        away.setattr(standin, "away", True)
        assert both[0].get("/ready").status_code == 200
        assert ran(both[0], "away", "6 * 7")["result"] == "42"
        refused = both[0].post("/v1/sessions", json={"name": "new"})
        assert (refused.status_code, "does not answer" in refused.json()["detail"]) == (503, True)


def test_settings_of_containers_are_refused(two):
    command = [sys.executable, "-m", "limpet.serve", "--session-memory", "1g"]
    done = subprocess.run(command, env=two[0].environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "LIMPET_POD_MEMORY" in done.stderr


@pytest.mark.long
def test_a_gateway_killed_again_and_again_loses_nothing(both, gateways):
    """Whenever it dies, each call runs once."""
    opened(both[0], "counted")
    ran(both[0], "counted", "n = 0")
    code = "import time\ntime.sleep(0.02)\nn += 1\nn"
    chance = random.Random(34)
    for number in range(1, 1 + ROUNDS):
        third, run_id, asked = gateways(), f"{number:032x}", []
        with third.client(gateways.keys["anna"]) as http:
            asking = threading.Thread(target=lambda: asked.append(attempted(http, "counted", code, run_id)))
            asking.start()
            asking.join(chance.uniform(0, 0.1))
            third.kill()
            asking.join()
        result = ran(both[number % 2], "counted", code, run_id=run_id)
        assert (result["result"], result["state"]) == (str(number), "kept")
        assert asked[0] in (None, str(number))


def attempted(http, name, code, run_id):
    try:
        return ran(http, name, code, run_id=run_id)["result"]
    except httpx.TransportError:
        return None


@pytest.mark.long
def test_many_sessions_leave_nothing(both, two, standin):
    def open_files():
        return [len(os.listdir(f"/proc/{gateway.process.pid}/fd")) for gateway in two]

    opened(both[0], "first")
    assert both[0].delete("/v1/sessions/first").status_code == 204
    before = open_files()
    for number in range(2 * ROUNDS):
        name = f"brief-{number}"
        opened(both[number % 2], name)
        assert ran(both[(number + 1) % 2], name, "6 * 7")["result"] == "42"
        assert both[number % 2].delete(f"/v1/sessions/{name}").status_code == 204
    standin.until_gone()
    assert standin.names("persistentvolumeclaims") == [] and not standin.running
    until(lambda: all(now <= then + 10 for now, then in zip(open_files(), before, strict=True)), "descriptors are closed")
