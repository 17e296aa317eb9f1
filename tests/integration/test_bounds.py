"""Requests that are larger, or more, than anybody needs: they are refused, and nobody else notices. The guest is a script."""

import os

import pytest

from .killed import wait_for
from .raw_peer import Client, Refused
from .scripted import client, controller, files, held, received, refused, script, session, write

__all__ = ["client", "controller", "files", "held", "session"]

MIB = 1 << 20
EVERY_OPTION = {
    "timeout": 7.5, "memory": 96 << 20, "cpus": 0.5, "pids": 77, "disk": 5 << 20, "files": 4321, "data": os.getcwd(),
    "env": {"A": "b"}, "ttl": 12.5, "ttl_action": "close", "network": "bridge", "allow": ["example.org:443"],
    "bindings": {"b": {"url": "https://example.org"}}, "image": "other", "checkpoint": "off", "packages": "six",
    "pip": "allow", "build": "allow", "template": "none-such",
}  # fmt: skip

UNKNOWN_BRANCHES = "guest.branches.update({number: {'epoch': 1, 'execution_count': 0} for number in range(100, 115)})\n"


def test_every_option_may_differ(client, session):
    try:
        client("open", session=session, **EVERY_OPTION)
    except Refused as refused:
        assert refused.name == "OptionsDiffer"
        assert all(name in str(refused) for name in EVERY_OPTION)
    assert client.run(session, "result = 1")["result"] == "1"


def test_a_branch_that_nobody_knows_is_closed_once(client, session):
    """However often its supervisor connects, and tells of it again, before it is asked."""
    script(client, session, UNKNOWN_BRANCHES + "for _ in range(10): guest.connect()")
    assert len(received(client, session, "close")) == 15


def test_rules_that_cannot_take_effect_are_not_the_session_s(client, session):
    link = script(client, session, "result = guest.link")
    os.mkdir(os.path.join(link, "egress"))
    assert "cannot take effect" in str(refused(client, "set_network", session=session, allow=["example.org:443"]))
    assert client("open", session=session)["options"]["allow"] == []


def refusal_of_id(client, id):
    try:
        client.answer(id)
    except Refused as refused:
        return refused.name
    return None


def refusal_of(client, kind, **body):
    return refusal_of_id(client, client.ask(kind, **body))


def test_a_history_is_read_from_where_an_entry_begins(client, session):
    client.run(session, "result = 1")
    client.run(session, "result = 2")
    page = client("export", session=session)
    assert len(page["history"]) == 2
    refusals = [refusal_of(client, "export", session=session, next=next) for next in range(1, page["next"])]
    assert set(refusals) == {None, "BadRequest"}


@pytest.mark.parametrize("what", [{"env": {"A": "x" * 8_388_400}}, {"argv": ["true"] + ["x" * 100_000] * 83}])
def test_a_program_larger_than_any_supervisor_takes_is_refused(client, session, what):
    what = {"command": "true"} | what if "env" in what else what
    for kind in ("exec", "start"):
        assert refused(client, kind, session=session, run_id=os.urandom(16).hex(), **what).name == "TooLarge"
    assert client.run(session, "result = 1")["result"] == "1"


def test_an_environment_larger_than_any_supervisor_takes_is_refused(client, name):
    assert refused(client, "open", session=name, env={"A": "x" * (2 << 20)}).name == "TooLarge"


def test_requests_without_an_answer_have_a_sum(controller, client, session, files, held):
    """Those over it are refused; who goes takes with it what waited."""
    call = held("result = 'done'")
    other = Client(controller.socket)
    run_id = os.urandom(16).hex()
    waits = client.ask("run", session=session, code="pass", run_id=run_id)
    asked = [other.ask("result", run_id=run_id) for _ in range(8300)]
    with pytest.raises(Refused) as refused:
        other.answer(asked[-1])
    assert refused.value.name == "LimitReached"
    other.close()
    wait_for(lambda: refusal_of(client, "sessions") is None)
    write(files, "go", "")
    assert [client.answer(id)["status"] for id in (call, waits)] == ["ok", "ok"]


def test_what_connections_hold_has_a_sum(controller, client, session):
    """Messages that never end, each of the largest size there may be."""
    begun = b"\2" + (8 << 20).to_bytes(8, "big") + b"x" * (8_300_000)
    others = [Client(controller.socket) for _ in range(40)]
    ended = 0
    for other in others:
        try:
            other.socket.sendall(begun)
        except OSError:
            ended += 1
    assert ended > 0
    assert client.run(session, "result = 1")["result"] == "1"
    for other in others:
        other.close()


def test_what_a_client_does_not_read_is_not_fetched(controller, client, session, files):
    """Nor is it dropped for it: it reads all of it in the end."""
    write(files, "large", "x" * MIB)
    piece = {"session": session, "path": "large", "offset": 0, "size": MIB}
    slow, gone = Client(controller.socket), Client(controller.socket)
    asked = [(slow.ask("get", **piece), gone.ask("get", **piece)) for _ in range(150)]
    gone.close()
    assert len(client("get", **piece)["data"]) == MIB  # which waits for none of them
    write(files, "large", "y" * MIB)
    answers = [slow.answer(id)["data"] for id, _ in asked]
    assert all(len(data) == MIB for data in answers)
    assert sum(data.startswith(b"x") for data in answers) <= 3
    slow.close()


def test_resets_are_not_queued_without_end(client, session, files, held):
    call = held("pass")
    asked = [client.ask("reset", session=session) for _ in range(200)]
    assert refusal_of_id(client, asked[-1]) == "Busy"
    write(files, "go", "")
    assert client.answer(call)["status"] == "ok"
    assert refusal_of_id(client, asked[0]) is None


def uploads(files):
    return [name for name in os.listdir(os.path.join(files, ".limpet")) if name.startswith("put-")]


def test_what_a_client_has_not_put_whole_goes_with_it(controller, client, session, files):
    others = [Client(controller.socket) for _ in range(2)]
    for other in others:
        for path in ("a", "b" * 200 + "\u00e9" * 20, "c/d"):
            other("put", session=session, path=path, offset=0, data=b"x" * 1000, last=False)
    assert len(uploads(files)) == 6
    others[0].close()
    wait_for(lambda: len(uploads(files)) == 3)
    others[1]("put", session=session, path="a", offset=1000, data=b"y", last=True)
    others[1].close()
    wait_for(lambda: not uploads(files))
    assert os.path.getsize(os.path.join(files, "a")) == 1001
