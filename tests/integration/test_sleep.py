"""Sessions that a client puts to sleep."""

import os

import limpet
import pytest

from .killed import Asking, go, host, supervisors, wait_for  # noqa: F401
from .test_idle import PLACE, idle, row, times_woken  # noqa: F401

EVERYTHING = """
import sqlite3, threading
squares = (n * n for n in range(100)); next(squares)
database = sqlite3.connect(":memory:"); database.execute("create table t as select 41 as x")
lock, file = threading.Lock(), open("/session/file", "w+")
lock.acquire(); file.write("0123456789"); file.flush(); file.seek(4)
"""
IS_THERE = "next(squares), database.execute('select x from t').fetchone(), lock.locked(), file.read()"


@pytest.mark.engine
@pytest.mark.docker
def test_it_sleeps_at_once_and_wakes_with_everything(host, idle):
    session = idle(ttl=600)
    session.run(host.code(EVERYTHING)).check()
    session.sleep()
    found = row(host.client, session)
    assert (found.status, found.memory, found.container) == ("saved", 0, None)
    wait_for(lambda: supervisors(host.files(session.name)) == [])
    session.sleep()  # it sleeps already
    assert row(host.client, session).status == "saved"
    result = session.run(IS_THERE)
    assert (result.result, result.state, result.restored) == ("(1, (41,), True, '456789')", "kept", [])
    assert (result.execution_count, result.epoch) == (2, 1)


@pytest.mark.engine
@pytest.mark.docker
def test_large_memory_is_mapped_again_and_again(host, idle):
    if not host.limpetd.isolates:
        pytest.skip("the engine local keeps no memory in a file")
    session = idle(ttl=600)
    session.run("data, n = bytearray(range(256)) * (100 << 10), 0").check()
    for turn in range(1, 4):
        session.sleep()
        result = session.run("n += 1; data[n] = 7; n, data.count(7) - (100 << 10), 'limpet-saved-idle' in open('/proc/self/maps').read()")
        assert (result.result, result.state, result.restored) == (f"({turn}, {turn}, True)", "kept", [])


def test_it_waits_for_the_call_that_runs(host, idle):
    session = idle(ttl=600)
    call = Asking(session.run, host.code("import os, time\nwhile not os.path.exists('/session/go'): time.sleep(0.01)\nn = 41"))
    wait_for(lambda: row(host.client, session).status == "running")
    asleep = Asking(session.sleep)
    go(host, session.name)
    assert call.result().ok
    assert asleep.result() is None
    assert row(host.client, session).status == "saved"
    assert session.run("n").result == "41"


def test_one_without_a_name_sleeps_too(host):
    with host.client.open() as session:
        session.run("n = 41")
        session.sleep()
        assert row(host.client, session).status == "saved"
        assert session.run("n").result == "41"


@pytest.mark.engine
def test_one_in_which_a_program_runs_stays_awake(host, idle):
    session = idle(ttl=600)
    session.run("n = 41")
    session.start("sleep 600")
    with pytest.raises(limpet.Busy):
        session.sleep()
    assert row(host.client, session).status == "idle"
    before = times_woken(host)
    assert session.run("n").result == "41"
    assert times_woken(host) == before


def test_one_with_branches_stays_awake(host, idle):
    session = idle(ttl=600)
    branch = session.branch("try")
    with pytest.raises(limpet.Busy, match="branches or contexts"):
        session.sleep()
    with pytest.raises(limpet.BadRequest, match="shares its container"):
        branch.sleep()
    branch.close()
    session.sleep()
    assert row(host.client, session).status == "saved"


def test_one_that_cannot_be_saved_stays_awake(host, idle):
    session = idle(ttl=600)
    session.run("class Deadly:\n    def __reduce__(self):\n        import os; os.kill(os.getpid(), 9)\ndeadly, n = Deadly(), 41")
    with pytest.raises(limpet.SaveFailed, match="deadly"):
        session.sleep()
    assert row(host.client, session).status == "idle"
    assert session.run("n").result == "41"
    wait_for(lambda: not os.path.exists(host.files(session.name, PLACE)))
