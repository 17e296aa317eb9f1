"""A gateway to pods for the unmodified clients of E2B."""

import httpx
import pytest

from tests.support.gateway import until
from tests.support.web import GET, serving

from .standin import refusal


@pytest.fixture(scope="module")
def gateway(gateways):
    return gateways("--sandboxes", "yes", "--rate-limit-max", "0")


@pytest.fixture
def where(gateway, gateways, fleet):
    """How a client is pointed at it."""
    fleet()  # which removes what is left
    return {"api_key": gateways.keys["anna"], "api_url": gateway.url, "sandbox_url": gateway.url}


@pytest.fixture
def sandbox(where):
    from e2b_code_interpreter import Sandbox

    sandbox = Sandbox.create(envs={"GREETING": "hello"}, **where)
    yield sandbox
    sandbox.kill()


def test_code_commands_and_files_share_a_pod(sandbox, standin):
    assert sandbox.run_code("import os; x = 41; os.environ['GREETING']").text == "hello"
    sandbox.files.write("a.txt", "written")
    assert sandbox.commands.run("cat a.txt").stdout == "written"
    assert sandbox.run_code("open('a.txt').read()").text == "written"
    context = sandbox.create_code_context()
    assert sandbox.run_code("'x' in dir()", context=context).text == "False"
    assert len(standin.names()) == 1
    (metrics,) = sandbox.get_metrics()
    assert metrics.cpu_count == 1


def test_a_crash_is_told(sandbox):
    sandbox.run_code("x = 41")
    assert sandbox.run_code("import os; os._exit(1)").error.name == "StateRolledBack"
    assert sandbox.run_code("x").text == "41"


def test_a_pause_has_no_pod(sandbox, where, standin):
    sandbox.run_code("x = [1]")
    sandbox.files.write("a.txt", "written")
    sandbox.pause()
    standin.until_gone()
    sandbox.connect()
    assert sandbox.run_code("x").text == "[1]"
    assert sandbox.files.read("a.txt") == "written"


def test_snapshots_and_forks_have_pods_of_their_own(sandbox, where, standin):
    from e2b_code_interpreter import Sandbox

    sandbox.run_code("x = 1")
    sandbox.files.write("a.txt", "written")
    snapshot = sandbox.create_snapshot()
    sandbox.run_code("x = 2")
    made = [Sandbox.create(snapshot.snapshot_id, **where), *sandbox.fork(count=2)]
    assert len(standin.names()) == 4
    assert [each.run_code("x").text for each in (sandbox, *made)] == ["2", "1", "2", "2"]
    made[1].run_code("x = 3")
    assert [each.run_code("x").text for each in (sandbox, *made)] == ["2", "1", "3", "2"]
    assert {each.files.read("a.txt") for each in made} == {"written"}
    for each in made:
        each.kill()
    assert Sandbox.delete_snapshot(snapshot.snapshot_id, **where)


def test_forks_for_which_there_is_no_pod_are_told(sandbox, standin, monkeypatch):
    sandbox.run_code("x = 1")
    full = refusal(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: pods')
    monkeypatch.setattr(standin, "answers", [full, full])
    failed, forked = sandbox.fork(count=2)
    assert "exceeded quota" in str(failed)
    assert (forked.run_code("x").text, sandbox.run_code("x").text) == ("1", "1")
    forked.kill()
    until(lambda: len(standin.names()) == 1, "its pod alone is there")


def test_its_time_ends_the_pod(where, standin):
    from e2b_code_interpreter import Sandbox

    Sandbox.create(timeout=1, **where)
    standin.until_gone()


def test_a_gateway_that_starts_again_knows_its_sandboxes(gateways, fleet, standin):
    from e2b_code_interpreter import Sandbox

    fleet()  # which removes what is left
    gateway = gateways("--sandboxes", "yes")
    where = {"api_key": gateways.keys["anna"], "api_url": gateway.url, "sandbox_url": gateway.url}
    open_one, paused = (Sandbox.create(**where) for _ in range(2))
    for each in (open_one, paused):
        each.run_code("x = 41")
    paused.pause()
    gateway.kill()
    gateway.start(gateway.port)
    for each in (open_one, paused):
        again = Sandbox.connect(each.sandbox_id, **where)
        assert again.run_code("x").text == "41"
        again.kill()


def test_a_pod_that_is_gone_is_a_sandbox_that_has_ended(sandbox, standin):
    from e2b.exceptions import NotFoundException, TimeoutException

    (pod,) = standin.names()
    standin.delete(pod)
    standin.until_gone()
    with pytest.raises((NotFoundException, TimeoutException)):
        sandbox.run_code("1")
    assert not sandbox.is_running()


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"templateID": "analyst"}, 404, "all pods are alike"),
        ({"templateID": "base", "network": {"allowOut": ["example.org"]}}, 403, "no access to a network"),
    ],
)
def test_what_pods_do_not_have_is_told(where, body, status, says):
    headers = {"X-API-Key": where["api_key"]}
    answer = httpx.post(f"{where['api_url']}/sandboxes", json=body, headers=headers, trust_env=False)
    assert (answer.status_code, says in answer.text) == (status, True)


def test_ports_are_refused(sandbox, where):
    headers = {"X-API-Key": where["api_key"], "E2B-Sandbox-Id": sandbox.sandbox_id, "E2B-Sandbox-Port": "8000"}
    answer = httpx.get(where["sandbox_url"], headers=headers, trust_env=False)
    assert (answer.status_code, "in a pod" in answer.text) == (501, True)


def test_what_is_allowed_is_reached_also_after_a_pause(gateways, fleet, standin):
    from e2b import ALL_TRAFFIC
    from e2b_code_interpreter import Sandbox

    fleet()
    with serving() as server:
        gateway = gateways("--sandboxes", "yes", "--rate-limit-max", "0", "--sandbox-network", server.address)
        where = {"api_key": gateways.keys["anna"], "api_url": gateway.url, "sandbox_url": gateway.url}
        sandbox = Sandbox.create(network={"allow_out": [server.address], "deny_out": [ALL_TRAFFIC]}, **where)
        asked = f"{GET}\nget('http://{server.address}/')[0]"
        assert sandbox.run_code(asked).text == "200"
        sandbox.pause()
        standin.until_gone()
        sandbox.connect()
        assert sandbox.run_code(asked).text == "200"
        sandbox.update_network({})
        assert sandbox.run_code(asked).text == "403"
        sandbox.kill()
