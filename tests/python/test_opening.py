"""How a session is come by, and who ends it."""

import re

import limpet
import pytest

from . import both


@pytest.fixture(params=both.KINDS)
def client(request, controller):
    with both.client(request.param, controller.path) as client:
        yield client


def test_attach_makes_none(client, controller):
    session = client.attach("a/b")
    assert controller.bodies("open") == [{"session": "a/b", "attach": True}]
    assert (session.name, session.created) == ("a/b", False)
    assert session.run("1").ok
    controller.on("open", lambda request: request.fail(1101, "NoSuchSession", "no session named 'b' is open"))
    with pytest.raises(limpet.NoSuchSession, match="named 'b'"):
        client.attach("b")


def test_open_makes_a_name_up(client, controller):
    one, two = client.open(), client.open(memory="64m")
    assert one.name != two.name and one.created
    assert all(re.fullmatch(r"session-[0-9a-f]{12}", session.name) for session in (one, two))
    assert controller.bodies("open")[1] == {"session": two.name, "memory": "64m", "ttl_action": "close"}


def test_a_name_of_its_own_is_its_own_whatever_was_lost(client, controller):
    """The controller has made it, its reply was lost, and it was asked again."""
    opened = dict(instance="i", created=False, engine="local", options={})
    controller.on("open", lambda request: request.reply(session=request.body["session"], **opened))
    assert client.open().created and not client.open("a").created


def test_with_ends_what_it_made(client, controller):
    with client.open("a") as session:
        with session.branch("b"):
            pass
        assert controller.bodies("close") == [{"session": "a/b", "instance": "i-b"}]
    assert controller.bodies("close")[1:] == [{"session": "a", "instance": "i1"}]


def test_with_leaves_what_was_there(client, controller):
    with client.attach("a") as session:
        pass
    assert controller.bodies("close") == [] and session.run("1").ok
    session.close()
    assert len(controller.bodies("close")) == 1


def test_close_by_name(client, controller):
    client.close_session("a")
    assert controller.bodies("close") == [{"session": "a"}] and controller.bodies("open") == []
    controller.on("close", lambda request: request.fail(1101, "NoSuchSession", "none"))
    with pytest.raises(limpet.NoSuchSession):
        client.close_session("a")
