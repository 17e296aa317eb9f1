"""Pauses: a sandbox that is on disk meanwhile, with E2B's own client."""

import http.client
import json
import os
import stat
import threading

import pytest
from e2b import SandboxException, SandboxQuery, SandboxState, TimeoutException
from e2b.exceptions import SandboxNotFoundException
from e2b_code_interpreter import Sandbox

from tests.support.gateway import Gateway

from .conftest import UNLIMITED, made, options, until
from .test_wire import Wire


@pytest.fixture
def own(limpetd, tmp_path):
    gateway = Gateway(limpetd.socket, tmp_path, *UNLIMITED, "--sandbox-saved-bytes", "1m")
    gateway.ada, gateway.bob = gateway.key("create", "ada"), gateway.key("create", "bob")
    gateway.start()
    yield gateway
    gateway.stop()


def sessions(limpetd):
    with limpetd.client() as client:
        return {row.session.rpartition(".")[2] for row in client.sessions()}


def saved(gateway):
    return gateway.state / "e2b" / "saved"


def listed(where, state):
    paginator = Sandbox.list(query=SandboxQuery(state=[state]), **where)
    return [each.sandbox_id for each in paginator.next_items()]


@pytest.mark.engine  # where the home is not the directory that is saved
def test_a_pause_keeps_variables_and_files(where):
    with made(Sandbox, where, envs={"COLOUR": "green"}, metadata={"a": "b"}) as sandbox:
        sandbox.run_code("import os\nx = [1, 2]\nos.makedirs('sub'); os.chdir('sub'); open('f', 'w').write('file')")
        sandbox.files.write("g", "by the client")
        assert sandbox.pause() is True
        assert sandbox.pause() is False
        assert sandbox.get_info().state == SandboxState.PAUSED
        assert sandbox.sandbox_id in listed(where, SandboxState.PAUSED)
        assert not sandbox.is_running()
        with pytest.raises(TimeoutException, match="paused"):
            sandbox.run_code("x")
        again = Sandbox.connect(sandbox.sandbox_id, **where)
        assert again.get_info().metadata == {"a": "b"}
        run = again.run_code("x.append(3); x")
        assert (run.text, run.error) == ("[1, 2, 3]", None)
        assert again.run_code("open('f').read(), os.environ['COLOUR']").text == "('file', 'green')"
        assert again.files.read("sub/f") == "file" and again.files.read("g") == "by the client"
        assert again.run_code("__import__('os').path.basename(os.getcwd())").text == "sub"
        assert again.commands.run("pwd").stdout.strip() == again.run_code("os.environ['HOME']").text


@pytest.mark.engine
def test_a_pause_keeps_what_cannot_be_pickled(where, isolates):
    if not isolates:
        pytest.skip("the engine local keeps no memory in a file")
    with made(Sandbox, where) as sandbox:
        sandbox.run_code("import threading; numbers, lock = (n for n in range(3)), threading.Lock(); next(numbers); lock.acquire()")
        sandbox.pause()
        run = sandbox.connect(**where).run_code("next(numbers), lock.locked()")
        assert (run.text, run.error, run.execution_count) == ("(1, True)", None, 2)


def test_a_paused_sandbox_takes_no_session(where, limpetd):
    with made(Sandbox, where) as sandbox:
        assert sandbox.sandbox_id in sessions(limpetd)
        sandbox.pause()
        assert sandbox.sandbox_id not in sessions(limpetd)


def test_calls_are_counted_on(where):
    with made(Sandbox, where) as sandbox:
        assert sandbox.run_code("1").execution_count == 1
        sandbox.pause()
        assert sandbox.connect(**where).run_code("2").execution_count == 2


def test_what_is_not_as_it_was_is_told_once(where, isolates):
    """In a container the memory comes back, and the generator with it."""
    with made(Sandbox, where) as sandbox:
        sandbox.run_code("numbers = (n for n in range(3)); x = 1")
        context = sandbox.create_code_context()
        sandbox.run_code("y = 2", context=context)
        handle = sandbox.commands.run("sleep 600", background=True, timeout=0)
        sandbox.pause()
        again, errors = sandbox.connect(**where), []
        run = again.run_code("x", on_error=errors.append)
        assert run.text == "1" and [error.name for error in errors] == ["StateRestored"]
        assert run.error.name == "StateRestored"
        for told in (*([] if isolates else ["numbers: it was not saved"]), f"context {context.id} (python)", f"process {handle.pid}"):
            assert told in run.error.value
        assert again.run_code("x").error is None
        if not isolates:
            assert again.run_code("numbers").error.name == "NameError"
        with pytest.raises(Exception, match="not found"):
            again.run_code("y", context=context)
        assert handle.pid not in [each.pid for each in again.commands.list()]


def test_what_is_not_as_it_was_is_also_in_a_header(gateway, where):
    with made(Sandbox, where) as sandbox, gateway.client(gateway.ada) as client:
        sandbox.create_code_context()
        sandbox.pause()
        answer = client.post(f"/sandboxes/{sandbox.sandbox_id}/connect", json={"timeout": 100})
        assert (answer.status_code, answer.headers["limpet-state"]) == (201, "restored")
        sandbox.run_code("1")
        answer = client.post(f"/sandboxes/{sandbox.sandbox_id}/connect", json={"timeout": 100})
        assert (answer.status_code, answer.headers["limpet-state"]) == (200, "kept")


def test_a_crash_after_a_pause_goes_back_to_what_was_restored(where, protect):
    with made(Sandbox, where) as sandbox:
        sandbox.run_code("x = 5")
        sandbox.pause()
        again = sandbox.connect(**where)
        protect(again)
        assert again.run_code("import os; os._exit(1)").error.name == "StateRolledBack"
        run = again.run_code("x", envs={"COLOUR": "red"})
        assert (run.text, run.error, run.execution_count) == ("5", None, 3)


def test_a_pause_without_memory_begins_anew(where):
    with made(Sandbox, where) as sandbox:
        sandbox.run_code("x = 1; open('kept', 'w').write('file')")
        sandbox.pause(keep_memory=False)
        again = sandbox.connect(**where)
        assert again.run_code("x").error.name == "NameError"
        assert again.run_code("open('kept').read()").text == "file"


def test_a_pause_waits_for_code_that_runs(where, limpetd):
    with made(Sandbox, where) as sandbox:
        said, home = [], sandbox.run_code("__import__('os').getcwd()").text
        code = "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\nx = 7\nx"
        running = threading.Thread(target=lambda: said.append(sandbox.run_code(code).text))
        running.start()
        until(lambda: sandbox.files.exists("begun"))
        pausing = threading.Thread(target=sandbox.pause)
        pausing.start()
        until(lambda: sandbox.get_info().state == SandboxState.PAUSED)
        with pytest.raises(TimeoutException, match="paused"):
            sandbox.files.write("go", "")
        with limpetd.client() as client:
            row = next(row for row in client.sessions() if row.session.endswith(sandbox.sandbox_id))
            client.attach(row.session).files.write(f"{home}/go", b"")
        running.join(60)
        pausing.join(60)
        assert said == ["7"]
        assert sandbox.connect(**where).run_code("x").text == "7"


@pytest.mark.parametrize("auto_resume", [False, True])
def test_a_pause_before_the_body_of_a_request_takes_nothing_away(where, gateway, auto_resume):
    with made(Sandbox, where, lifecycle={"on_timeout": "pause", "auto_resume": auto_resume}) as sandbox:
        sandbox.run_code("x = 5")
        body = json.dumps({"code": "print(x)"}).encode()
        with Wire(gateway, sandbox).begin("/execute", b"", 49999, later=body) as link:
            sandbox.pause()
            link.sendall(body)
            answer = http.client.HTTPResponse(link)
            answer.begin()
            said = answer.read()
        assert (answer.status, b"5\\n" in said, b"paused" in said) == ((200, True, False) if auto_resume else (502, False, True)), said
        assert sandbox.connect(**where).run_code("x").text == "5"


def test_a_sandbox_is_paused_when_its_time_is_over_and_comes_back_by_itself(where, limpetd):
    lifecycle = {"on_timeout": "pause", "auto_resume": True}
    with made(Sandbox, where, timeout=600, lifecycle=lifecycle) as sandbox:
        sandbox.run_code("x = 5")
        sandbox.set_timeout(20)  # and so long again when it is back
        until(lambda: sandbox.get_info().state == SandboxState.PAUSED and sandbox.sandbox_id not in sessions(limpetd))
        said = []
        several = [threading.Thread(target=lambda: said.append(sandbox.run_code("x").text)) for _ in range(3)]
        for each in several:
            each.start()
        for each in several:
            each.join(60)
        assert said == ["5", "5", "5"]
        assert sandbox.get_info().state == SandboxState.RUNNING


def test_forks_can_be_paused_and_so_can_what_they_come_from(where):
    with made(Sandbox, where) as sandbox:
        sandbox.run_code("x = 'base'")
        first, second = sandbox.fork(count=2)
        first.run_code("x = 'first'")
        assert first.pause() and sandbox.pause()
        assert second.run_code("x").text == "base"
        assert first.connect(**where).run_code("x").text == "first"
        assert sandbox.connect(**where).run_code("x").text == "base"
        first.files.write("own", "f")
        assert not sandbox.files.exists("own") and not second.files.exists("own")
        assert first.kill() and second.kill()


def test_killing_a_paused_sandbox_removes_it(gateway, where):
    sandbox = Sandbox.create(**where)
    sandbox.pause()
    file = saved(gateway) / f"{sandbox.sandbox_id}.limpet"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert sandbox.kill() is True
    assert not file.exists() and sandbox.sandbox_id not in listed(where, SandboxState.PAUSED)
    with pytest.raises(SandboxNotFoundException):
        sandbox.connect(**where)


def test_paused_sandboxes_outlive_gateway_and_controller(own_limpetd, tmp_path):
    own_limpetd.start()
    gateway = Gateway(own_limpetd.socket, tmp_path, *UNLIMITED)
    gateway.ada = gateway.key("create", "ada")
    gateway.start()
    try:
        where = options(gateway)
        sandbox = Sandbox.create(**where)
        sandbox.run_code("x = 5; open('f', 'w').write('file')")
        sandbox.pause()
        gateway.kill()
        own_limpetd.stop()
        (saved(gateway) / "left.limpet").write_bytes(b"of a gateway that was killed")
        own_limpetd.start()
        gateway.start(gateway.port)
        until(lambda: not (saved(gateway) / "left.limpet").exists())
        again = Sandbox.connect(sandbox.sandbox_id, **where)
        assert again.run_code("x, open('f').read()").text == "(5, 'file')"
        again.kill()
        assert os.listdir(saved(gateway)) == []
    finally:
        gateway.stop()


def test_what_is_saved_is_bounded_for_each_key(own):
    where = options(own)
    with made(Sandbox, where) as sandbox, made(Sandbox, options(own, own.bob)) as other:
        sandbox.run_code("x = __import__('os').urandom(2_000_000)")
        with pytest.raises(SandboxException, match="SANDBOX_SAVED_BYTES"):
            sandbox.pause()
        with pytest.raises(SandboxException, match="SANDBOX_SAVED_BYTES"):
            sandbox.create_snapshot()
        assert os.listdir(saved(own)) == []
        assert sandbox.run_code("len(x)").text == "2000000"
        assert other.pause()
        sandbox.set_timeout(100)


def test_what_cannot_be_saved_when_its_time_is_over_waits_in_memory(own):
    where = options(own)
    with made(Sandbox, where, lifecycle={"on_timeout": "pause"}) as sandbox:
        sandbox.run_code("x = __import__('os').urandom(2_000_000)")
        sandbox.set_timeout(1)
        until(lambda: sandbox.get_info().state == SandboxState.PAUSED and not sandbox.is_running())
        until(lambda: os.listdir(saved(own)) == [])
        assert sandbox.connect(**where).run_code("len(x)").text == "2000000"


@pytest.mark.engine
def test_files_for_data_wait_as_well(gateway, where, isolates):
    if not isolates:
        pytest.skip("the engine local has no /data")
    with made(Sandbox, where) as sandbox, gateway.client(gateway.ada) as client:
        session = f"/v1/sessions/{sandbox.sandbox_id}"
        assert client.post(f"{session}/data", params={"path": "d"}, content=b"data").status_code == 201
        fork = sandbox.fork()[0]
        fork.pause()
        sandbox.pause()
        again = sandbox.connect(**where)
        assert again.run_code("open('/data/d').read()").text == "data"
        assert client.get(f"{session}/data").json() == {"uploaded": {"d": 4}}
        assert fork.connect(**where).run_code("open('/data/d').read()").text == "data"
        assert fork.kill()
