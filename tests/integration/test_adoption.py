"""The controller is killed at a chosen moment, and the next one takes over what there is: sessions with their
variables, the call that runs, its output, its result, its files. Each call is executed once."""

import os
import secrets
import signal
import time

import limpet
import pytest

from .killed import COUNT, HOLD, PATIENCE, Asking, go, host, times_executed, wait_for  # noqa: F401

pytestmark = pytest.mark.engine


@pytest.mark.docker
def test_an_idle_session_goes_on(host):
    with host.client.open("a", timeout=20) as session:
        session.run("x = [1]; y = x")
        [before] = host.client.sessions()
        host.again()
        [after] = host.client.sessions()
        assert (after.session, after.container, after.created) == (before.session, before.container, before.created)
        result = session.run("x.append(2); y")
        assert (result.result, result.execution_count, result.epoch, result.state) == ("[1, 2]", 2, 1, "kept")
        other = host.client.open("a")
        assert other.instance == session.instance and other.options == session.options


def test_it_is_killed_again_and_again(host):
    with host.client.open("a") as session:
        for n in range(5):
            assert session.run("n = globals().get('n', -1) + 1; n").result == str(n)
            host.again(1 + n % 2)


@pytest.mark.docker
def test_a_running_call_goes_on(host):
    with host.client.open("a") as session:
        run_id = secrets.token_hex(16)
        code = host.code("print('begin', flush=True)\n" + COUNT + HOLD + "print('end'); x = 1; 'done'")
        running = Asking(session.run, code, run_id=run_id)
        wait_for(lambda: os.path.exists(host.files("a", "count")))
        host.again()
        assert [row.status for row in host.client.sessions()] in (["starting"], ["running"])
        asked = Asking(host.client.result, run_id)
        with pytest.raises(limpet.BadRequest, match="other code"):
            session.run("other", run_id=run_id)
        assert running.is_alive() and asked.is_alive()
        go(host, "a")
        result = running.result()
        assert (result.status, result.result, result.stdout) == ("ok", "'done'", "begin\nend\n")
        assert asked.result().to_dict() == result.to_dict()
        assert session.run(code, run_id=run_id).to_dict() == result.to_dict()
        assert times_executed(host, "a") == 1
        assert session.run("x").result == "1"


def test_a_call_that_streams(host):
    """Nobody reads what it writes meanwhile; it is not held up, and all of it comes in the end."""
    with host.client.open("a") as session:
        texts = []
        code = "print('begin', flush=True)\n" + HOLD + "for n in range(10000): print(n, '.' * 60)\nprint('end')"
        running = Asking(session.run, host.code(code), on_stdout=texts.append)
        wait_for(lambda: texts == ["begin\n"])
        host.limpetd.kill()
        go(host, "a")
        host.limpetd.start()
        result = running.result()
        assert "".join(texts) == result.stdout and result.stdout.endswith("end\n")
        assert result.stdout.count("\n") == 10002 and not result.truncated


def test_a_call_that_ends_while_no_controller_listens(host):
    with host.client.open("a") as session:
        run_id = secrets.token_hex(16)
        end = "open('/session/artifacts/made', 'w').write('m'); open('/session/ended', 'w').close(); 'done'"
        running = Asking(session.run, host.code(COUNT + HOLD + end), run_id=run_id)
        wait_for(lambda: os.path.exists(host.files("a", "count")))
        host.limpetd.kill()
        go(host, "a")
        wait_for(lambda: os.path.exists(host.files("a", "ended")))
        host.limpetd.start()
        result = running.result()
        assert result.result == "'done'" and times_executed(host, "a") == 1
        assert list(result.artifacts) == ["/session/artifacts/made"]
        host.again()
        assert host.client.result(run_id).to_dict() == result.to_dict()
        assert session.run("1").artifacts == {}


def ask_until_answered(session, code, run_id):
    """Also when the controller was gone before it had been asked at all."""
    while True:
        try:
            return session.run(code, run_id=run_id)
        except limpet.Unavailable:
            time.sleep(0.01)


def test_calls_that_wait_are_executed_once(host):
    with host.client.open("a") as session:
        first = Asking(session.run, host.code("open('/session/began', 'w').close()\n" + HOLD))
        wait_for(lambda: os.path.exists(host.files("a", "began")))
        code = host.code(COUNT + "1")
        others = [Asking(ask_until_answered, session, code, secrets.token_hex(16)) for _ in range(3)]
        host.again()
        go(host, "a")
        assert first.result().status == "ok"
        assert [other.result().result for other in others] == ["1"] * 3
        assert times_executed(host, "a") == 3


def test_a_running_call_can_be_interrupted(host):
    with host.client.open("a") as session:
        running = Asking(session.run, host.code("x = 1\n" + COUNT + HOLD))
        wait_for(lambda: os.path.exists(host.files("a", "count")))
        host.again()
        wait_for(session.interrupt)
        assert running.result().status == "interrupted"
        assert session.run("x").result == "1"


def test_the_deadline_holds(host):
    with host.client.open("a") as session:
        running = Asking(session.run, host.code(COUNT + HOLD), timeout=5)
        wait_for(lambda: os.path.exists(host.files("a", "count")))
        host.again()
        assert running.result().status == "timeout"


def test_a_call_in_a_container_of_its_own(host):
    run_id = secrets.token_hex(16)
    code = host.code("print('begin', flush=True)\n" + COUNT + HOLD + "open('/session/artifacts/a', 'w').write('1')\n'end'")
    running = Asking(host.client.run, code, run_id=run_id)
    wait_for(lambda: os.path.exists(host.files(run_id, "count")))
    host.again()
    wait_for(lambda: host.client.sessions())
    go(host, run_id)
    result = running.result()
    assert (result.result, result.stdout, list(result.artifacts)) == ("'end'", "begin\n", ["/session/artifacts/a"])
    with open(result.artifacts["/session/artifacts/a"]) as file:
        assert file.read() == "1"
    wait_for(lambda: not host.client.sessions())
    host.again()
    assert host.client.run(code, run_id=run_id).to_dict() == result.to_dict()
    assert host.client.sessions() == []


def test_records_outlive_their_session(host):
    run_id, lost_id = secrets.token_hex(16), secrets.token_hex(16)
    with host.client.open("a") as session:
        result = session.run("6 * 7", run_id=run_id)
        running = Asking(session.run, host.code(COUNT + HOLD), run_id=lost_id)
        wait_for(lambda: os.path.exists(host.files("a", "count")))
    lost = running.result()
    assert lost.status == "failed"
    host.again(2)
    assert host.client.result(run_id).to_dict() == result.to_dict()
    assert host.client.result(lost_id).to_dict() == lost.to_dict()
    assert host.client.run("6 * 7", run_id=run_id).to_dict() == result.to_dict()
    assert host.client.sessions() == []


def test_files_are_reported_once(host):
    thread = """
import os, threading, time
def write():
    while not os.path.exists('/session/go'): time.sleep(0.01)
    for name in 'late', 'changed': open('/session/artifacts/' + name, 'w').write('by the thread')
    open('/session/written', 'w').close()
for name in 'same', 'changed': open('/session/artifacts/' + name, 'w').write('1')
threading.Thread(target=write).start()
"""
    with host.client.open("a") as session:
        result = session.run(host.code(thread))
        assert set(result.artifacts) == {"/session/artifacts/same", "/session/artifacts/changed"}
        host.limpetd.kill()
        go(host, "a")
        wait_for(lambda: os.path.exists(host.files("a", "written")))
        host.limpetd.start()
        result = session.run("1")
        assert set(result.artifacts) == {"/session/artifacts/late", "/session/artifacts/changed"}
        for path in result.artifacts.values():
            with open(path) as file:
                assert file.read() == "by the thread"
        host.again()
        assert session.run("2").artifacts == {}


def test_killed_while_it_publishes(host):
    with host.client.open("a") as session:
        code = COUNT + "open('/session/artifacts/big', 'wb').write(bytes(300 << 20)); 'written'"
        running = Asking(session.run, host.code(code), timeout=PATIENCE)
        wait_for(lambda: os.path.exists(host.path("sessions", "a", "artifacts", ".partial")) or not running.is_alive())
        host.again()
        result = running.result()
        assert result.result == "'written'" and times_executed(host, "a") == 1
        assert result.artifact_info["/session/artifacts/big"].size == 300 << 20
        assert os.listdir(host.path("sessions", "a", "artifacts")) == ["big"]
        assert session.run("1").artifacts == {}


@pytest.mark.docker
def test_killed_while_a_session_starts(host):
    opening = Asking(host.client.open, "a")
    wait_for(lambda: os.path.exists(host.path("journals", "a.journal")))
    host.again()
    with opening.result() as session:
        assert session.run("6 * 7").result == "42"
        assert [row.session for row in host.client.sessions()] == ["a"]


def test_the_launcher_is_killed_while_a_disk_is_made(host):
    if not host.limpetd.isolates or os.geteuid() != 0:
        pytest.skip("sessions have no disks of their own here")
    host.limpetd.process.send_signal(signal.SIGSTOP)  # it is asked, and does not answer
    opening = Asking(host.client.open, "a", disk="32m")
    wait_for(lambda: os.path.exists(host.path("sessions", "a")))
    host.again()
    with opening.result() as session:
        assert session.run("6 * 7").result == "42"


def test_killed_while_a_session_closes(host):
    def is_closing():
        try:
            with open(host.path("journals", "a.journal"), "rb") as journal:
                return b"closing" in journal.read()
        except FileNotFoundError:
            return True

    session = host.client.open("a")
    session.run("x = 1")
    closing = Asking(session.close)
    wait_for(is_closing)
    host.again()
    try:
        closing.result()
    except limpet.NoSuchSession:
        pass
    wait_for(lambda: not host.client.sessions())
    with host.client.open("a") as session:
        assert session.run("'x' in globals()").result == "False"


def test_uploads_that_were_broken_off(host):
    with host.client.open("a") as session:
        leftover = host.files("a", ".limpet", "put-1")
        open(leftover, "w").close()
        host.again()
        session.run("1")
        assert not os.path.exists(leftover)


def test_checkpoints_and_branches_go_on(host):
    with host.client.open("a") as session:
        session.run("x = 1")
        checkpoint = session.checkpoint("before", files=True)
        session.run("x = 2")
        branch = session.branch("b")
        branch.run("x = 3")
        host.again()
        assert [session.run("x").result, branch.run("x").result] == ["2", "3"]
        assert [kept.id for kept in session.checkpoints() if not kept.automatic] == [checkpoint.id]
        session.rollback("before")
        assert session.run("x").result == "1"
        branch.close()
        host.again()
        assert [row.session for row in host.client.sessions()] == ["a"]
        assert session.run("x").result == "1"


@pytest.mark.docker
@pytest.mark.proves("engine: leave")
def test_keep_leaves_sessions_to_the_next_controller(host):
    from limpet._protocol import _wire
    from limpet._sync.connection import Connection

    with host.client.open("a") as session:
        session.run("x = 1")
        running = Asking(session.run, host.code(COUNT + HOLD + "x + 1"))
        wait_for(lambda: os.path.exists(host.files("a", "count")))
        connection = Connection(host.limpetd.socket)
        try:
            connection.hello()
            assert connection.ask(_wire.SHUTDOWN, {"keep": True}) == (_wire.REPLY, {})
        finally:
            connection.close()
        assert host.limpetd.process.wait(PATIENCE) == 0
        assert not os.path.exists(host.limpetd.socket)
        host.limpetd.start()
        go(host, "a")
        assert running.result().result == "2" and times_executed(host, "a") == 1


def test_a_branch_that_makes_the_journal_be_written_anew(host):
    """It is in the new one, for which there is no room left in the old one."""
    path, limit, room = host.path("journals", "a.journal"), 4 << 20, 60

    def left_after(session, characters):
        assert session.run(f"print('x' * {characters})").ok
        return limit - os.path.getsize(path)

    with host.client.open("a") as session:
        before = left_after(session, 200000)
        left = left_after(session, 200000)
        usual = before - left
        while left > 2 * usual:
            left = left_after(session, 200000)
        left = left_after(session, 200000 + left - usual - room)
        assert 0 <= left <= room + 20
        branch = session.branch("b")
        assert branch.run("x = 1").ok
        host.again()
        assert branch.run("x").result == "1"


def test_a_journal_written_anew_knows_what_was_reported(host):
    """As the file service tells it, when it has grown, and as it was, when the options change."""
    path = host.path("journals", "a.journal")
    write = host.code("open('/session/artifacts/%s', 'w').write('1'); print('x' * %d)")

    def is_new(before):
        return os.stat(path).st_ino != before

    with host.client.open("a") as session:
        assert list(session.run(write % ("first", 1)).artifacts) == ["/session/artifacts/first"]
        before = os.stat(path).st_ino
        while not is_new(before):
            session.run(write % ("many", 200000))
        assert list(session.run(write % ("last", 1)).artifacts) == ["/session/artifacts/last"]
        before = os.stat(path).st_ino
        session.set_network({"allow": ["example.com"]})
        assert is_new(before)
        host.again()
        assert session.run("1").artifacts == {}
        assert list(session.run(write % ("first", 2)).artifacts) == ["/session/artifacts/first"]
