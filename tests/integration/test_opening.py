"""How a session is come by, and who ends it, with a real controller."""

import limpet
import pytest


def names(client):
    return [row.session for row in client.sessions()]


def test_attach_finds_what_is_open_and_makes_none(limpetd, client, name):
    with pytest.raises(limpet.NoSuchSession, match=f"no session named '{name}'"):
        client.attach(name)
    assert name not in names(client)
    with client.open(name, memory="128m") as session:
        session.run("x = 41")
        branch = session.branch("b")
        with limpetd.client() as other:
            with other.attach(name) as attached:
                assert (attached.created, attached.instance, attached.options) == (False, session.instance, session.options)
                assert attached.run("x + 1").result == "42"
            assert other.attach(f"{name}/b").instance == branch.instance
        assert session.run("x").result == "41", "the other's `with` has not ended it"
    with pytest.raises(limpet.NoSuchSession):
        client.attach(name)
    with pytest.raises(limpet.NoSuchSession):
        client.attach("no / name")


def test_with_ends_only_what_it_made(client, name):
    first = client.open(name)
    assert first.created
    with client.open(name) as second:
        assert not second.created
    assert name in names(client)
    client.close_session(name)
    assert name not in names(client)
    with pytest.raises(limpet.NoSuchSession):
        client.close_session(name)


def test_a_name_is_made_up(client):
    with client.open() as session:
        assert session.name in names(client) and session.run("1").session == session.name
    assert session.name not in names(client)
