"""Whoever asks for a session that ended by itself is told that, when and why."""

import os
import re
import signal

import limpet
import pytest

from .killed import Asking, host, supervisor, wait_for  # noqa: F401

ENDED = re.compile(r"the session '(.+)' ended at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: (.*); its variables are gone")


def told(session):
    """The name and the reason."""
    with pytest.raises(limpet.NoSuchSession) as caught:
        session.run("1")
    return ENDED.match(str(caught.value)).groups()


def gone(client, name):
    wait_for(lambda: name not in [row.session for row in client.sessions()])


def end(host, session):
    os.kill(supervisor(host, session.name), signal.SIGKILL)
    gone(host.client, session.name)


def test_one_that_was_idle(client, name):
    session = client.open(name, ttl=0.2, ttl_action="close")
    gone(client, name)
    assert told(session) == (name, "it was idle for its ttl")
    with pytest.raises(limpet.NoSuchSession, match="ended at"):
        session.namespace()


def test_one_whose_container_is_gone(host):
    session = host.client.open("a")
    branch = session.branch("b")
    running = Asking(session.run, "import time; time.sleep(600)")
    wait_for(lambda: [row.status for row in host.client.sessions() if row.session == "a"] == ["running"])
    end(host, session)
    assert running.result().status == "failed"
    for each in session, branch:
        ended, why = told(each)
        assert ended == each.name and why.startswith("its container is gone: ")
    with pytest.raises(limpet.NoSuchSession, match="ended at .*`branch`"):
        host.client.open("a/b")


def test_a_new_one_of_that_name(host):
    """Takes no notice of it; and what a client closes has not ended by itself."""
    first = host.client.open("a")
    end(host, first)
    with host.client.open("a") as second:
        attached = host.client.open("a")
        assert second.run("6 * 7").result == "42"
        with pytest.raises(limpet.NoSuchSession, match="another session of that name .* yours ended at .*its container is gone"):
            first.run("1")
    with pytest.raises(limpet.NoSuchSession, match="no session named 'a' is open"):
        attached.run("1")


def test_one_that_a_client_closed(client, name):
    session, attached = client.open(name), client.open(name)
    branch = session.branch("b")
    session.close()
    for each in attached, branch:
        with pytest.raises(limpet.NoSuchSession, match=f"no session named '{each.name}' is open"):
            each.run("1")


def test_another_controller_knows_it(host):
    session = host.client.open("a")
    end(host, session)
    for _ in range(2):
        host.again()
        assert told(session)[1].startswith("its container is gone: ")


def test_one_that_ended_while_no_controller_was_there(host):
    session = host.client.open("a")
    process = supervisor(host, "a")
    host.limpetd.kill()
    os.kill(process, signal.SIGKILL)
    host.limpetd.start()
    gone(host.client, "a")
    assert told(session)[0] == "a"


def test_its_results_are_there_for_their_time(host):
    """To the controllers after it too, whatever else is found among them."""
    with host.client.open("old") as old, host.client.open("new") as new:
        runs = [session.run("6 * 7").run_id for session in (old, new)]
    ended = host.path("ended")
    os.utime(os.path.join(ended, old.instance), (1e9, 1e9))
    for name in ("00000000000000aa.new", "00000000000000bb"):
        with open(os.path.join(ended, name), "w") as file:
            file.write("garbage")
    for _ in range(2):
        host.again()
        assert host.client.result(runs[1]).result == "42"
        with pytest.raises(limpet.NoSuchRun):
            host.client.result(runs[0])
        assert set(os.listdir(ended)) == {new.instance, "00000000000000bb"}
