"""Commands of a session: programs that run beside its Python."""

import hashlib
import os
import threading

import limpet
import pytest

from .killed import Asking, wait_for

pytestmark = pytest.mark.engine


def artifact(limpetd, name):
    return f"/session/artifacts/{name}" if limpetd.isolates else f"artifacts/{name}"


def test_what_a_command_gives(session):
    result = session.exec("echo out; echo err >&2; exit 3")
    assert (result.status, result.exit_code, result.error.name) == ("error", 3, "ExitStatus")
    assert (result.stdout, result.stderr, result.state) == ("out\n", "err\n", "kept")
    assert (result.kind, result.execution_count, result.session) == ("command", None, session.name)
    assert session.exec(["true"]).ok and session.exec(["no-such"]).exit_code == 127
    assert session.exec(["cat"], stdin="text").stdout == "text"
    assert session.exec("echo $A; pwd", cwd="artifacts", env={"A": "b"}).stdout.startswith("b\n")
    with pytest.raises(limpet.CallFailed, match="exit code 3"):
        result.check()
    assert session.run("1").execution_count == 1 and session.run("1").kind == "python"


def test_the_names_of_what_is_read_and_written(session):
    line = "cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr"
    result = session.exec(line, stdin="in\n")
    assert (result.stdout, result.stderr, result.exit_code) == ("in\nout\n", "err\n", 0)
    result = session.run(f"import subprocess; subprocess.run({line!r}, shell=True, input=b'in\\n').returncode")
    assert (result.stdout, result.stderr, result.result) == ("in\nout\n", "err\n", "0")


@pytest.mark.parametrize("command", (["sha256sum", "-"], "sha256sum -"))
def test_an_input_of_any_size(session, tmp_path, command):
    """Beyond what a request carries it goes through a file, of which nothing is left."""
    data = os.urandom(1 << 20) * 65
    (tmp_path / "input").write_bytes(data)
    with open(tmp_path / "input", "rb") as file:
        for stdin in (data, file):
            result = session.exec(command, stdin=stdin, cwd="/tmp", check=True)
            assert result.stdout.split()[0] == hashlib.sha256(data).hexdigest()
    assert [entry.path for entry in session.files.list() if "stdin" in entry.path] == []


def test_output_as_it_comes(session):
    said = []

    def hear(text):
        said.append(text)
        session.files.write("go", "")

    session.exec("echo 1; until [ -e go ]; do sleep 0.02; done; echo 2; echo 3", on_stdout=hear)
    assert said[0] == "1\n" and "".join(said) == "1\n2\n3\n"


def test_artifacts_are_published(limpetd, session):
    result = session.exec(f"mkdir -p artifacts; echo data > {artifact(limpetd, 'a.txt')}")
    with open(result.artifacts["/session/artifacts/a.txt"], encoding="utf-8") as file:
        assert file.read() == "data\n"
    assert not session.run("1").artifacts


def test_neither_waits_for_the_other(session):
    begun = threading.Event()
    running = Asking(
        session.run, "import time; print('begun', flush=True); time.sleep(1000)", 1000, on_stdout=lambda text: begun.set()
    )
    assert begun.wait(60)
    assert session.exec("echo beside").stdout == "beside\n"
    assert session.interrupt() and running.result().status == "interrupted"


def test_done_once(session):
    run_id = os.urandom(16).hex()
    assert session.exec("echo once >> log; cat log", run_id=run_id).stdout == "once\n"
    again = session.exec("echo once >> log; cat log", run_id=run_id)
    assert again.stdout == "once\n" and session.exec("cat log").stdout == "once\n"
    with pytest.raises(limpet.BadRequest, match="used for something else"):
        session.exec("echo other", run_id=run_id)
    assert session._client.result(run_id) == again


def test_a_deadline_and_an_interrupt(client, session):
    assert session.exec("sleep 1000", timeout=0.3).status == "timeout"
    run_id = os.urandom(16).hex()
    begun = threading.Event()
    running = Asking(session.exec, "echo begun; sleep 1000", run_id=run_id, on_stdout=lambda text: begun.set())
    assert begun.wait(60)
    assert not session.interrupt()  # that means the running cell
    assert client.interrupt(run_id)
    assert running.result().status == "interrupted"
    assert not client.interrupt(run_id)


def test_a_branch_runs_them_too(session):
    session.run("x = 1")
    branch = session.branch("try")
    assert branch.exec("echo $((1+1))").session == f"{session.name}/try"
    begun = threading.Event()
    running = Asking(branch.exec, "echo begun; sleep 1000", timeout=1000, on_stdout=lambda text: begun.set())
    assert begun.wait(60)
    branch.close()
    assert running.result().status == "failed"
    assert session.exec("echo on").stdout == "on\n"


def test_closing_ends_it(client, name):
    session = client.open(name)
    begun = threading.Event()
    running = Asking(session.exec, "echo begun; sleep 1000", timeout=1000, on_stdout=lambda text: begun.set())
    assert begun.wait(60)
    session.close()
    result = running.result()
    assert (result.status, result.error.name) == ("failed", "SandboxLost")


@pytest.mark.docker
def test_python_comes_and_goes_beside_it(limpetd, session):
    begun = threading.Event()
    running = Asking(
        session.exec, "echo begun; until [ -e go ]; do sleep 0.05; done; echo lived", timeout=300,
        on_stdout=lambda text: begun.set(),
    )  # fmt: skip
    assert begun.wait(60)
    session.run("x = 1")
    checkpoint = session.checkpoint()
    session.rollback(checkpoint)
    session.reset()
    assert session.run("import os; os.kill(os.getpid(), 11)").status == "crashed"
    session.exec("touch go")
    assert running.result().stdout == "begun\nlived\n"


def test_programs_that_follow_each_other_go_on_beside_resets(session):
    running = Asking(session.exec, "until [ -e stop ]; do /bin/true; done; echo lived", timeout=600)
    for _ in range(20):
        session.reset()
    session.files.write("stop", b"")
    assert running.result().stdout == "lived\n"


def test_what_it_left_running_lives_on(limpetd, session):
    if not limpetd.isolates:
        pytest.skip("processes of an engine that does not isolate have no mark")
    session.exec("setsid -f sleep 4711; (sleep 4711 &)")
    session.reset()
    assert session.exec("ps -eo args | grep -c '[s]leep 4711'").stdout == "2\n"


@pytest.mark.docker
def test_memory(limpetd, client, name):
    if not limpetd.isolates:
        pytest.skip("memory is not bounded")
    with client.open(name, memory="256m") as session:
        session.run("x = 41")
        result = session.exec(["python3", "-c", "x = b'x' * (1 << 30)"])
        assert (result.status, result.state, result.error.name) == ("oom", "kept", "OutOfMemory")
        assert session.run("x + 1").result == "42"  # commands go first


@pytest.mark.docker
@pytest.mark.proves("security: too much memory, processes, processor time")
def test_a_fork_bomb_is_told_of(limpetd, client, name):
    if not limpetd.isolates:
        pytest.skip("processes are not bounded")
    with client.open(name, pids=32) as session:
        session.exec("bomb() { bomb | bomb & }; bomb; sleep 0.5", timeout=3)
        try:
            session.exec("true")
        except limpet.Busy as error:
            assert "pids" in str(error)
        assert session.run("1").status in ("ok", "failed")


def test_the_controller_dies(own_limpetd, name):
    limpetd = own_limpetd.start()
    with limpetd.client() as client:
        session = client.open(name)
        session.run("x = 41")
        begun, run_id = threading.Event(), os.urandom(16).hex()
        running = Asking(
            session.exec, "echo begun >> log; echo begun; until [ -e go ]; do sleep 0.05; done; cat log", timeout=300,
            run_id=run_id, on_stdout=lambda text: begun.set(),
        )  # fmt: skip
        assert begun.wait(60)
        limpetd.kill()
        limpetd.start()
        session.exec("touch go")
        assert running.result().stdout == "begun\nbegun\n"
        limpetd.kill()
        limpetd.start()
        assert client.result(run_id).stdout == "begun\nbegun\n"
        assert session.exec("cat log", run_id=os.urandom(16).hex()).stdout == "begun\n"
        assert session.run("x + 1").result == "42"


def test_an_old_cell_does_not_take_what_a_command_has_made(own_limpetd, name):
    limpetd = own_limpetd.start()
    with limpetd.client() as client:
        session = client.open(name)
        session.run("x = 41")
        for _ in range(64):  # with so many later ones its record is no longer stored
            session.exec(["true"])
        begun = threading.Event()
        running = Asking(
            session.exec, f"echo > {artifact(limpetd, 'a')}; echo begun; until [ -e go ]; do sleep 0.05; done", timeout=300,
            on_stdout=lambda text: begun.set(),
        )  # fmt: skip
        assert begun.wait(60)
        limpetd.kill()
        files = os.path.join(limpetd.directory, "state", "sessions", name, "files")
        with open(os.path.join(files, "go"), "wb"):
            pass
        limpetd.start()
        assert set(running.result().artifacts) == {"/session/artifacts/a"}


def test_it_ends_while_no_controller_is_there(own_limpetd, name):
    limpetd = own_limpetd.start()
    with limpetd.client() as client:
        session = client.open(name)
        begun = threading.Event()
        running = Asking(
            session.exec, "echo begun; until [ -e go ]; do sleep 0.05; done; echo over > over; echo ended", timeout=300,
            on_stdout=lambda text: begun.set(),
        )  # fmt: skip
        assert begun.wait(60)
        limpetd.kill()
        files = os.path.join(limpetd.directory, "state", "sessions", name, "files")
        with open(os.path.join(files, "go"), "wb"):
            pass
        wait_for(lambda: os.path.exists(os.path.join(files, "over")))
        limpetd.start()
        assert running.result().stdout == "begun\nended\n"
