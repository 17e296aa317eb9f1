"""What the controller makes of requests on the state, whatever the supervisor says: its guest is a script here."""

import pytest

from .raw_peer import Refused
from .scripted import CHECKPOINT, VARIABLE, client, controller, files, held, received, refused, rows, script, session

pytestmark = [pytest.mark.once, pytest.mark.sanitize]

__all__ = ["client", "controller", "files", "held", "session"]


# What goes to the supervisor


def test_welcome_and_execute_carry_what_protects_the_state(client, name):
    client("open", session=name, memory="256m", checkpoint="always")
    welcome = script(client, name, "result = {k: v for k, v in guest.welcome.items() if k != 'env'}")
    assert welcome["checkpoint"] == "always"
    assert (welcome["memory"], welcome["checkpoint_budget"]) == (256 << 20, 128 << 20)
    assert welcome["orphan_timeout"] == 3600
    client.run(name, "pass", on_error="rollback")
    first, second = received(client, name, "execute")[:2]
    assert (first["branch"], first["on_error"], second["on_error"]) == (0, "keep", "rollback")
    assert first["code_hash"] != second["code_hash"]
    client("close", session=name)


def test_options_that_say_when_checkpoints_are_taken(client, session, name):
    assert client("open", session=session)["options"]["checkpoint"] == "auto"
    assert refused(client, "open", session=session, checkpoint="off").name == "OptionsDiffer"
    assert refused(client, "open", session="other", checkpoint="sometimes").name == "BadRequest"
    assert refused(client, "run", session=session, code="", run_id="0" * 32, on_error="panic").name == "BadRequest"


# The record


def test_the_record_says_what_became_of_the_state(client, session):
    fields = {
        "status": "crashed", "signal": 11, "state": "rolled_back",
        "error": {"name": "Crashed", "message": "m", "traceback": ""},
        "rolled_back_to": {"checkpoint": "c1", "execution_count": 3}, "not_restored": ["thread 'poller'"],
        "state_protection": {"level": "checkpoint", "execution_count": 3, "reason": None},
        "changed": {"added": [VARIABLE], "changed": [], "deleted": ["y"], "more": 2},
    }  # fmt: skip
    record = client.run(session, f"guest.executed = {fields!r}")
    assert {name: record[name] for name in fields} == fields


@pytest.mark.parametrize(
    "fields",
    [
        {"rolled_back_to": {"checkpoint": "c1", "execution_count": 3}},
        {"state": "rolled_back"},
        {"not_restored": ["x"] * 33},
        {"not_restored": ["x" * 257]},
        {"not_restored": [1]},
        {"state_protection": {"level": "some", "execution_count": None, "reason": None}},
        {"changed": {"added": [VARIABLE] * 65, "changed": [], "deleted": [], "more": 0}},
        {"changed": {"added": [], "changed": [], "deleted": ["x"] * 65, "more": 0}},
        {"changed": {"added": [VARIABLE | {"more": 1}], "changed": [], "deleted": [], "more": 0}},
        {"changed": {"added": [VARIABLE | {"shape": ["x"]}], "changed": [], "deleted": [], "more": 0}},
        {"usage": {}},
        {"usage": {"cpu": "much", "peak_memory": 0}},
        {"usage": {"cpu": 0.0, "peak_memory": -1}},
        {"usage": {"cpu": 0.0, "peak_memory": 0, "more": 1}},
        {"displays": [{"data": {}, "metadata": {}, "display_id": None, "is_result": False, "more": 1}]},
        {"displays": [{"data": {}, "metadata": [], "display_id": None, "is_result": False}]},
        {"displays": [{"data": {b"text/plain": "x"}, "metadata": {}, "display_id": None, "is_result": False}]},
        {"displays": [{"data": {}, "metadata": {}, "display_id": 1, "is_result": False}]},
        {"displays": [{"data": {}, "metadata": {}, "display_id": None, "is_result": "yes"}]},
        {"displays": [{"data": {}, "metadata": {}, "display_id": None, "is_result": False}] * 257},
        {"branch": 7},
        {"run_id": "0" * 32},
    ],
)
def test_a_record_that_no_honest_supervisor_sends_ends_the_session(client, session, fields):
    record = client.run(session, f"guest.executed = {fields!r}")
    assert (record["status"], record["state"], record["error"]["name"]) == ("failed", "lost", "SandboxLost")
    assert record["not_restored"] == [] and record["changed"] is None
    assert record["state_protection"]["level"] == "none"


def test_a_display_that_no_honest_supervisor_sends_ends_the_session(client, session):
    record = client.run(session, "guest.peer.send('display', id, {'data': {}, 'more': 1})", stream=True)
    assert (record["status"], record["state"], record["error"]["name"]) == ("failed", "lost", "SandboxLost")


# Checkpoints


def test_a_checkpoint_and_back(client, session):
    taken = client("checkpoint", session=session, name="clean")
    assert taken["dropped"] == []
    assert taken["checkpoint"] == {
        "id": "c1", "name": "clean", "session": session, "execution_count": 0, "created": 1.5, "automatic": False,
        "files": False, "private_bytes": 4096, "parent": None,
    }  # fmt: skip
    assert client("checkpoints", session=session)["checkpoints"] == [taken["checkpoint"]]
    back = client("rollback", session=session, checkpoint="clean")
    assert back == {"checkpoint": "c1", "execution_count": 0, "epoch": 2, "files": "kept", "not_restored": []}
    assert rows(client)[session]["epoch"] == 2
    assert client("drop", session=session, checkpoint="c1") == {}
    assert refused(client, "drop", session=session, checkpoint="c1").name == "NoSuchCheckpoint"
    assert refused(client, "rollback", session=session, checkpoint="no such/name").name == "NoSuchCheckpoint"
    assert refused(client, "checkpoint", session=session, name="a/b").name == "BadRequest"


@pytest.mark.parametrize(
    "number, name", [(1106, "NoSuchCheckpoint"), (1108, "CheckpointFailed"), (1104, "Busy"), (1001, "BadRequest"),
                     (1204, "Internal"), (1002, "Internal"), (77, "Internal")]
)  # fmt: skip
def test_errors_of_the_supervisor_that_clients_know_are_passed_on(client, session, number, name):
    script(client, session, f"guest.replies['checkpoint'] = ({number}, 'why it was')")
    error = refused(client, "checkpoint", session=session)
    assert error.name == name and "why it was" in str(error)
    assert script(client, session, "result = 1") == 1


@pytest.mark.parametrize(
    "kind, reply, more",
    [
        ("checkpoint", {}, {}),
        ("checkpoint", {"checkpoint": CHECKPOINT | {"id": "../x"}, "dropped": []}, {}),
        ("checkpoint", {"checkpoint": CHECKPOINT | {"name": "a b"}, "dropped": []}, {}),
        ("checkpoint", {"checkpoint": CHECKPOINT | {"files": True}, "dropped": []}, {}),
        ("checkpoint", {"checkpoint": CHECKPOINT, "dropped": [".."]}, {}),
        ("checkpoint", {"checkpoint": CHECKPOINT, "dropped": [1]}, {}),
        ("checkpoints", {"checkpoints": [1]}, {}),
        ("checkpoints", {"checkpoints": [CHECKPOINT] * 65}, {}),
        ("rollback", {"checkpoint": "c1", "execution_count": 0, "epoch": -1, "not_restored": []}, {"checkpoint": "c1"}),
        ("branch", {"epoch": 1}, {"name": "b"}),
        ("namespace", {"names": [VARIABLE] * 1001, "more": 0}, {}),
        ("namespace", {"names": [VARIABLE | {"repr": 1}], "more": 0}, {}),
        ("namespace", {"names": [VARIABLE | {"name": "x" * 257}], "more": 0}, {}),
        ("reset", {"epoch": "1"}, {}),
    ],
)
def test_a_reply_that_no_honest_supervisor_sends_ends_the_session(client, session, kind, reply, more):
    script(client, session, f"guest.replies[{kind!r}] = {reply!r}")
    assert refused(client, kind, session=session, **more).name == "SessionClosed"
    assert refused(client, "run", session=session, code="", run_id="0" * 32).name == "NoSuchSession"


@pytest.mark.proves("security: forged answers")
def test_replies_nobody_asked_for_are_ignored(client, session, held):
    """Not even with number 0, which is that of everything that has not been sent."""
    call = held(
        "for id in (0, 12345):\n"
        "    guest.peer.send('reply', id, {'names': [], 'more': 7})\n"
        "    guest.peer.send('error', id, {'number': 1204, 'name': 'Internal', 'message': 'no'})"
    )
    order = client.ask("namespace", session=session)
    held.go(client)
    assert client.answer(call)["status"] == "ok"
    assert client.answer(order) == {"names": [], "more": 0}


def test_namespace_is_written_anew(client, session):
    names = [VARIABLE, VARIABLE | {"name": "a", "type": "numpy.ndarray", "shape": [3, 4], "dtype": "float64"}]
    script(client, session, f"guest.replies['namespace'] = {{'names': {names!r}, 'more': 3}}")
    assert client("namespace", session=session) == {"names": names, "more": 3}


# Branches


def test_a_branch_is_a_session_of_its_own(client, session):
    client.run(session, "pass")
    made = client("branch", session=session, name="b")
    branch = f"{session}/b"
    assert (made["session"], made["created"], made["options"]["checkpoint"]) == (branch, True, "auto")
    assert made["instance"] != client("open", session=session)["instance"]
    again = client("open", session=branch)
    assert (again["instance"], again["created"]) == (made["instance"], False)
    record = client.run(branch, "pass")
    assert (record["session"], record["execution_count"], record["epoch"]) == (branch, 2, 1)
    number = received(client, session, "execute")[1]["branch"]
    assert number != 0 and received(client, session, "branch") == [{"branch": number, "from": 0, "checkpoint": None}]
    row = rows(client)[branch]
    assert (row["status"], row["execution_count"], row["epoch"]) == ("idle", 2, 1)
    assert row["container"] == rows(client)[session]["container"]
    client("close", session=session)
    assert branch not in rows(client)


def test_names_of_branches(client, session):
    assert refused(client, "branch", session=session, name="a/b").name == "BadRequest"
    assert refused(client, "branch", session=session, name="b" * 65).name == "BadRequest"
    assert refused(client, "open", session=f"{session}/b").name == "NoSuchSession"
    client("branch", session=session, name="b")
    assert refused(client, "branch", session=session, name="b").name == "BranchExists"
    assert len(received(client, session, "branch")) == 1
    client("branch", session=f"{session}/b", name="c")
    assert f"{session}/b/c" in rows(client)
    assert refused(client, "run", session=f"{session}/b", instance="0" * 16, code="", run_id="1" * 32).name == (
        "NoSuchSession"
    )


def test_a_branch_that_cannot_be_made_leaves_nothing(client, session):
    script(client, session, "guest.replies['branch'] = (1106, 'not kept')")
    assert refused(client, "branch", session=session, name="b", checkpoint="c9").name == "NoSuchCheckpoint"
    assert f"{session}/b" not in rows(client)
    script(client, session, "guest.replies.clear()")
    client("branch", session=session, name="b")


def test_there_is_an_end_to_branches(client, session):
    for i in range(16):
        client("branch", session=session, name=f"b{i}")
    assert refused(client, "branch", session=session, name="one-more").name == "TooLarge"
    client("close", session=f"{session}/b3")
    client("branch", session=session, name="one-more")


def test_close_of_a_branch_ends_it_alone(client, session):
    client("branch", session=session, name="b")
    client("branch", session=session, name="c")
    assert client("close", session=f"{session}/b") == {}
    assert f"{session}/b" not in rows(client) and f"{session}/c" in rows(client)
    assert len(received(client, session, "close")) == 1
    assert refused(client, "close", session=f"{session}/b").name == "NoSuchSession"
    client("branch", session=session, name="b")


def test_commit_makes_a_branch_the_session(client, session):
    client("branch", session=session, name="b")
    client("branch", session=session, name="c")
    client.run(f"{session}/b", "pass")
    client.run(f"{session}/b", "pass")
    assert client("commit", session=session, branch="b") == {"execution_count": 2, "epoch": 2}
    assert f"{session}/b" not in rows(client)
    assert client("commit", session=session, branch=f"{session}/c") == {"execution_count": 2, "epoch": 3}
    commits = received(client, session, "commit")
    assert [body["branch"] for body in commits] == [0, 0] and commits[0]["from"] != commits[1]["from"]
    for branch in ("b", f"{session}/b", session, "..", "x" * 128):
        assert refused(client, "commit", session=session, branch=branch).name == "NoSuchSession"


def test_turns_are_in_the_order_asked_over_all_branches(client, session, held):
    """What waits on a branch that is committed ends with it."""
    client("branch", session=session, name="b")
    asked = [
        held("guest.order = [1]"),
        client.ask_run(f"{session}/b", "guest.order.append(2)"),
        client.ask("checkpoint", session=f"{session}/b"),
        client.ask_run(session, "guest.order.append(guest.received[-2][0])"),
        client.ask("commit", session=session, branch="b"),
        client.ask_run(f"{session}/b", "guest.order.append('never')"),
        client.ask_run(session, "guest.order.append(4)"),
    ]
    held.go(client)
    for id in asked[:5]:
        client.answer(id)
    with pytest.raises(Refused) as caught:
        client.answer(asked[5])
    assert caught.value.name == "SessionClosed"
    client.answer(asked[6])
    assert script(client, session, "result = guest.order") == [1, 2, "checkpoint", 4]


def test_a_reset_goes_before_what_waits(client, session, held):
    """And is sent at once when a call of its own session runs, which it ends."""
    client("branch", session=session, name="b")
    call = held("")
    waits = client.ask_run(session, "result = guest.received[-2][0]")
    of_branch = client.ask("reset", session=f"{session}/b")
    own = client.ask("reset", session=session)
    held.go(client)
    assert client.answer(call)["status"] == "ok"
    assert client.answer(own) == {"epoch": 2} and client.answer(of_branch) == {"epoch": 2}
    assert client.answer(waits)["result"] == '"reset"'


def test_close_answers_what_waits_for_a_silent_supervisor(client, session):
    client("branch", session=session, name="b")
    script(client, session, "guest.replies['namespace'] = guest.replies['branch'] = None")
    waiting = [
        client.ask("namespace", session=session),
        client.ask("checkpoint", session=f"{session}/b", files=True),
        client.ask("branch", session=f"{session}/b", name="c"),
        client.ask_run(f"{session}/b/c", "pass"),
        client.ask("branch", session=session, name="d"),
    ]
    assert client("interrupt", session=session) == {"interrupted": False}
    client("close", session=session)
    for id in waiting:
        with pytest.raises(Refused) as caught:
            client.answer(id)
        assert caught.value.name == "SessionClosed"


def test_a_branch_closed_before_it_is_made(client, session, held):
    call = held("")
    made = client.ask("branch", session=session, name="b")
    waits = client.ask_run(f"{session}/b", "pass")
    closed = client.ask("close", session=f"{session}/b")
    for id in (made, waits):
        with pytest.raises(Refused) as caught:
            client.answer(id)
        assert caught.value.name == "SessionClosed"
    held.go(client)
    assert client.answer(call)["status"] == "ok"
    assert client.answer(closed) == {}
    assert script(client, session, "result = len(guest.branches)") == 1


def test_close_of_a_branch_whose_call_runs(client, session, held):
    """The call ends as failed at once, and nothing else begins before the supervisor has closed the branch."""
    client("branch", session=session, name="b")
    stuck = held("", session=f"{session}/b")
    after = client.ask_run(session, "result = guest.received[-2][0]")
    closed = client.ask("close", session=f"{session}/b")
    record = client.answer(stuck)
    assert (record["status"], record["state"], record["session"]) == ("failed", "lost", f"{session}/b")
    held.go(client)
    assert client.answer(closed) == {}
    assert client.answer(after)["result"] == '"close"'


def test_a_full_queue_is_busy_for_orders_too(client, session, held):
    call = held("")
    waiting = [client.ask("namespace", session=session) for _ in range(64)]
    assert refused(client, "checkpoints", session=session).name == "Busy"
    assert refused(client, "branch", session=session, name="b").name == "Busy"
    assert f"{session}/b" not in rows(client)
    held.go(client)
    client.answer(call)
    for id in waiting:
        client.answer(id)


def test_a_place_is_written_to_when_what_was_there_is_removed(client, session):
    """That is answered with the question after it."""
    script(
        client,
        session,
        "asked = []\n"
        "def files(id, body):\n"
        "    asked.append(id)\n"
        "    if 'stat' in body:\n"
        "        for each in asked: guest.answer(each, (1002, 'no'))\n"
        "guest.replies = {'save': (1150, 'no'), 'files': files}",
    )
    assert refused(client, "sleep", session=session).name == "SaveFailed"
    again = client.ask("sleep", session=session)
    with pytest.raises(Refused):
        client("files", session=session, ask={"stat": {"path": b"x"}})
    with pytest.raises(Refused, match="no"):
        client.answer(again)
    kinds = script(client, session, "result = [kind for kind, _ in guest.received if kind != 'execute']")
    assert kinds[:4] == ["save", "files", "files", "save"]


def test_a_branch_that_the_supervisor_lost_is_closed(client, session):
    """And one that only the supervisor knows is dropped there."""
    client("branch", session=session, name="b")
    script(
        client,
        session,
        "del guest.branches[max(guest.branches)]; guest.branches[5] = {'epoch': 1, 'execution_count': 0}\n"
        "old = guest.peer\n"
        "def again(*message):\n    guest.connect()\n    old.close()\n"
        "old.send = again",
    )
    assert script(client, session, "result = sorted(guest.branches)") == [0]
    assert f"{session}/b" not in rows(client)
