"""How sandboxes begin, go on and end, with E2B's own client."""

import asyncio
import datetime
import json
import os
import subprocess
import sys
import urllib.request

import pytest
from e2b import AsyncSandbox, NotFoundException, SandboxException, SandboxQuery, SandboxState, TimeoutException
from e2b.exceptions import AuthenticationException, SandboxNotFoundException
from e2b_code_interpreter import Sandbox

from limpet.serve._keys import ANONYMOUS
from limpet.serve.e2b._sandboxes import Sandboxes

from tests.support import ROOT

from tests.support.gateway import Gateway

from .conftest import UNLIMITED, made, options, until


def items(where, **query):
    paginator, found = Sandbox.list(**query, **where), []
    while paginator.has_next:
        found += paginator.next_items()
    return found


def get_row(where, sandbox):
    request = urllib.request.Request(f"{where['api_url']}/sandboxes/{sandbox.sandbox_id}", headers={"X-API-Key": where["api_key"]})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_a_sandbox_knows_what_it_is(where):
    with made(Sandbox, where, metadata={"who": "Ada & co"}, timeout=120, envs={"COLOUR": "green"}) as sandbox:
        info = sandbox.get_info()
        assert (info.sandbox_id, info.template_id, info.metadata) == (
            sandbox.sandbox_id, "code-interpreter-v1", {"who": "Ada & co"},
        )  # fmt: skip
        assert info.state == SandboxState.RUNNING
        assert (info.cpu_count, info.memory_mb) == (1, 1024)
        row = get_row(where, sandbox)
        assert (row["cpuCount"], row["memoryMB"], row["diskSizeMB"]) == (1, 1024, 1024)
        assert abs((info.end_at - info.started_at).total_seconds() - 120) < 60
        assert sandbox.is_running()
        assert sandbox.run_code("import os; os.environ['COLOUR']").text == "green"
        assert sandbox.commands.run("echo $COLOUR").stdout == "green\n"


def test_a_sandbox_knows_what_it_uses(where):
    with made(Sandbox, where) as sandbox:
        sandbox.run_code("busy = bytearray(100_000_000)")
        handle = sandbox.commands.run("while true; do :; done", background=True, timeout=0)
        until(lambda: sandbox.get_metrics()[0].cpu_used_pct > 5)
        hour, now = datetime.timedelta(hours=1), datetime.datetime.now(datetime.timezone.utc)
        assert sandbox.get_metrics(start=now - 2 * hour, end=now - hour) == []
        (metrics,) = sandbox.get_metrics(start=now - hour, end=now)
        assert metrics.mem_used > 50_000_000 and metrics.cpu_count >= 1
        assert 0 < metrics.disk_used < metrics.disk_total
        handle.kill()
        sandbox.pause()
        assert sandbox.get_metrics() == []


def test_lists_are_filtered_and_have_pages(where):
    with (
        made(Sandbox, where, metadata={"n": "1", "of": "list"}) as one,
        made(Sandbox, where, metadata={"n": "2", "of": "list"}) as two,
    ):
        ids = [one.sandbox_id, two.sandbox_id]
        found = items(where, query=SandboxQuery(metadata={"of": "list"}), order="asc", limit=1)
        assert [each.sandbox_id for each in found] == ids
        found = items(where, query=SandboxQuery(metadata={"n": "2", "of": "list"}))
        assert [each.sandbox_id for each in found] == ids[1:]
        two.pause()
        found = items(where, query=SandboxQuery(metadata={"of": "list"}, state=[SandboxState.PAUSED]))
        assert [each.sandbox_id for each in found] == ids[1:]
        future = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        assert items(where, query=SandboxQuery(started_after=future)) == []


def test_an_ended_sandbox_is_told(where):
    sandbox = Sandbox.create(**where)
    assert sandbox.kill() is True
    assert sandbox.kill() is False
    assert not sandbox.is_running()
    with pytest.raises(TimeoutException, match="was not found"):
        sandbox.commands.run("true")
    with pytest.raises(TimeoutException, match="was not found"):
        sandbox.run_code("1")
    with pytest.raises(TimeoutException, match="was not found"):
        sandbox.files.read("x")
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect(sandbox.sandbox_id, **where)
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()


def test_what_runs_when_a_sandbox_ends_ends_with_it(where):
    sandbox = Sandbox.create(**where)
    handle = sandbox.commands.run("sleep 600", background=True, timeout=0)
    sandbox.kill()
    with pytest.raises(TimeoutException, match="killed or reached its end of life"):
        handle.wait()


def test_time_runs_out(where):
    with made(Sandbox, where, timeout=600) as sandbox:
        before = sandbox.get_info().end_at
        sandbox.set_timeout(1200)
        assert sandbox.get_info().end_at > before
        sandbox.set_timeout(1)
        until(lambda: not sandbox.is_running())
        assert sandbox.sandbox_id not in [each.sandbox_id for each in items(where)]
        with pytest.raises(SandboxNotFoundException):
            sandbox.set_timeout(10)
    with pytest.raises(SandboxException, match="SANDBOX_TIMEOUT_S"):
        Sandbox.create(**where, timeout=1_000_000)


def test_forks_have_variables_and_files_of_their_own(where):
    with made(Sandbox, where) as sandbox:
        sandbox.run_code("x = [1]")
        sandbox.files.write("there", "before")
        first, second = sandbox.fork(count=2)
        try:
            assert first.run_code("x.append('first'); x").text == "[1, 'first']"
            assert second.run_code("x.append('second'); x").text == "[1, 'second']"
            assert sandbox.run_code("x").text == "[1]"
            assert first.files.read("there") == "before"
            first.files.write("own", "f")
            assert not second.files.exists("own") and not sandbox.files.exists("own")
            context = first.create_code_context()
            assert context.id not in [each.id for each in sandbox.list_code_contexts()]
            assert first.run_code("'own'", context=context).text == "own"
            sandbox.kill()
            assert not sandbox.is_running()
            assert first.run_code("x").text == "[1, 'first']"
            third = first.fork()[0]
            first.kill()
            assert third.run_code("x").text == "[1, 'first']"
            assert third.kill()
        finally:
            assert second.kill()
        assert not second.is_running()


def test_forks_that_there_is_no_room_for_are_told_one_by_one(limpetd, tmp_path):  # noqa: F811
    gateway = Gateway(limpetd.socket, tmp_path, *UNLIMITED, "--max-sessions", "3")
    gateway.start()
    try:
        with made(Sandbox, options(gateway, gateway.key("create", "eve"))) as sandbox:
            sandbox.run_code("x = 1")
            forks = sandbox.fork(count=4)
            failed = [each for each in forks if isinstance(each, Exception)]
            assert len(failed) == 2 and all("3 are allowed" in str(each) for each in failed)
            for each in forks:
                if each not in failed:
                    assert each.run_code("x").text == "1"
                    each.kill()
            assert sandbox.run_code("x").text == "1"
    finally:
        gateway.stop()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"network": {"allow_out": ["example.com"]}}, "no access to a network"),
        ({"mcp": {"browserbase": {"apiKey": "x"}}, "template": "base"}, "'mcp' is not available"),
        ({"template": "no-such-template"}, "no-such-template"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_a_sentence(where, asked, told, isolates):
    if told == "no-such-template" and not isolates:
        pytest.skip("the engine local has no images")
    with pytest.raises((SandboxException, NotFoundException), match=told):
        Sandbox.create(**where, **asked)


def test_less_network_than_none_is_fine(where):
    with made(Sandbox, where, allow_internet_access=False, network={"deny_out": ["0.0.0.0/0"]}) as sandbox:
        sandbox.update_network({"allow_internet_access": False})
        with pytest.raises(SandboxException, match="no access to the whole internet"):
            sandbox.update_network({"allow_internet_access": True})


def test_the_same_idempotency_key_is_the_same_sandbox(where):
    key = os.urandom(8).hex()
    with made(Sandbox, where, idempotency_key=key) as sandbox:
        assert Sandbox.create(**where, idempotency_key=key).sandbox_id == sandbox.sandbox_id


def test_creations_of_one_idempotency_key_wait_for_each_other(tmp_path):
    """One that fails takes back what it has made itself, and nothing of another's."""
    made = []

    class Making(Sandboxes):
        async def _create(self, owner, id, wanted):
            made.append(id)
            await asyncio.sleep(0)
            made.append(id)

    async def create():
        sandboxes = Making(None, str(tmp_path))
        await asyncio.gather(*(sandboxes.create(ANONYMOUS, None, key) for key in ("same", "same", "other")))

    asyncio.run(create())
    same, other = made[0], next(id for id in made if id != made[0])
    assert made == [same, other, same, other, same, same]


def test_wrong_keys_are_refused(gateway, where):
    for key in ("e2b_" + "0" * 40, "", "none"):
        with pytest.raises(AuthenticationException):
            Sandbox.create(**where | {"api_key": key} if key else where | {"api_key": "x"})


def test_other_peoples_sandboxes_are_not_there(gateway, where, sandbox):
    bob = options(gateway, gateway.bob)
    snapshot = sandbox.create_snapshot()
    assert sandbox.sandbox_id not in [each.sandbox_id for each in items(bob)]
    assert Sandbox.list_snapshots(**bob).next_items() == []
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect(sandbox.sandbox_id, **bob)
    with pytest.raises(SandboxNotFoundException):
        Sandbox.get_info(sandbox.sandbox_id, **bob)
    with pytest.raises(SandboxNotFoundException):
        Sandbox.pause(sandbox.sandbox_id, **bob)
    assert Sandbox.kill(sandbox.sandbox_id, **bob) is False
    assert Sandbox.delete_snapshot(snapshot.snapshot_id, **bob) is False
    with pytest.raises((SandboxException, NotFoundException)):
        Sandbox.create(snapshot.snapshot_id, **bob)
    assert sandbox.run_code("1").text == "1"


def test_many_at_once(where):
    async def one(number):
        sandbox = await AsyncSandbox.create(**where)
        try:
            result = await sandbox.commands.run(f"echo {number}")
            return result.stdout
        finally:
            await sandbox.kill()

    async def all_of_them():
        return await asyncio.gather(*map(one, range(5)))

    assert asyncio.run(all_of_them()) == [f"{number}\n" for number in range(5)]


def test_the_example(gateway):
    environment = {
        **os.environ, "E2B_API_URL": gateway.url, "E2B_SANDBOX_URL": gateway.url, "E2B_API_KEY": gateway.ada,
    }  # fmt: skip
    command = [sys.executable, str(ROOT / "examples" / "e2b_sandboxes.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "penguins still: 344" in done.stdout
