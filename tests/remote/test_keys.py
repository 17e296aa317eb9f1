"""authorized_keys: read again on SIGHUP, and refused with the line that is wrong."""

import os
import pathlib
import signal
import stat
import subprocess

import limpet
import pytest

from tests.support.limpetd import NotStarted

from .door import Door, wait_for


def reload(door, *lines):
    door.authorize(*lines)
    before = door.limpetd.said().count("authorized keys")
    door.limpetd.process.send_signal(signal.SIGHUP)
    wait_for(lambda: door.limpetd.said().count("authorized keys") > before)


def test_a_key_that_is_added_is_let_in_and_one_that_is_removed_is_put_out(own_door):
    first, second = own_door.key, own_door.new_key()
    owner = f"owner={os.geteuid()}"
    with own_door.client() as client, client.open("s") as session:
        session.run("n = 1")
        reload(own_door, f"{first.public} {owner}", f"{second.public} {owner}")
        assert session.run("n").result == "1"
        with own_door.client(second) as other:
            assert other.attach("s").run("n").result == "1"
            reload(own_door, f"{second.public} {owner}")
            assert other.attach("s").run("n").result == "1"
            with pytest.raises(limpet.Unavailable, match="authorized_keys"):
                limpet.Client(own_door.address, reconnect_timeout=0, **own_door.options).sessions()
            other.close_session("s")
        reload(own_door, f"{first.public} {owner}")


def test_a_file_with_a_mistake_changes_nothing(own_door):
    reload(own_door, "this is no key")
    assert own_door.said("line 1: it does not begin with a public key")
    with own_door.client() as client:
        assert client.sessions() == []


@pytest.mark.parametrize(
    "lines, said",
    [
        (["nonsense"], "line 1: it does not begin with a public key"),
        (["KEY"], "line 1: owner=USER is missing"),
        (["# comment", "", "KEY owner=no-such-user-here"], "line 3: owner cannot be 'no-such-user-here'"),
        (["KEY owner=0 rights=all"], "line 1: there is no 'rights'"),
        (["KEY owner=0", "KEY owner=0"], "line 2: the key is there already"),
    ],
)
def test_a_controller_does_not_start_with_a_mistake(lines, said):
    door = Door()
    try:
        door.authorize(*(line.replace("KEY", door.key.public) for line in lines))
        with pytest.raises(NotStarted, match=said):
            door.limpetd.start("--listen", door.address, "--authorized-keys", door.authorized)
    finally:
        door.limpetd.remove()


def test_a_file_that_others_may_write_to_is_refused():
    door = Door()
    try:
        os.chmod(door.authorized, 0o666)
        with pytest.raises(NotStarted, match="others may write to it"):
            door.limpetd.start("--listen", door.address, "--authorized-keys", door.authorized)
    finally:
        door.limpetd.remove()


@pytest.mark.parametrize("address", ["127.0.0.1:7310", "tcp://127.0.0.1", "tcp://:7310", "ipc:///tmp/x", "tcp://127.0.0.1:70000000"])
def test_an_address_that_is_none_is_refused(address):
    door = Door()
    try:
        with pytest.raises(NotStarted, match="listen cannot be"):
            door.limpetd.start("--listen", address, "--authorized-keys", door.authorized)
    finally:
        door.limpetd.remove()


def test_the_servers_key_is_kept_for_its_user_alone_and_its_public_half_is_told(own_door):
    secret = pathlib.Path(own_door.directory, "state", "limpet-net.key_secret")
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    told = subprocess.run(own_door.limpetd.command("--check", "--listen", own_door.address, "--authorized-keys", own_door.authorized), capture_output=True, text=True).stdout
    assert own_door.server_key in told
    assert own_door.address in told
