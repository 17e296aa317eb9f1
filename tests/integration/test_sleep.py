"""Sessions that a client puts to sleep."""

import os
import signal

import limpet
import pytest

from .killed import Asking, children, go, host, number_inside, supervisor, supervisors, wait_for  # noqa: F401
from .test_idle import PLACE, SHARED, SLOW, idle, row, times_woken, wait_gone  # noqa: F401

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
        wait_gone(host, session)
        result = session.run("n += 1; data[n] = 7; n, data.count(7) - (100 << 10), 'limpet-saved-idle' in open('/proc/self/maps').read()")
        assert (result.result, result.state, result.restored) == (f"({turn}, {turn}, True)", "kept", [])


@pytest.mark.engine
def test_pages_of_a_file_that_were_set_to_zero_stay_zero(host, idle):
    session = idle(ttl=600)
    code = "import mmap\nwith open('/session/file', 'wb+') as file:\n    file.write(b'x' * 16384); file.flush()\n"
    code += "    copy = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)\ncopy[4096:8192] = bytes(4096)"
    session.run(host.code(code)).check()
    session.sleep()
    wait_gone(host, session)
    result = session.run("bytes(copy).count(0), bytes(copy).count(b'x')")
    assert (result.result, result.state) == ("(4096, 12288)", "kept")


@pytest.mark.engine
def test_what_an_earlier_attempt_left_is_no_hindrance(host, idle):
    session = idle(ttl=600)
    session.run(host.code(f"import os\nos.mkdir('/session/{PLACE}')\nopen('/session/{PLACE}/variables.json', 'w').close()")).check()
    session.run("numbers = (n for n in range(9)); next(numbers)").check()
    session.sleep()
    wait_gone(host, session)
    assert os.path.getsize(host.files(session.name, PLACE, "variables.json"))
    result = session.run("next(numbers)")
    assert (result.result, result.state, result.restored) == ("1", "kept", [])


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


DEADLY = "class Deadly:\n    def __reduce__(self):\n        import os; os.kill(os.getpid(), 9)\ndeadly, n = Deadly(), 41"


@pytest.mark.parametrize("memory", (True, False))
def test_what_ends_its_pickling_comes_with_the_memory_alone(host, idle, memory):
    session = idle(ttl=600)
    session.run(DEADLY)
    session.sleep()
    wait_gone(host, session)
    if not memory:
        os.unlink(host.files(session.name, PLACE, "memory"))
    result = session.run("n, 'deadly' in globals()")
    assert (result.result, result.state) == (f"(41, {memory})", "kept")
    assert result.restored == ([] if memory else ["deadly: it was not saved: its pickling was killed, as there was not enough memory for it"])


def test_one_that_cannot_be_saved_stays_awake(host, idle):
    session = idle(ttl=600)
    session.run(SHARED + DEADLY).check()
    with pytest.raises(limpet.SaveFailed, match="deadly"):
        session.sleep()
    assert row(host.client, session).status == "idle"
    assert session.run("n").result == "41"
    wait_for(lambda: not os.path.exists(host.files(session.name, PLACE)))


def test_one_whose_interpreter_is_lost_over_it_can_sleep_later(host, idle):
    session = idle(ttl=600, checkpoint="always")
    session.run(host.code(SHARED + SLOW)).check()
    pid = session.run("os.getpid()").result
    sleeping = Asking(session.sleep)
    wait_for(lambda: os.path.exists(host.files(session.name, PLACE, "variables")))
    session.exec(["kill", "-9", pid])
    with pytest.raises(limpet.SaveFailed, match="the interpreter was lost while its variables were saved; the next call says"):
        sleeping.result()
    go(host, session.name)
    session.sleep()
    result = session.run("n")
    assert (result.result, result.state, result.epoch) == ("41", "rolled_back", 2)


def sleep_after_kill(session):
    """Where the end of its interpreter was not seen yet it stays awake, and says so."""
    while True:
        try:
            return session.sleep()
        except limpet.SaveFailed as error:
            assert "the interpreter was lost" in str(error)


@pytest.mark.parametrize("mode, state, left", [("always", "rolled_back", "41"), ("off", "lost", "0")])
def test_what_became_of_the_variables_before_is_told_after_it(host, idle, mode, state, left):
    session = idle(ttl=600, checkpoint=mode)
    session.run("n = 41")
    session.exec(["kill", "-9", session.run("import os; os.getpid()").result])
    sleep_after_kill(session)
    host.again()
    result = session.run("globals().get('n', 0)")
    assert (result.status, result.state, result.epoch) == ("ok", state, 2)
    assert (result.result, result.restored) == (left, [])
    assert session.run("globals().get('n', 0)").state == "kept"


def test_nothing_is_lost_with_an_interpreter_that_ends_before_there_is_a_copy(host, idle):
    session = idle(ttl=600, checkpoint="always")
    inside = session.run("import os\nsquares = (n * n for n in range(9)); next(squares)\nos.getpid()").result
    session.run("next(squares)").check()
    assert session.exec(["kill", "-STOP", inside]).ok
    sleeping = Asking(session.sleep)
    wait_for(lambda: os.path.exists(host.files(session.name, PLACE)))
    [interpreter] = [pid for pid in children(supervisor(host, session.name)) if number_inside(pid) == [inside]]
    os.kill(int(interpreter), signal.SIGKILL)
    sleeping.result()
    wait_gone(host, session)
    result = session.run("next(squares)")
    assert (result.result, result.state, result.restored) == ("1", "rolled_back", [])


def test_what_was_written_before_is_told_after_it(host, idle):
    session = idle(ttl=600)
    late = "import threading\ndef late():\n    go.wait(); print('late', flush=True); open('/session/said', 'w').close()\n"
    session.run(host.code(f"{late}go = threading.Event(); threading.Thread(target=late).start()"))
    session.run("threading.Timer(0.1, go.set).start()")
    wait_for(lambda: os.path.exists(host.files(session.name, "said")))
    session.sleep()
    result = session.run("1")
    assert (result.stdout, result.between.stdout, result.between.dropped) == ("", "late\n", 0)


def test_what_could_not_come_is_told_though_it_slept_again(host, idle):
    session = idle(ttl=600)
    session.run("import threading\nn, lock = 41, threading.Lock()")
    session.sleep()
    wait_gone(host, session)
    os.unlink(host.files(session.name, PLACE, "memory"))
    host.client.attach(session.name)  # wakes it, and calls nothing
    session.sleep()
    result = session.run("n")
    assert (result.result, result.state) == ("41", "kept")
    assert [note.partition(":")[0] for note in result.restored] == ["lock"]


def test_a_rollback_after_it_tells_the_call_before(host, idle):
    """Also where no checkpoint is kept."""
    session = idle(ttl=600, checkpoint="off")
    session.run("n = 41")
    session.sleep()
    wait_gone(host, session)
    result = session.run("n = 0\n1 / 0", on_error="rollback")
    assert (result.state, result.rolled_back_to.execution_count) == ("rolled_back", 1)
    assert session.run("n").result == "41"


def test_what_could_not_come_is_told_by_a_branch_that_took_its_place(host, idle):
    session = idle(ttl=600)
    session.run("import threading\nn, lock = 41, threading.Lock()")
    session.sleep()
    wait_gone(host, session)
    os.unlink(host.files(session.name, PLACE, "memory"))
    session.commit(session.branch("try"))
    assert [note.partition(":")[0] for note in session.run("n").restored] == ["lock"]
