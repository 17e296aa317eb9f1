"""Snapshots: what sandboxes are made from, with E2B's own client."""

import pytest
from e2b import SandboxException
from e2b_code_interpreter import Sandbox

from tests.support.gateway import Gateway

from .conftest import UNLIMITED, made, options


def test_snapshots_are_what_sandboxes_are_made_from(where):
    with made(Sandbox, where, envs={"COLOUR": "green", "SIZE": "1"}) as sandbox:
        sandbox.run_code("import os; x = 'before'; open('f', 'w').write('before')")
        sandbox.commands.run("mkdir -p ~/deep/er; ln -s f link; echo deep > ~/deep/er/file; chmod 600 f")
        snapshot = sandbox.create_snapshot(name="mine")
        sandbox.run_code("x = 'after'; open('f', 'w').write('after')")
        with made(Sandbox, where, template=snapshot.snapshot_id, envs={"SIZE": "2"}) as again:
            run = again.run_code("x, open('link').read(), os.environ['COLOUR'], os.environ['SIZE']")
            assert (run.text, run.error) == ("('before', 'before', 'green', '2')", None)
            assert again.files.read("deep/er/file") == "deep\n"
            assert again.files.get_info("f").permissions == "-rw-------"
            assert again.get_info().template_id == snapshot.snapshot_id
            again.files.write("f", "own")
        assert sandbox.run_code("x, open('f').read()").text == "('after', 'after')"
        with made(Sandbox, where, template="mine") as again:
            assert again.run_code("x").text == "before"
        listed = Sandbox.list_snapshots(**where, sandbox_id=sandbox.sandbox_id).next_items()
        assert [(each.snapshot_id, each.names) for each in listed] == [(snapshot.snapshot_id, ["mine"])]
        assert Sandbox.delete_snapshot(snapshot.snapshot_id, **where) is True
        assert Sandbox.delete_snapshot(snapshot.snapshot_id, **where) is False
        with pytest.raises(SandboxException, match="not found"):
            Sandbox.create(snapshot.snapshot_id, **where)


def test_what_a_snapshot_does_not_have_is_told(where):
    """With another environment the variables come without the memory."""
    with made(Sandbox, where) as sandbox:
        sandbox.run_code("numbers = (n for n in range(3)); x = 1")
        snapshot = sandbox.create_snapshot()
        assert sandbox.run_code("next(numbers)").text == "0"
        with made(Sandbox, where, template=snapshot.snapshot_id, envs={"COLOUR": "red"}) as again:
            run = again.run_code("x")
            assert (run.text, run.error.name) == ("1", "StateRestored") and "numbers" in run.error.value
        Sandbox.delete_snapshot(snapshot.snapshot_id, **where)


def test_snapshots_outlive_their_sandbox_and_the_gateway(limpetd, tmp_path):
    gateway = Gateway(limpetd.socket, tmp_path, *UNLIMITED)
    gateway.ada = gateway.key("create", "ada")
    gateway.start()
    try:
        where = options(gateway)
        sandbox = Sandbox.create(**where)
        sandbox.run_code("x = 3")
        snapshot = sandbox.create_snapshot()
        sandbox.kill()
        gateway.kill()
        gateway.start(gateway.port)
        with made(Sandbox, where, template=snapshot.snapshot_id) as again:
            assert again.run_code("x").text == "3"
        file = gateway.state / "e2b" / "saved" / f"{snapshot.snapshot_id}.limpet"
        file.write_bytes(file.read_bytes()[:1000])
        with pytest.raises(SandboxException, match="cannot be restored: 's[a-z0-9]*' is"):
            Sandbox.create(snapshot.snapshot_id, **where)
        assert Sandbox.delete_snapshot(snapshot.snapshot_id, **where) is True
        assert not file.exists()
    finally:
        gateway.stop()


def test_a_name_is_of_the_last_snapshot_that_got_it(where):
    with made(Sandbox, where) as sandbox:
        first = sandbox.create_snapshot(name="same")
        second = sandbox.create_snapshot(name="same")
        listed = {each.snapshot_id: each.names for each in Sandbox.list_snapshots(**where, sandbox_id=sandbox.sandbox_id).next_items()}
        assert listed == {first.snapshot_id: [], second.snapshot_id: ["same"]}
        for each in (first, second):
            Sandbox.delete_snapshot(each.snapshot_id, **where)
