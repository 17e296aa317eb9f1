"""A supervisor that takes nothing for now: what is asked waits for it, and its session goes on. The guest is a script."""

import os

import pytest

from .killed import wait_for
from .raw_peer import Client, Refused
from .scripted import client, controller, files, received, script, session

__all__ = ["client", "controller", "files", "session"]

MIB = 1 << 20

# Answers commands, and asks of files by what `files_asked` does.
COMMANDS = """
import __main__
def exec_(id, body):
    executed = __main__.NOTHING | {name: body[name] for name in ("run_id", "code_hash", "branch")} | guest.branches[0]
    guest.peer.send("executed", id, executed | {"exit_code": len(body["program"].get("stdin", b"")) % 251})
guest.replies["exec"] = exec_
"""
# Hangs up, and connects again when the test says so.
HANGS_UP = """
import os, time
def hang_up(id, body):
    del guest.replies["processes"]
    guest.peer.close()
    open("gone", "w").close()
    while not os.path.exists("come"):
        time.sleep(0.005)
    guest.connect()
guest.replies["processes"] = hang_up
"""


def ask_exec(client, session, **more):
    return client.ask("exec", session=session, run_id=os.urandom(16).hex(), **({"command": "true"} | more))


@pytest.fixture
def unreached(client, session, files):
    """A session whose supervisor is not connected until unreached()."""
    script(client, session, COMMANDS + HANGS_UP)
    lost = client.ask("processes", session=session)
    wait_for(lambda: os.path.exists(os.path.join(files, "gone")))

    def come():
        open(os.path.join(files, "come"), "w").close()
        with pytest.raises(Refused):
            client.answer(lost)

    yield come
    come_again = os.path.join(files, "come")
    if os.path.isdir(files) and not os.path.exists(come_again):
        open(come_again, "w").close()


def test_a_call_waits_for_its_supervisor(client, session, unreached):
    call = client.ask_run(session, "result = 'here'")
    unreached()
    assert client.answer(call)["result"] == '"here"'


def test_a_command_waits_for_its_supervisor(client, session, unreached):
    command = ask_exec(client, session)
    unreached()
    assert client.answer(command)["status"] == "ok"


def test_orders_wait_for_their_supervisor(client, session, unreached):
    asked = [client.ask("checkpoint", session=session, name="a"), client.ask("reset", session=session)]
    unreached()
    assert [sorted(client.answer(id)) for id in asked] == [["checkpoint", "dropped"], ["epoch"]]


def test_many_commands_at_once_are_more_than_a_supervisor_has_taken(client, session, unreached):
    commands = [ask_exec(client, session, stdin=b"x" * (4 * MIB)) for _ in range(12)]
    unreached()
    assert [client.answer(id)["exit_code"] for id in commands] == [4 * MIB % 251] * 12


def test_a_command_that_breaks_the_connection_is_sent_twice(client, session):
    breaks = "def again(id, body):\n    guest.connect()\nguest.replies['exec'] = again"
    script(client, session, breaks)
    with pytest.raises(Refused, match="knows nothing of the command"):
        client.answer(ask_exec(client, session))
    assert len(received(client, session, "exec")) == 2


def test_a_supervisor_that_connects_again_and_again_is_given_up(client, controller, session):
    record = client.run(session, "while True: guest.connect()")
    assert (record["status"], record["state"]) == ("failed", "lost") and "broke the protocol" in record["error"]["message"]
    other = Client(controller.socket)
    other("sessions")
    other.close()
