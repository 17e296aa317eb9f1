"""What a gateway that is killed leaves behind, the next one goes on with."""

import threading

import pytest
from e2b import SandboxState
from e2b_code_interpreter import Sandbox

from tests.support.gateway import Gateway

from .conftest import UNLIMITED, options, until


CODE = """
import os, time
open('begun', 'w').close()
while not os.path.exists('go'):
    time.sleep(0.02)
x += 1
x"""


@pytest.fixture
def own(limpetd, tmp_path):
    gateway = Gateway(limpetd.socket, tmp_path, *UNLIMITED)
    gateway.ada = gateway.key("create", "ada")
    gateway.start()
    yield gateway
    gateway.stop()


def test_sandboxes_go_on_with_the_next_gateway(own):
    where = options(own)
    sandbox, paused = Sandbox.create(**where), Sandbox.create(**where, metadata={"a": "b"})
    sandbox.run_code("x = 3")
    context = sandbox.create_code_context()
    sandbox.run_code("y = 4", context=context)
    handle = sandbox.commands.run("cat", background=True, stdin=True, timeout=0)
    snapshot = sandbox.create_snapshot()
    address = sandbox.upload_url("f")
    paused.pause()
    own.kill()
    own.start(own.port)
    assert sandbox.run_code("x").text == "3"
    assert sandbox.run_code("y", context=context).text == "4"
    again = sandbox.commands.connect(handle.pid)
    sandbox.commands.send_stdin(handle.pid, "after")
    sandbox.commands.close_stdin(handle.pid)
    assert again.wait().stdout == "after"
    assert address == sandbox.upload_url("f")
    assert paused.get_info().state == SandboxState.PAUSED and paused.get_info().metadata == {"a": "b"}
    assert Sandbox.create(snapshot.snapshot_id, **where).run_code("x").text == "3"
    sandbox.set_timeout(1)
    own.kill()
    own.start(own.port)
    until(lambda: not sandbox.is_running())


def test_streams_end_with_the_gateway_and_their_commands_go_on(own):
    where = options(own)
    sandbox = Sandbox.create(**where)
    handle = sandbox.commands.run("sleep 600", background=True, timeout=0)
    own.stop()
    with pytest.raises(Exception, match="."):
        handle.wait()
    own.start(own.port)
    assert handle.pid in [each.pid for each in sandbox.commands.list()]
    sandbox.kill()


def test_a_revoked_key_opens_nothing_any_more(own):
    sandbox = Sandbox.create(**options(own))
    own.key("create", "other")
    own.key("revoke", "ada")
    until(lambda: not sandbox.is_running())
    with pytest.raises(Exception, match="(?i)not found|unauthorized"):
        sandbox.run_code("1")


def test_what_a_revoked_key_has_saved_is_removed_by_the_next_gateway(own):
    where = options(own)
    sandbox, other = Sandbox.create(**where), own.key("create", "bob")
    sandbox.create_snapshot()
    sandbox.pause()
    bobs = Sandbox.create(**options(own, other))
    bobs.run_code("x = 1")
    bobs.pause()
    own.key("revoke", "ada")
    own.stop()
    own.start(own.port)
    saved = own.state / "e2b" / "saved"
    until(lambda: [file.name for file in saved.iterdir()] == [f"{bobs.sandbox_id}.limpet"])
    assert bobs.connect(**options(own, other)).run_code("x").text == "1"
    bobs.kill()


def test_sandboxes_outlive_a_controller(own_limpetd, tmp_path):
    own_limpetd.start()
    gateway = Gateway(own_limpetd.socket, tmp_path, *UNLIMITED)
    gateway.ada = gateway.key("create", "ada")
    gateway.start()
    try:
        sandbox = Sandbox.create(**options(gateway))
        sandbox.run_code("x = 5")
        handle = sandbox.commands.run("cat", background=True, stdin=True, timeout=0)
        running = threading.Thread(target=lambda: said.append(sandbox.run_code(CODE).text))
        said = []
        running.start()
        until(lambda: sandbox.files.exists("begun"))
        own_limpetd.kill()
        own_limpetd.start()
        sandbox.files.write("go", "")
        running.join(60)
        assert said == ["6"]
        sandbox.commands.send_stdin(handle.pid, "on")
        sandbox.commands.close_stdin(handle.pid)
        assert handle.wait().stdout == "on"
        assert sandbox.run_code("x").text == "6"
        sandbox.kill()
    finally:
        gateway.stop()
