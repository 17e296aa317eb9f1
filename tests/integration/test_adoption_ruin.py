"""The controller is killed, and when the next one comes something is not as it was left: it goes on with what there
is, and leaves nothing behind of the rest."""

import os
import secrets
import select
import shutil
import signal

import limpet
import pytest

from tests.support.limpetd import NotStarted

from .killed import COUNT, HOLD, PATIENCE, Asking, children, go, host, small_state, supervisor, times_executed, wait_for  # noqa: F401
from .slow_engine import SlowEngine

pytestmark = pytest.mark.engine


def end_of(pid):
    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([descriptor], [], [], PATIENCE)[0]
    os.close(descriptor)


@pytest.mark.docker
def test_a_session_that_died_meanwhile(host):
    run_id = secrets.token_hex(16)
    session = host.client.open("a")
    running = Asking(session.run, host.code(COUNT + HOLD), run_id=run_id)
    wait_for(lambda: os.path.exists(host.files("a", "count")))
    process = supervisor(host, "a")
    host.limpetd.kill()
    end_of(process)
    host.limpetd.start()
    with pytest.raises((limpet.SessionClosed, limpet.NoSuchSession)):
        running.result()
    wait_for(lambda: not host.client.sessions())
    with host.client.open("a") as session:
        assert session.run("'x' in globals()").result == "False"


def test_a_supervisor_that_says_nothing(host):
    session = host.client.open("a")
    with host.client.open("b") as other:
        other.run("y = 2")
        process = supervisor(host, "a")
        host.limpetd.kill()
        os.kill(process, signal.SIGSTOP)
        host.limpetd.start("--start-timeout", "8")
        with pytest.raises(limpet.SessionClosed, match="start_timeout"):
            session.run("1")
        assert other.run("y").result == "2"
        wait_for(lambda: [row.session for row in host.client.sessions()] == ["b"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a small filesystem, which root can mount")
def test_one_session_that_fills_the_disk_costs_no_other(own_limpetd):
    with small_state(own_limpetd) as state, own_limpetd.client() as client, client.open("a") as a, client.open("b") as b:
        a.run("x = 1")
        b.run("f = open('filler', 'wb', 0)\nfor size in 1 << 16, 512:\n    try:\n        while True: f.write(bytes(size))\n    except OSError: pass")
        for n in range(30):  # more than the last page of the journal has room for
            assert a.run("x += 1; x").result == str(n + 2)
        os.truncate(os.path.join(state, "sessions", "b", "files", "filler"), 0)
        own_limpetd.kill()
        own_limpetd.start()
        assert a.run("x").result == "31"
        assert b.run("f.name").result == "'filler'"


def test_ended_while_it_adopts(host):
    """Nothing is left then, not even of a supervisor that says nothing."""
    host.client.open("a")
    process = supervisor(host, "a")
    host.limpetd.kill()
    os.kill(process, signal.SIGSTOP)
    host.limpetd.start()
    assert host.limpetd.stop() == 0
    host.limpetd.start()
    assert host.client.sessions() == []


@pytest.mark.parametrize("what", ["link", "files"])
def test_directories_that_are_gone(host, what):
    session = host.client.open("a")
    host.limpetd.kill()
    if what == "files":
        os.rmdir(host.files("a", "artifacts"))
    else:
        [owner] = os.listdir(os.path.join(host.limpetd.directory, "run"))
        shutil.rmtree(os.path.join(host.limpetd.directory, "run", owner, "guests"))
    host.limpetd.start()
    with pytest.raises((limpet.SessionClosed, limpet.NoSuchSession)):
        session.run("1")
    with host.client.open("a") as session:
        assert session.run("6 * 7").result == "42"


def test_the_engine_is_that_of_the_sessions(host):
    with host.client.open("a") as session:
        session.run("x = 1")
        host.limpetd.kill()
        if host.limpetd.isolates or os.geteuid() != 0:
            host.limpetd.start("--engine", "")
        else:  # a journal does not decide that code runs with root's rights
            with pytest.raises(NotStarted, match="start limpetd with --engine local"):
                host.limpetd.start("--engine", "")
            host.limpetd.start()
        assert session.run("x").result == "1"


@pytest.mark.docker
@pytest.mark.parametrize("slow", [False, True], ids=["", "slow-engine"])
def test_memory_ran_out_while_no_controller_listened(host, slow, tmp_path, monkeypatch):
    """Also when the supervisor comes before the engine has said anything of its container."""
    if not host.limpetd.isolates:
        pytest.skip("no memory limit without a container")
    if slow and host.limpetd.engine != "docker":
        pytest.skip("nobody is asked about the container")
    with host.client.open("a", memory="128m", checkpoint="off") as session:
        fill = "import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1"
        running = Asking(session.run, COUNT + HOLD + fill)
        wait_for(lambda: os.path.exists(host.files("a", "count")))
        interpreter = children(supervisor(host, "a"))
        host.limpetd.kill()
        go(host, "a")
        wait_for(lambda: children(supervisor(host, "a")) != interpreter)
        if slow:
            SlowEngine(tmp_path / "docker.sock")
            monkeypatch.setenv("LIMPET_DOCKER_SOCKET", str(tmp_path / "docker.sock"))
        host.limpetd.start()
        result = running.result()
        assert (result.status, result.state) == ("oom", "lost")
        assert times_executed(host, "a") == 1


def spoil(path, how):
    with open(path, "r+b") as journal:
        size = len(journal.read())
        if how == "torn":
            journal.truncate(size - 3)
        elif how == "longer":
            journal.write(b"\0\0\1\0garbage")
        elif how == "empty":
            journal.truncate(0)
        else:
            journal.seek(0)
            journal.write(secrets.token_bytes(size))


@pytest.mark.parametrize("how", ["torn", "longer"])
def test_a_journal_that_ends_badly(host, how):
    """What was appended last is missing: the supervisor says it again."""
    with host.client.open("a") as session:
        run_id = secrets.token_hex(16)
        result = session.run("x = 41; x + 1", run_id=run_id)
        host.limpetd.kill()
        spoil(host.path("journals", "a.journal"), how)
        host.limpetd.start()
        assert session.run("x").result == "41"
        assert host.client.result(run_id).result == result.result
        host.again()
        assert host.client.result(run_id).result == result.result


@pytest.mark.parametrize("how", ["empty", "garbage"])
def test_a_journal_of_no_use(host, how):
    session = host.client.open("a")
    with host.client.open("b") as other:
        other.run("x = 1")
        host.limpetd.kill()
        spoil(host.path("journals", "a.journal"), how)
        host.limpetd.start()
        assert other.run("x").result == "1"
        with pytest.raises(limpet.NoSuchSession):
            session.run("1")
        wait_for(lambda: not os.path.exists(host.path("sessions", "a", "files")))
        with host.client.open("a") as again:
            assert again.run("6 * 7").result == "42"
