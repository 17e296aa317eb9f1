"""State end to end: what a controller, a supervisor and an interpreter do together to keep it."""

import threading
import time

import limpet
import pytest

STUCK = "import time\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass"

FILL = "import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1"


def until(condition):
    """Waits for what must come."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def value(session, code, **options):
    result = session.run(code, **options)
    assert result.status == "ok", (result, result.error)
    return result.result


def row(client, session):
    return {info.session: info for info in client.sessions()}.get(session.name)


def in_background(function, *arguments, **options):
    """Its results, once there are some."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*arguments, **options)))
    thread.start()
    return thread, results


@pytest.mark.engine
def test_out_of_memory_tells_what_became_of_the_variables(client, name, limpetd):
    if not limpetd.isolates:
        pytest.skip("the engine local limits no memory")
    for mode, state, words in (("auto", "rolled_back", "as they were after call 1"), ("off", "lost", "are lost")):
        with client.open(f"{name}-{mode}", memory="256m", checkpoint=mode) as session:
            session.run("x = 1")
            if mode == "auto":
                session.checkpoint()
            result = session.run(f"x = 2\n{FILL}", timeout=300)
            assert (result.status, result.state) == ("oom", state), (result, result.error, result.signal)
            assert result.error.name == "OutOfMemory"
            assert words in result.error.message
            assert value(session, "globals().get('x')") == ("1" if mode == "auto" else None)


@pytest.mark.docker
@pytest.mark.engine
def test_a_child_killed_for_memory_is_not_the_next_call_s_end(client, name, limpetd):
    if not limpetd.isolates:
        pytest.skip("the engine local limits no memory")
    with client.open(name, memory="256m") as session:
        code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {FILL!r}]).returncode"
        assert value(session, code, timeout=300) == "-9"  # a kernel that is short of memory may take its time
        result = session.run("import os; os.kill(os.getpid(), 9)")
        assert (result.status, result.signal) == ("crashed", 9)


def test_branches_and_the_session_do_not_see_each_other(client, session):
    session.run("x = []; import os; pid = os.getpid()")
    branches = [session.branch(f"try-{i}") for i in range(3)]
    for i, branch in enumerate(branches):
        branch.run(f"x.append({i}); open('shared', 'a').write('{i}')")
    assert [value(branch, "x") for branch in branches] == ["[0]", "[1]", "[2]"]
    assert value(session, "x, open('shared').read()") == "([], '012')"
    assert len({value(one, "os.getpid()") for one in (session, *branches)}) == 4
    session.commit(branches[1])
    assert value(session, "x") == "[1]"
    with pytest.raises(limpet.NoSuchSession):
        client.open(branches[1].name)
    assert row(client, branches[2]).status == "idle"


def test_a_branch_survives_what_ends_the_session_s_interpreter(session):
    session.run("x = 1")
    branch = session.branch("b")
    branch.run("x = 2")
    for one in (session, branch):
        one.checkpoint()
    assert session.run("import os; os._exit(1)").status == "exited"
    assert branch.run("import os; os._exit(1)").state == "rolled_back"
    assert (value(session, "x"), value(branch, "x")) == ("1", "2")


def test_a_checkpoint_of_a_branch_is_for_the_session_too(session):
    session.run("x = 1")
    branch = session.branch("b")
    branch.run("x = 2")
    mine = branch.checkpoint("mine")
    assert mine.session == branch.name
    branch.close()
    assert [cp.session for cp in session.checkpoints() if cp.name == "mine"] == [branch.name]
    session.rollback("mine")
    assert value(session, "x") == "2"


def test_close_of_a_branch_whose_call_is_stuck(client, session):
    branch = session.branch("b")
    thread, results = in_background(branch.run, STUCK, timeout=600)
    until(lambda: row(client, branch).status == "running")
    assert not session.interrupt(), "the call is the branch's"
    client.open(branch.name).close()
    thread.join()
    assert (results[0].status, results[0].state) == ("failed", "lost")
    assert value(session, "1 + 1") == "2"
    with session.branch("b") as again:
        assert value(again, "2 + 2") == "4"


def test_reset_of_a_branch_while_the_session_s_call_runs(client, session):
    """It waits: what runs is someone else's."""
    session.run("x = 1")
    branch = session.branch("b")
    call, results = in_background(session.run, "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)")
    until(lambda: row(client, session).status == "running")
    reset, _ = in_background(branch.reset)
    until(lambda: row(client, branch).status == "running")
    with client.open(session.name + "/b") as same:
        session.put(b"", "go")
        call.join()
        reset.join()
        assert results[0].status == "ok"
        assert value(same, "globals().get('x')") is None
    assert value(session, "x") == "1"


def test_files_of_a_checkpoint_are_the_code_s_own_again(session):
    session.run(
        "import os, pathlib\n"
        "os.makedirs('d/e'); pathlib.Path('d/e/f').write_text('old'); os.chmod('d/e/f', 0o600)\n"
        "os.symlink('d/e', 'link'); open('artifacts/a', 'w').write('old')\n"
        "state = lambda: (os.stat('d/e/f').st_uid, oct(os.stat('d/e/f').st_mode), os.stat('d/e/f').st_mtime_ns,\n"
        "                 os.readlink('link'), open('link/f').read(), sorted(os.listdir('.')))"
    )
    before = value(session, "state()")
    checkpoint = session.checkpoint(files=True)
    session.run("import shutil; shutil.rmtree('d'); os.unlink('link'); open('new', 'w').write('x')")
    assert session.run("open('artifacts/a', 'w').write('new'); os.makedirs('d/e')").artifacts
    assert session.rollback(checkpoint).files == "restored"
    assert value(session, "state()") == before
    result = session.run("print(open('artifacts/a').read()); open('d/e/f', 'a').write('er'); os.rename('d', 'g')")
    assert (result.status, result.stdout, result.artifacts) == ("ok", "old\n", {})
    assert list(session.run("open('artifacts/a', 'a').write('er')").artifacts) == ["/session/artifacts/a"]


def test_files_that_a_running_process_uses_are_no_obstacle(session):
    """A child of the code goes on writing names while the files change places."""
    session.run("open('kept', 'w').write('old')")
    checkpoint = session.checkpoint(files=True)
    session.run(
        "import subprocess\n"
        "child = subprocess.Popen(['sh', '-c', 'i=0; while :; do i=$((i+1)); : > name-$((i%50)); : > kept; done'])"
    )
    assert session.rollback(checkpoint).files == "restored"
    assert value(session, "import os; os.path.exists('kept')") == "True"


def test_try_this_then_that(session):
    """What a caller does with alternatives: each on a branch, the first that works becomes the session."""
    session.run("data = [3, 1, 2]")
    for i, code in enumerate(("data.sort(key=None, wrong=1)", "data.clear(); 1 / 0", "data.sort()")):
        branch = session.branch(f"try-{i}")
        if branch.run(code, on_error="rollback").status == "ok":
            session.commit(branch)
            break
        assert value(branch, "data") == "[3, 1, 2]"
        branch.close()
    assert value(session, "data") == "[1, 2, 3]"


def test_on_error_rollback_undoes_a_failed_call(session):
    session.run("x = [1]")
    result = session.run("x.append(2); y = 3; 1 / 0", on_error="rollback")
    assert (result.status, result.state) == ("error", "rolled_back")
    assert result.error.name == "ZeroDivisionError"
    assert value(session, "x, 'y' in globals()") == "([1], False)"
    assert session.run("x.append(2)", on_error="rollback").state == "kept"
    assert value(session, "x") == "[1, 2]"


def test_orders_wait_for_the_call_that_runs(client, session):
    session.run("x = 1")
    call, results = in_background(
        session.run, "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nx = 2"
    )
    until(lambda: row(client, session).status == "running")
    taken, checkpoints = in_background(session.checkpoint)
    session.put(b"", "go")
    call.join()
    taken.join()
    assert results[0].status == "ok"
    assert checkpoints[0].execution_count == 2, "after the call"
    session.run("x = 3")
    session.rollback(checkpoints[0])
    assert value(session, "x") == "2"
