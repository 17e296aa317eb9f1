"""State as a user of the Python client has it; and, with both clients, when the controller is killed."""

import os
import select
import signal
import threading

import limpet
import pytest
from limpet._connection import _recovery
from limpet._protocol import _requests, _wire

from tests.python import both
from tests.support.limpetd import controllers

SEGFAULT = "import ctypes; ctypes.string_at(0)"


def value(session, name):
    return session.run(name).result


def open_names(client, name):
    return {row.session for row in client.sessions() if row.session.split("/")[0] == name}


def test_rollback_to_a_checkpoint(session):
    session.run("x = [1]")
    taken = session.checkpoint("mine")
    assert (taken.name, taken.session, taken.execution_count) == ("mine", session.name, 1)
    assert (taken.automatic, taken.files, taken.dropped) == (False, False, ())
    session.run("x.append(2); y = 1")
    for number, which in enumerate((taken, taken.id, "mine")):
        session.run("x.append(3)")
        done = session.rollback(which)
        assert (done.checkpoint, done.execution_count, done.epoch) == (taken.id, 1, 2 + number)
        assert done.files == "kept" and done.not_restored == []
        assert value(session, "x, 'y' in globals()") == "([1], False)"
    assert [kept.id for kept in session.checkpoints() if not kept.automatic] == [taken.id]
    session.drop(taken)
    for ask in (session.rollback, session.drop):
        with pytest.raises(limpet.NoSuchCheckpoint):
            ask("mine")


def test_a_checkpoint_with_files(session):
    session.run("open('kept', 'w').write('before')")
    taken = session.checkpoint(files=True)
    assert taken.files and taken.name is None
    session.run("open('kept', 'w').write('after'); open('new', 'w').close()")
    assert session.rollback(taken).files == "restored"
    assert value(session, "import os; open('kept').read(), os.path.exists('new')") == "('before', False)"


def test_a_name_is_taken_once(session):
    session.checkpoint("mine")
    for name in ("mine", "a/b", "", "x" * 65):
        with pytest.raises(limpet.BadRequest):
            session.checkpoint(name)


def test_what_rollback_does_not_bring_back(session):
    session.run("import subprocess; child = subprocess.Popen(['sleep', '1000'])")
    session.run("while open(f'/proc/{child.pid}/comm').read() != 'sleep\\n': pass")  # a moment after it is executed
    missing = session.rollback(session.checkpoint()).not_restored
    assert any("(sleep)" in note for note in missing), missing


def test_threads_go_on_in_rollbacks_branches_and_attempts(session):
    """A pool of a thread each: it answers, or the call does not end."""
    session.run("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)")
    session.run("def ask(): return pool.submit(abs, -7).result()\nask()")
    assert session.rollback(session.checkpoint()).not_restored == []
    assert session.run("ask()", timeout=60).result == "7"
    assert session.branch("other").run("ask()", timeout=60).result == "7"
    assert [tried.result for tried in session.try_each(["ask()"] * 2, timeout=60)] == ["7", "7"]


def test_a_call_that_fails_leaves_nothing_behind(session):
    session.run("x = 1")
    failed = session.run("x = 2; y = 3; 1 / 0", on_error="rollback")
    assert (failed.status, failed.state, failed.epoch) == ("error", "rolled_back", 2)
    assert failed.rolled_back_to.execution_count == 1 and failed.error.name == "ZeroDivisionError"
    assert failed.warning == f"the variables of {session.name} are as call 1 left them"
    kept = session.run("y = x", on_error="rollback")
    assert (kept.state, kept.warning, value(session, "y")) == ("kept", None, "1")
    with pytest.raises(limpet.BadRequest):
        session.run("1", on_error="panic")


def test_a_crash_goes_back(session):
    session.run("x = 1")
    session.checkpoint()
    crashed = session.run(SEGFAULT)
    assert (crashed.status, crashed.state, crashed.epoch) == ("crashed", "rolled_back", 2)
    assert crashed.rolled_back_to.execution_count == 1
    assert crashed.state_protection == {"level": "checkpoint", "execution_count": 1, "reason": None}
    assert value(session, "x") == "1"


def test_automatic_checkpoints_are_an_option(client, name):
    with client.open(name, checkpoint="always") as session:
        assert session.options["checkpoint"] == "always"
        session.run("x = 1")
        assert session.run(SEGFAULT).rolled_back_to.execution_count == 1
        with pytest.raises(limpet.OptionsDiffer) as caught:
            client.open(name, checkpoint="auto")
        assert caught.value.options == ("checkpoint",)
    with client.open(name, checkpoint="off") as session:
        session.run("x = 1")
        lost = session.run(SEGFAULT)
        assert (lost.state, lost.rolled_back_to, lost.state_protection["level"]) == ("lost", None, "none")
        assert lost.state_protection["reason"] and "are lost" in lost.warning
    with pytest.raises(limpet.BadRequest):
        client.open(name, checkpoint="sometimes")


def test_the_names_a_call_changed(session):
    first = session.run("x = 1; text = 'ab'; numbers = [1, 2, 3]")
    assert {v.name: (v.type, v.shape, v.repr) for v in first.changed.added} == {
        "x": ("int", None, "1"), "text": ("str", (2,), "'ab'"), "numbers": ("list", (3,), None),
    }  # fmt: skip
    second = session.run("x = 2; del text; y = 5")
    assert [v.name for v in second.changed.added] == ["y"]
    assert [(v.name, v.repr) for v in second.changed.changed] == [("x", "2")]
    assert second.changed.deleted == ["text"] and second.changed.more == 0
    assert not session.run("x").changed


def test_namespace(session):
    session.run("import os; x = 41; _hidden = 1; numbers = [1, 2]")
    session.run("class Loud:\n    def __repr__(self): open('ran', 'w').close(); return 'loud'\nloud = Loud()")
    names = session.namespace()
    found = {v.name: v for v in names}
    assert set(found) == {"os", "x", "numbers", "Loud", "loud"} and names.more == 0
    assert [v.name for v in names][:3] == ["os", "x", "numbers"]
    assert (found["x"].type, found["x"].repr, found["numbers"].shape) == ("int", "41", (2,))
    assert (found["os"].type, found["loud"].repr) == ("module", None)
    assert value(session, "os.path.exists('ran')") == "False"


def test_a_branch_goes_its_own_way(client, session):
    session.run("x = [1]")
    branch = session.branch("try-a")
    assert branch.name == f"{session.name}/try-a"
    assert branch.run("x.append(2); x").result == "[1, 2]"
    assert value(session, "x") == "[1]"
    branch.run("open('shared', 'w').write('files are')")
    assert value(session, "open('shared').read()") == "'files are'"
    assert value(client.open(branch.name), "x") == "[1, 2]"
    assert open_names(client, session.name) == {session.name, branch.name}
    with pytest.raises(limpet.BranchExists):
        session.branch("try-a")
    branch.close()
    assert open_names(client, session.name) == {session.name}
    with pytest.raises(limpet.SessionClosed):
        branch.run("x")
    with pytest.raises(limpet.NoSuchSession):
        session.commit("try-a")


def test_a_branch_of_an_earlier_moment(session):
    session.run("x = 1")
    taken = session.checkpoint("first")
    session.run("x = 2")
    for number, at in enumerate((taken, taken.id, "first")):
        assert value(session.branch(f"b{number}", at=at), "x") == "1"
    assert value(session.branch("now"), "x") == "2"
    with pytest.raises(limpet.NoSuchCheckpoint):
        session.branch("b", at="second")


@pytest.mark.parametrize("whole", [True, False])
def test_what_a_branch_did_becomes_the_state(client, session, whole):
    session.run("x = 1")
    branch = session.branch("try-a")
    branch.run("x = 2")
    committed = session.commit(branch if whole else "try-a")
    assert committed.epoch == 2
    assert value(session, "x") == "2" and open_names(client, session.name) == {session.name}


def test_try_each(client, session):
    session.run("x = [0]")
    codes = ["x.append(1); x", "x.append(2); x", "1 / 0", SEGFAULT]
    results = session.try_each(codes, timeout=20)
    assert [result.status for result in results] == ["ok", "ok", "error", "crashed"]
    assert [result.result for result in results[:2]] == ["[0, 1]", "[0, 2]"]
    assert value(session, "x") == "[0]"
    assert open_names(client, session.name) == {session.name, *(result.session for result in results)}
    assert [kept.name for kept in session.checkpoints() if kept.name] == []
    session.commit(1)
    assert value(session, "x") == "[0, 2]" and open_names(client, session.name) == {session.name}
    with pytest.raises(limpet.BadRequest, match="no candidate 0"):
        session.commit(0)


def test_no_candidate_is_taken(client, session):
    session.run("x = 0")
    session.try_each(["x = 1", "x = 2"])
    results = session.try_each(["x = 3; 1 / 0", "x"], on_error="rollback")
    assert len(open_names(client, session.name)) == 3
    assert (results[0].state, results[1].result) == ("rolled_back", "0")
    assert session.commit(None) is None
    assert value(session, "x") == "0" and open_names(client, session.name) == {session.name}


def test_more_candidates_than_there_may_be_branches(client, session):
    session.run("x = 0")
    with pytest.raises(limpet.TooLarge):
        session.try_each(["1"] * 17)
    assert open_names(client, session.name) == {session.name}
    assert [kept for kept in session.checkpoints() if kept.name] == []


def test_the_session_goes_with_its_branches(client, session):
    session.branch("mine")
    session.try_each(["1", "2"])
    session.close()
    assert open_names(client, session.name) == set()


# The controller is killed


@pytest.fixture
def started(own_limpetd, monkeypatch):
    """Where clients start a controller by themselves, and again when it was killed."""
    directory = own_limpetd.directory
    monkeypatch.setenv("LIMPETD", own_limpetd.program)
    monkeypatch.setenv("LIMPET_ENGINE", own_limpetd.engine)
    monkeypatch.setenv("LIMPET_STATE_DIR", os.path.join(directory, "state"))
    monkeypatch.setenv("LIMPET_RUNTIME_DIR", os.path.join(directory, "run"))
    monkeypatch.setenv("LIMPET_SOCKET", own_limpetd.socket)
    monkeypatch.delenv("LIMPET_AUTOSTART", raising=False)
    yield own_limpetd
    with limpet.Client() as client:
        client.sessions()
        client.shutdown()


def kill_controller():
    """SIGKILL; returns when it is dead, with what root's has for clients."""
    with limpet.Client(autostart=False) as client:
        pid = client._request(_requests.Request(_wire.SESSIONS, {}, lambda body: body["controller"]["pid"]))
    processes = [os.pidfd_open(one) for one in (pid, *controllers(pid))]
    os.kill(pid, signal.SIGKILL)
    for process in processes:
        select.select([process], [], [])
        os.close(process)


class Running(threading.Thread):
    """run() on a thread of its own, with what its callbacks got."""

    def __init__(self, session, code):
        super().__init__()
        self.session, self.code = session, code
        self.seen, self.begun = [], threading.Event()
        self.result = self.error = None
        self.start()
        assert self.begun.wait(60)

    def run(self):
        try:
            self.result = self.session.run(self.code, timeout=120, on_stdout=self.on_stdout)
        except limpet.Error as error:
            self.error = error
            self.begun.set()

    def on_stdout(self, text):
        self.seen.append(text)
        self.begun.set()

    def end(self):
        self.join(120)
        assert not self.is_alive()
        if self.error:
            raise self.error
        return self.result


# Begins, waits until the test has put a file there, and goes on.
WAIT = "import os, time\nprint('one ä', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n"


@pytest.fixture(params=both.KINDS)
def starting(request, started):
    """A client that starts controllers."""
    with both.client(request.param) as client:
        yield client


def test_a_call_outlives_its_controller(starting, name):
    session = starting.open(name, checkpoint="auto")
    instance = session.instance
    session.run("n = 0")
    running = Running(session, WAIT + "n += 1\nprint('two')\nopen('artifacts/f', 'w').write('x')\nn")
    kill_controller()
    with limpet.Client() as other:
        other.open(name).put(b"", "go")
        assert other.open(name).instance == instance
    result = running.end()
    assert (result.status, result.state, result.result, result.epoch) == ("ok", "kept", "1", 1)
    assert result.stdout == "one ä\ntwo\n" == "".join(running.seen)
    assert [os.path.basename(path) for path in result.artifacts] == ["f"]
    assert starting.result(result.run_id) == result
    assert value(session, "n") == "1"


def test_a_long_output_that_nobody_heard(starting, name, tmp_path):
    session = starting.open(name)
    running = Running(session, WAIT + "print('x' * (3 << 20))")
    kill_controller()
    with limpet.Client() as other:
        other.open(name).put(b"", "go")
    result = running.end()
    text = "one ä\n" + "x" * (3 << 20) + "\n"
    assert result.truncated and result.stdout_bytes == len(text.encode())
    seen, notice = "".join(running.seen).split("\n[limpet: ")
    assert text.startswith(seen) and seen == result.stdout
    lost = result.stdout_bytes - len(seen.encode())
    assert notice.startswith(f"{lost} more bytes of stdout") and result.stdout_file in notice
    session.get(result.stdout_file, tmp_path / "all")
    assert (tmp_path / "all").read_text() == text


def test_everything_is_there_after_the_controller_was_killed(starting, name):
    session = starting.open(name)
    first = session.run("x = 1")
    taken = session.checkpoint("mine")
    branch = session.branch("try-a")
    branch.run("x = 2")
    results = session.try_each(["x = 3", "x = 4"])
    for ask in (
        lambda: session.checkpoints(),
        lambda: session.namespace(),
        lambda: session.interrupt(),
        lambda: starting.result(first.run_id),
        lambda: starting.sessions(),
        lambda: session.checkpoint(),
        lambda: branch.run("x"),
    ):
        before = ask()
        kill_controller()
        after = ask()
        if isinstance(before, limpet.Result) and before.result is None:
            assert after == before
    assert value(session, "x") == "1" and value(branch, "x") == "2"
    assert "mine" in [kept.name for kept in session.checkpoints()]
    kill_controller()
    session.commit(1)
    assert value(session, "x") == "4"
    kill_controller()
    assert session.rollback(taken).execution_count == 1
    assert value(session, "x") == "1"
    assert open_names(starting, name) == {name, branch.name} and len(results) == 2
    session.close()


def test_a_session_that_ended_with_its_container(starting, started, name):
    if started.isolates:
        pytest.skip("its processes are found by their command line")
    session = starting.open(name)
    session.run("x = 1")
    running = Running(session, WAIT)
    processes = started.leftovers()
    for pid in processes:  # that the next controller finds none of them alive
        os.kill(pid, signal.SIGSTOP)
    kill_controller()
    for pid in processes:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises((limpet.NoSuchSession, limpet.SessionClosed)):
        running.end()
    with pytest.raises((limpet.NoSuchSession, limpet.SessionClosed)):
        session.run("x")
    with starting.open(name) as again:
        assert again.instance != session.instance
        assert again.run("x").error.name == "NameError"


@pytest.mark.parametrize("kind", both.KINDS)
def test_a_controller_that_is_stopped_is_unavailable(own_limpetd, monkeypatch, kind):
    monkeypatch.setattr(_recovery, "HANDSHAKE_TIMEOUT", 0.2)
    own_limpetd.start()
    own_limpetd.send_signal(signal.SIGSTOP)
    try:
        for _ in range(3):
            with both.client(kind, own_limpetd.socket, autostart=False) as client:
                with pytest.raises(limpet.Unavailable):
                    client.sessions()
    finally:
        own_limpetd.send_signal(signal.SIGCONT)
    with both.client(kind, own_limpetd.socket, autostart=False, reconnect_timeout=0) as client:
        monkeypatch.undo()
        assert client.sessions() == []
