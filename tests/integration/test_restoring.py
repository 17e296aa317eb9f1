"""A session that is being restored is its restorer's alone, and ends with that or with the controller; then it is whole."""

import contextlib

import limpet
import pytest

from .killed import host  # noqa: F401
from .pooled import CLAIMED, pool, settings  # noqa: F401
from .raw_peer import Client, Refused


PLACE = "/session/.limpet-saved-0"


@pytest.fixture
def connect(limpetd):
    """Makes connections."""
    with contextlib.ExitStack() as ends:
        yield lambda: ends.enter_context(contextlib.closing(Client(limpetd.socket)))


def start(peer, session):
    """Opens it to be restored, and gives it a variable."""
    opened = peer("open", session=session, restoring=True)
    assert opened["created"]
    assert peer.run(session, "x = 1")["status"] == "ok"
    return opened["instance"]


def finish(peer, session):
    """Its own variables, which are as good as another one's."""
    peer("save", session=session, path=PLACE)
    assert peer("load", session=session, path=PLACE, execution_count=7)["missing"] == []


def asked(peer, kind, **body):
    """An answer that does not come yet."""
    id = peer.ask(kind, **body)
    peer("sessions")  # requests are taken in order
    assert id not in peer.answers
    return id


def value(peer, session, code="x"):
    record = peer.run(session, code)
    return record.get("result") if record["status"] == "ok" else record["error"]["name"]


def test_others_wait_until_it_is_whole(connect, name):
    restorer, other = connect(), connect()
    instance = start(restorer, name)
    opening = asked(other, "open", session=name)
    attaching = asked(other, "open", session=name, attach=True)
    restoring = asked(other, "open", session=name, restoring=True)
    finish(restorer, name)
    for answer in map(other.answer, (opening, attaching)):
        assert (answer["created"], answer["instance"]) == (False, instance)
    with pytest.raises(Refused, match="is open; close it first") as refused:
        other.answer(restoring)
    assert refused.value.name == "SessionExists"
    restorer.close()
    assert value(other, name) == "1"
    other("close", session=name)


def test_others_wait_until_it_is_gone(connect, name):
    restorer, other, next = connect(), connect(), connect()
    instance = start(restorer, name)
    attaching = asked(other, "open", session=name, attach=True)
    restoring = asked(next, "open", session=name, restoring=True)
    opening = asked(other, "open", session=name)
    restorer.close()
    with pytest.raises(Refused) as refused:
        other.answer(attaching)
    assert refused.value.name == "NoSuchSession"
    answer = next.answer(restoring)
    assert answer["created"] and answer["instance"] != instance
    next.close()
    assert other.answer(opening)["created"]
    assert value(other, name) == "NameError"
    other("close", session=name)


def test_one_who_is_gone_before_his_turn_restores_nothing(connect, name):
    restorer, other, last = connect(), connect(), connect()
    start(restorer, name)
    asked(other, "open", session=name, restoring=True)
    other.close()
    opening = asked(last, "open", session=name)
    restorer.close()
    assert last.answer(opening)["created"]
    last("close", session=name)


def test_it_may_be_closed(connect, name):
    restorer, other = connect(), connect()
    start(restorer, name)
    other("close", session=name)
    with pytest.raises(Refused) as refused:
        restorer.run(name, "x")
    assert refused.value.name in ("NoSuchSession", "SessionClosed")
    assert other("open", session=name)["created"]
    other("close", session=name)


def test_no_time_of_idleness_ends_it(connect, name):
    restorer, other = connect(), connect()
    restorer("open", session=name, restoring=True, ttl=0.05, ttl_action="save")
    restorer.run(name, "import time; time.sleep(0.2)")
    finish(restorer, name)
    opening = other.ask("open", session=name)
    assert not other.answer(opening)["created"]
    other("close", session=name)


def test_only_sessions_of_their_own_are_restored(connect, name):
    peer = connect()
    for body in ({"session": f"{name}/branch"}, {"session": "no name"}):
        with pytest.raises(Refused) as refused:
            peer("open", restoring=True, **body)
        assert refused.value.name == "BadRequest"


def killed_while_restored(host, name):
    with contextlib.closing(Client(host.limpetd.socket)) as peer:
        start(peer, name)
        host.again()
    assert [row.status for row in host.client.sessions()] in ([], ["closing"])
    with host.client.open(name) as session:
        assert session.run("x").error.name == "NameError"


@pytest.mark.engine
def test_the_next_controller_does_not_take_it_over(host, name):
    killed_while_restored(host, name)


def test_a_spare_that_is_restored_is_not_taken_over_either(pool, name):
    pool.ready()
    with contextlib.closing(Client(pool.limpetd.socket)) as peer:
        start(peer, name)
        assert value(peer, name, CLAIMED) == "True"
    killed_while_restored(pool, name)


@pytest.mark.engine
def test_the_next_controller_has_what_is_whole(host, name):
    with contextlib.closing(Client(host.limpetd.socket)) as peer:
        start(peer, name)
        finish(peer, name)
        host.again()
    with host.client.attach(name) as session:
        assert session.run("x").result == "1"


def test_a_client_says_that_nothing_is_left(host, name, tmp_path):
    path = str(tmp_path / "conv.limpet")
    with host.client.open(name) as session:
        session.run("x = 1")
        session.save(path)

    def unpacked(session):
        host.again()

    with pytest.raises(limpet.RestoreFailed, match="could not be restored"):
        host.client._restored(path, name, None, {}, unpacked)
    with host.client.open(name, restore=path) as session:
        assert session.run("x").result == "1"
