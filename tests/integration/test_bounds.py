"""Requests that are larger, or more, than anybody needs: they are refused, and nobody else notices. The guest is a script."""

import os

import pytest

from .raw_peer import Refused
from .scripted import client, controller, received, refused, script, session

__all__ = ["client", "controller", "session"]

EVERY_OPTION = {
    "timeout": 7.5, "memory": 96 << 20, "cpus": 0.5, "pids": 77, "disk": 5 << 20, "files": 4321, "data": os.getcwd(),
    "env": {"A": "b"}, "ttl": 12.5, "ttl_action": "save", "network": "bridge", "allow": ["example.org:443"],
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


def refusal_of(client, kind, **body):
    try:
        client(kind, **body)
    except Refused as refused:
        return refused.name
    return None


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
