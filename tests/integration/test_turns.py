"""Work that a turn began, when the turn ends first: nobody else gets what comes of it. The guest is a script."""

import os

import pytest

from .killed import wait_for
from .raw_peer import Refused
from .scripted import client, files, held, received, refused, script, scripted_controller, session, write

pytestmark = pytest.mark.once

__all__ = ["client", "files", "held", "session"]

LARGE = 1 << 28  # bytes of a hole, of which there are four: seconds to publish, and nothing on the disk
CLOSED = "SessionClosed"
FILES = 3000  # copying or removing them takes longer than a scripted guest needs to notice


@pytest.fixture(scope="module")
def controller():
    yield from scripted_controller("1g")


def refusal(client, id):
    with pytest.raises(Refused) as caught:
        client.answer(id)
    return caught.value


def copying(files):
    """Whether a file of artifacts/ is being published."""
    published = os.path.join(os.path.dirname(files), "artifacts")
    return os.path.isdir(published) and any(name.startswith(".") for name in os.listdir(published))


@pytest.fixture
def closed_while_publishing(client, session, files):
    """A branch whose call has ended and left large files, which are being published; then it is closed."""
    branch = client("branch", session=session, name="b")["session"]
    call = client.ask_run(branch, f"for n in range(4): open(f'artifacts/large{{n}}', 'wb').truncate({LARGE})\nresult = 'of the branch'")
    wait_for(lambda: copying(files))
    client("close", session=branch)
    record = client.answer(call)
    assert (record["status"], record["state"], record["session"]) == ("failed", "lost", branch)
    return branch


def test_a_call_is_not_answered_with_what_a_closed_branch_left(client, session, files, held, closed_while_publishing):
    call = held("result = 'its own'")
    wait_for(lambda: not copying(files))
    held.go(client)
    record = client.answer(call)
    assert (record["status"], record["session"], record["result"]) == ("ok", session, '"its own"')


def test_calls_after_a_closed_branch_are_answered(client, session, files, closed_while_publishing):
    wait_for(lambda: not copying(files))
    for number in range(2):
        record = client.run(session, f"result = {number}", timeout=5)
        assert (record["status"], record["result"]) == ("ok", str(number))


def test_a_call_reports_its_own_artifacts_though_others_are_still_published(client, session, closed_while_publishing):
    code = "open('artifacts/own', 'w').write('x')"
    assert list(client.run(session, code)["artifacts"]) == ["/session/artifacts/own"]
    assert client.run(session, "pass")["artifacts"] == {}


@pytest.fixture
def kept(client, session, files):
    """A checkpoint `clean` with files, some of which have been changed since."""
    for number in range(300):
        write(files, f"many/{number}", "old")
    client("checkpoint", session=session, name="clean", files=True)
    write(files, "many/0", "new")
    return os.path.join(files, "many", "0")


ROLLED_BACK = {"checkpoint": "c1", "execution_count": 0, "epoch": 2, "not_restored": []}


@pytest.mark.parametrize("more", [[ROLLED_BACK], [(1106, "no")], [ROLLED_BACK, (1106, "no")] * 3])
def test_an_order_is_answered_once(client, session, kept, more):
    """However often the supervisor says it, while the files are still being restored."""
    script(client, session, f"guest.repeats['rollback'] = {more!r}")
    asked = [client.ask("rollback", session=session, checkpoint="clean") for _ in range(3)]
    for id in asked:
        assert client.answer(id)["files"] == "restored"
    with open(kept, encoding="utf-8") as file:
        assert file.read() == "old"
    assert script(client, session, "result = 1") == 1


def test_a_refused_order_is_refused_once(client, session, kept):
    script(client, session, "guest.replies['rollback'] = 1204, 'no'\nguest.repeats['rollback'] = [(1204, 'no'), {}]")
    for _ in range(3):
        assert refused(client, "rollback", session=session, checkpoint="clean").name == "Internal"
    assert script(client, session, "result = 1") == 1


def test_a_rollback_that_was_done_outlives_its_connection(client, session, files, kept):
    """And the next one, which is sent after the files have been restored, gets its own answer."""
    for number in range(FILES):
        write(files, f"later-{number}", "")
    breaks = (
        "def untouched():\n"
        "    try:\n        return open('many/0').read() == 'new'\n"
        "    except OSError:\n        return False\n"
        "def answer(id, body):\n"
        "    del guest.replies['rollback']\n"
        "    guest.peer.send('reply', id, guest.rollback(body))\n"
        "    while untouched():\n        pass\n"
        "    guest.connect()\n"
        "guest.replies['rollback'] = answer"
    )
    script(client, session, breaks)
    asked = [client.ask("rollback", session=session, checkpoint="clean") for _ in range(2)]
    answers = [client.answer(id) for id in asked]
    assert [(answer["files"], answer["epoch"]) for answer in answers] == [("restored", 2), ("restored", 3)]


CONNECT_AGAIN = "def again(id, body):\n    del guest.replies['namespace']\n    guest.connect()\nguest.replies['namespace'] = again"


def test_what_waits_is_not_failed_by_a_new_connection(client, session, held):
    """Only what was sent through the old one is, for its answer does not come."""
    call = held(CONNECT_AGAIN)
    sent = client.ask("namespace", session=session)
    waits = [client.ask("checkpoint", session=session, name=name) for name in ("one", "two")]
    held.go(client)
    assert client.answer(call)["status"] == "ok"
    assert "connection" in str(refusal(client, sent))
    assert [client.answer(id)["checkpoint"]["name"] for id in waits] == ["one", "two"]
    assert len(received(client, session, "checkpoint")) == 2


def test_a_lost_branch_takes_with_it_what_was_being_made_of_it(client, session, held):
    client("branch", session=session, name="x")
    call = held(CONNECT_AGAIN.replace("    guest.connect", "    del guest.branches[max(guest.branches)]\n    guest.connect"))
    sent = client.ask("namespace", session=session)
    after = client.ask_run(session, "result = 'went on'")
    made = client.ask("branch", session=f"{session}/x", name="y")
    waits = client.ask_run(f"{session}/x/y", "pass")
    other = client.ask("branch", session=session, name="z")
    held.go(client)
    assert client.answer(call)["status"] == "ok"
    assert "connection" in str(refusal(client, sent))
    assert [refusal(client, id).name for id in (made, waits)] == [CLOSED, CLOSED]
    assert client.answer(after)["result"] == '"went on"'
    client.answer(other)
    assert client.run(f"{session}/z", "pass")["status"] == "ok"


def test_a_lost_branch_whose_files_are_being_copied(client, session, files):
    client("branch", session=session, name="x")
    for number in range(FILES):
        write(files, f"many/{number}", "")
    again = (
        "import os, threading\n"
        "asked, broken = threading.Event(), threading.Event()\n"
        "def again():\n"
        "    while not os.path.exists('../checkpoints/.new') and not asked.is_set():\n        pass\n"
        "    old = guest.peer\n"
        "    del guest.branches[max(guest.branches)]\n"
        "    guest.connect()\n"
        "    old.socket.shutdown(2)\n"
        "    broken.set()\n"
        "def late(id, body):\n"  # should all have been copied first
        "    if broken.is_set():\n        return guest.checkpoint(body)\n"
        "    asked.set()\n"
        "    broken.wait()\n"
        "guest.replies['checkpoint'] = late\n"
        "threading.Thread(target=again, daemon=True).start()"
    )
    script(client, session, again)
    assert refused(client, "checkpoint", session=f"{session}/x", files=True).name in (CLOSED, "Internal")
    taken = client("checkpoint", session=session, name="whole", files=True)["checkpoint"]
    assert taken["files"] is True
    write(files, "many/0", "new")
    assert client("rollback", session=session, checkpoint="whole")["files"] == "restored"
    assert os.path.getsize(os.path.join(files, "many", "0")) == 0
    assert len(os.listdir(os.path.join(files, "many"))) == FILES
