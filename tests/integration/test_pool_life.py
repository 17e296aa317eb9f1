"""How spares are born, replaced and ended; and what is left of them when the controller dies, at any moment."""

import contextlib
import os
import signal
import time

import limpet
import pytest

from tests.support.limpetd import NotStarted

from .killed import wait_for
from .pooled import CLAIMED, IMPORTS, Pool, pool, settings  # noqa: F401
from .scripted import GUEST

pytestmark = pytest.mark.engine


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:  # no such process any more
        return False


@pytest.mark.docker
def test_one_that_is_killed_is_never_handed_out(pool):
    for n in range(3):
        killed = pool.supervisors().values()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        with pool.client.open(f"a{n}") as session:
            assert session.run("6 * 7").result == "42"
        wait_for(lambda: not any(map(is_running, killed)) and pool.controller()["spares"] > 0)


def test_a_controller_that_is_killed_leaves_spares_to_nobody(pool):
    with pool.client.open("a") as session:
        session.run("x = 41")
        pool.ready()
        before = pool.supervisors()
        assert len(before) == 2
        pool.again()
        pool.ready()
        assert session.run("x + 1").result == "42"
        wait_for(lambda: len(set(before) & set(pool.spare_directories())) == 1)
        [kept] = set(before) & set(pool.spare_directories())
        wait_for(lambda: [pid for pid in before.values() if is_running(pid)] == [before[kept]])
        with pool.client.open("b") as other:
            assert pool.was_claimed(other)
            pool.again(2)
            assert (session.run("x").result, other.run(CLAIMED).result) == ("41", "True")
            assert session.run("open('artifacts/f', 'w').write('1')").artifacts == {
                "/session/artifacts/f": pool.path("sessions", "a", "artifacts", "f")
            }
            pool.again()
            assert session.run("1").artifacts == {}
            pool.ready()


def test_a_claimed_session_opens_to_nobody_as_new_again(pool):
    assert pool.raw("open", session="a")["created"] is True
    pool.again()
    pool.raw = None
    pool.ready()
    assert pool.raw("open", session="a")["created"] is False
    pool.client.open("a").close()


def test_killed_around_a_claim(pool):
    """Whatever was promised is kept, and nothing is there twice."""
    for n in range(0, 6, 2):
        opening = pool.asking(pool.client.open, f"a{n}")
        time.sleep(n / 2000)
        pool.again()
        with contextlib.closing(opening.result()) as session:  # whoever asks twice is not told that it made it
            assert session.run("6 * 7").result == "42"
            assert [row.session for row in pool.client.sessions()] == [f"a{n}"]
            pool.ready()
            claimed = pool.was_claimed(session)
            wait_for(lambda: len(pool.supervisors()) == 1 + claimed)


def test_a_claim_that_is_not_written_whole_never_was(pool):
    """Nobody was told of it: its container goes, and its name is free."""
    [directory] = pool.spare_directories()
    session = pool.client.open("a")
    pool.limpetd.kill()
    journal = pool.path("journals", f"{os.path.basename(directory)}.journal")
    os.truncate(journal, os.path.getsize(journal) - 3)
    pool.limpetd.start()
    with pytest.raises(limpet.NoSuchSession):
        session.run("1")
    wait_for(lambda: directory not in pool.spare_directories())
    with pool.client.open("a") as again:
        assert again.run("6 * 7").result == "42"


def test_killed_while_a_spare_is_born(pool):
    for n in range(3):
        known = set(pool.spare_directories())
        pool.client.open("a").close()
        wait_for(lambda: set(pool.spare_directories()) - known)
        time.sleep(n / 50)
        pool.again()
        pool.ready()
        wait_for(lambda: len(pool.spare_directories()) == 1)


def test_killed_around_a_call_in_a_container_of_its_own(pool):
    pool.client.run("1")
    pool.ready(2)
    for n in range(0, 4, 2):
        running = pool.asking(pool.client.run, "6 * 7")
        time.sleep(n / 2000)
        pool.again()
        assert running.result().result == "42"
        wait_for(lambda: not pool.client.sessions())
        pool.client.run("1")
        pool.ready(2)
    wait_for(lambda: len(pool.spare_directories()) == 2)
    wait_for(lambda: not os.path.isdir(pool.path("outputs")) or os.listdir(pool.path("outputs")) == [])


def test_shutdown_that_keeps_sessions_keeps_no_spare(pool):
    session = pool.client.open("a")
    session.run("x = 1")
    pool.ready()
    pool.raw("shutdown", keep=True)
    pool.limpetd.process.wait()
    assert len(pool.spare_directories()) == 1
    pool.limpetd.start()
    assert session.run("x").result == "1"
    session.close()


def test_none_where_none_are_wanted(own_limpetd, settings):
    settings(pool=0)
    pool = Pool(own_limpetd.start())
    with pool.client.open("a") as session:
        assert not pool.was_claimed(session)
    assert pool.controller()["spares"] == 0 and pool.spare_directories() == []
    assert own_limpetd.stop() == 0


def test_modules_that_are_not_there_are_done_without(own_limpetd, settings):
    settings(imports=f"{IMPORTS}, no_such_module")
    pool = Pool(own_limpetd.start())
    pool.ready()
    with pool.client.open("a") as session:
        assert pool.was_claimed(session)
        pool.ready()
    assert own_limpetd.said().count("module=no_such_module") == 1
    assert own_limpetd.stop() == 0


def test_names_that_are_no_modules_are_refused(own_limpetd, settings):
    settings(imports="os; print(1)")
    with pytest.raises(NotStarted, match="not a module name"):
        own_limpetd.start()


@pytest.fixture
def local(own_limpetd):
    if own_limpetd.isolates:
        pytest.skip("the guest of a container is in its image")
    return own_limpetd


def births(limpetd):
    return limpetd.said().count("closing session=~")


def test_one_that_fails_is_tried_again_with_pauses_and_said_once(local, settings):
    settings(guest="/bin/false", log_level="debug")
    pool = Pool(local.start())
    wait_for(lambda: births(local) >= 3)
    with pytest.raises(limpet.Error):
        pool.client.open("a")
    assert local.said().count("spare container failed") == 1
    assert local.stop() == 0


@pytest.mark.parametrize("said", ["{'failed': 7}", "{'failed': [7]}", "{'failed': ['x'] * 100}", "{}", "{'failed': [], 'more': 1}"])
def test_one_that_makes_no_sense_is_ended(local, settings, tmp_path, said):
    with open(GUEST, encoding="utf-8") as file:
        text = file.read()
    changed = text.replace('{"failed": []}', said).replace("os.path.abspath(__file__)", repr(GUEST))
    assert said in changed and repr(GUEST) in changed
    guest = tmp_path / "guest"
    guest.write_text(changed)
    guest.chmod(0o755)
    settings(guest=guest, log_level="debug")
    pool = Pool(local.start())
    wait_for(lambda: births(local) >= 2)
    assert pool.controller()["spares"] == 0
    with pool.client.open("a") as session:  # which imports nothing, and so says nothing of it
        assert session.name == "a"
    assert local.stop() == 0


@pytest.fixture
def runtime(own_limpetd, settings, tmp_path):
    """Puts a program of that text in the place of runc. In it, {name} is a path, which is returned."""
    if own_limpetd.engine != "oci":
        pytest.skip("another runtime is put in the place of runc")

    def put(text, *names):
        paths = {name: tmp_path / name for name in names}
        program = tmp_path / "runtime"
        program.write_text(text.format(**paths))
        program.chmod(0o755)
        settings(oci_runtime=program)
        return paths.values()

    return put


# Once the file is there it refuses a container while another runs, as a host does that has room for one.
RUNTIME = """#!/bin/sh
for argument; do
    [ "$previous" = --root ] && root=$argument
    previous=$argument
done
case " $* " in
*" run "*) [ -e {full} ] && [ -n "$(ls "$root")" ] && exit 1 ;;
esac
exec runc "$@"
"""


def test_spares_give_way(own_limpetd, runtime):
    [full] = runtime(RUNTIME, "full")
    pool = Pool(own_limpetd.start())
    pool.ready()
    full.touch()
    with pool.client.open("a", memory="700m") as session:
        assert session.run("6 * 7").result == "42"
        assert pool.controller()["spares"] == 0 and pool.spare_directories() == []
        with pytest.raises(limpet.EngineError, match="failed with status 1"):
            pool.client.open("b")
        assert session.run("6 * 7").result == "42"
    assert own_limpetd.stop() == 0 and own_limpetd.leftovers() == {}


# It says that it begins to make a container, and waits until it is let go on.
SLOW_RUNTIME = """#!/bin/sh
case " $* " in
*" run "*) : >{begun}; until [ -e {go} ]; do sleep 0.01; done ;;
esac
exec runc "$@"
"""


def test_a_stop_removes_what_a_killed_controller_was_making(own_limpetd, runtime, settings):
    begun, go = runtime(SLOW_RUNTIME, "begun", "go")
    own_limpetd.launch()
    wait_for(begun.exists)
    own_limpetd.kill()
    settings(pool=0)
    pool = Pool(own_limpetd.start())
    assert len(pool.spare_directories()) == 1
    own_limpetd.process.terminate()
    wait_for(lambda: "shutting down" in own_limpetd.said())
    go.touch()
    assert own_limpetd.stop() == 0 and own_limpetd.leftovers() == {}
    assert pool.spare_directories() == []
