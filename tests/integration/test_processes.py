"""Processes of a session that run in the background: start(), processes(), and what a Process does."""

import asyncio
import contextlib
import os
import signal
import time

import limpet
import pytest

from .killed import Asking, wait_for
from .raw_peer import Client as RawClient

pytestmark = pytest.mark.engine


def text_of(process, since=0):
    return "".join(output.text for output in process.follow(since))


def patiently(ask, *args):
    """A controller that is not there when it is first asked is not waited for."""
    while True:
        try:
            return ask(*args)
        except limpet.Unavailable:
            time.sleep(0.01)


def patient_text_of(process):
    text, output = "", None
    while output is None or not output.ended:
        output = patiently(process.output, output.next if output else 0, None)
        text += output.text
    return text


def shown(process, wanted):
    """What it has written by the time that it has written this."""
    text = ""
    for output in process.follow():
        text += output.text
        if wanted in text:
            return text
    raise AssertionError(f"{wanted!r} did not come: {text!r}")


def test_from_start_to_end(session):
    process = session.start("echo out; read line; echo got $line; echo err >&2; exit 3", stdin="fir")
    assert shown(process, "out\n") == "out\n"
    process.send("st\n")
    assert text_of(process) == "out\ngot first\nerr\n"
    result = process.wait()
    assert (result.status, result.exit_code, result.kind, result.state) == ("error", 3, "command", "kept")
    assert (result.stdout, result.stderr, result.execution_count) == ("out\ngot first\n", "err\n", None)
    assert process.wait(0) == result and session._client.result(process.id) == result


def test_streams_keep_their_order(session):
    line = "import os\nfor i in range(50):\n    os.write(1 + i % 2, b'%d ' % i)"
    process = session.start(["python3", "-c", line])
    pieces = [piece for output in process.follow() for piece in output.pieces]
    assert {stream for stream, _ in pieces} == {1, 2}
    for stream in (1, 2):
        said = b"".join(data for each, data in pieces if each == stream)
        assert said.split() == [b"%d" % i for i in range(50) if i % 2 == stream - 1]


def test_output_from_any_place(session):
    process = session.start("printf 0123456789")
    process.wait()
    assert process.output(7).text == "789" and process.output(10).ended
    later = process.output(99)
    assert (later.text, later.dropped, later.next, later.ended) == ("", 0, 10, True)


def test_only_the_last_of_much_output_is_kept(session):
    process = session.start("seq 1000000; echo end")
    result = process.wait()
    output = process.output()
    assert output.dropped > 0 and not output.ended
    text = output.text + text_of(process, output.next)
    assert text.endswith("\n1000000\nend\n") and len(text) == 1 << 20
    assert result.truncated and result.stdout.startswith("1\n2\n")
    assert session.get(result.stdout_file).endswith(b"\nend\n")


def test_input_waits_for_who_reads_it(session):
    process = session.start("until [ -e go ]; do sleep 0.05; done; wc -c")
    sending = Asking(process.send, b"x" * (3 << 20))
    assert session.exec("echo beside").stdout == "beside\n" and session.run("1").ok
    with pytest.raises(limpet.Busy):
        while True:
            process.send("y")
    session.exec("touch go")
    sending.result()
    process.close_stdin()
    assert int(process.wait().stdout) >= 3 << 20


def test_input_that_nobody_takes(session):
    process = session.start("exec <&-; echo closed; sleep 1000")
    shown(process, "closed")
    with pytest.raises(limpet.BadRequest):
        while True:
            process.send("x")
    process.send_signal(signal.SIGKILL)
    assert process.wait().signal == signal.SIGKILL
    for ask in (lambda: process.send("x"), process.close_stdin, process.send_signal):
        with pytest.raises(limpet.NoSuchRun):
            ask()


def test_signals(session):
    line = "trap 'echo parent' USR1; sh -c \"trap 'echo child' USR1; echo ready; while :; do sleep 0.01; done\" & "
    process = session.start(line + "while :; do sleep 0.01; done")
    shown(process, "ready")
    process.send_signal(signal.SIGUSR1, alone=True)
    shown(process, "parent")
    assert "child" not in process.output().text
    process.send_signal(signal.SIGUSR1)
    shown(process, "child")
    with pytest.raises(limpet.BadRequest):
        process.send_signal(0)
    process.send_signal(signal.SIGKILL)
    assert process.wait().status == "crashed"


def test_signals_by_name(session):
    process = session.start("trap 'echo told' INT; echo ready; while :; do sleep 0.01; done")
    shown(process, "ready")
    for signal_ in ("INT", "SIGINT", "int", 2):
        before = process.output().next
        process.send_signal(signal_)
        wait_for(lambda: process.output(before).text == "told\n")
    with pytest.raises(limpet.BadRequest, match="no signal 'NOTHING'"):
        process.send_signal("NOTHING")


def test_the_attributes_of_a_process(session):
    before = time.time()
    process = session.start("read line; exit 3", name="reader")
    assert (process.name, process.command, process.running, process.pty) == ("reader", "read line; exit 3", True, None)
    assert process.pid > 1 and before - 1 < process.created < time.time() + 1 and process.exit_code is None
    with pytest.raises(TimeoutError, match="reader still runs"):
        process.wait(0)
    process.close_stdin()
    process.wait()
    assert process.running
    process.refresh()
    assert (process.running, process.exit_code, process.signal) == (False, 3, None)
    found = session.process("reader")
    assert (found.id, found.exit_code, found.command) == (process.id, 3, "read line; exit 3")
    again = session.process(process.pid)
    assert again.id == process.id


def test_callbacks_of_what_it_writes(session):
    process = session.start("printf 'caf\\303'; read line; printf '\\251'; echo err >&2; exit 4")
    out, err = [], []
    following = Asking(lambda: process.follow(on_stdout=out.append, on_stderr=err.append))
    wait_for(lambda: out == ["caf"])
    process.send("\n")
    assert following.result().exit_code == 4
    assert ("".join(out), "".join(err)) == ("café", "err\n")


def test_an_interrupt(client, session):
    process = session.start("sleep 1000")
    assert not session.interrupt()  # that means the running cell
    assert client.interrupt(process.id)
    assert process.wait().status == "interrupted"


# Tells when it is there, and when it goes on after it stood still.
# It does not wait for good, as it would when a signal comes a moment before it does: Python would only note it.
PATIENT = (
    'import os, signal, time; signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"cont" b"inued")); '
    'os.write(1, b"beg" b"un"); [time.sleep(0.02) for _ in iter(int, 1)]'
)


class Screen:
    """What a terminal shows, read on from where it was last read."""

    def __init__(self, process):
        self.process, self.next, self.rest = process, 0, ""

    def until(self, wanted):
        """What it showed before that."""
        while wanted not in self.rest:
            output = self.process.output(self.next, None)
            assert output.pieces or not output.ended, f"{wanted!r} did not come: {self.rest!r}"
            self.next, self.rest = output.next, self.rest + output.text
        before, _, self.rest = self.rest.partition(wanted)
        return before


def test_a_terminal(session):
    """Types only at a prompt: what comes while a shell takes its terminal back may be lost, as at any terminal."""
    process = session.start(["bash", "--norc"], pty=(90, 30), env={"PS1": "> "})
    screen = Screen(process)
    screen.until("> ")
    process.send("tty; stty size; echo $TERM; python3 -c 'import sys; print(sys.stdin.isatty())'\n")
    text = screen.until("True")
    assert "/dev/pts/" in text and "30 90" in text and "xterm-256color" in text
    screen.until("> ")
    process.send("trap 'stty size' WINCH; echo trap''ped\n")
    screen.until("trapped")
    screen.until("> ")
    process.resize(100, 40)
    process.send("\n")
    screen.until("40 100")
    process.refresh()
    assert process.pty == (100, 40)
    screen.until("> ")
    process.send(f"python3 -c '{PATIENT}'\n")
    screen.until("begun")
    process.send("\x1a")
    screen.until("Stopped")
    screen.until("> ")
    process.send("fg\n")
    screen.until("continued")
    process.send("\x03")
    screen.until("> ")
    process.send("echo status $((100 + 30)) $?\n")
    screen.until("status 130 130")
    screen.until("> ")
    process.close_stdin()
    assert process.wait().status in ("ok", "error")


def test_what_is_written_to_a_terminal_at_the_end(session):
    for size in (1, 4000, 60000):
        process = session.start(["python3", "-c", f"print('x' * {size} + 'end')"], pty=True)
        assert process.wait().stdout == "x" * size + "end\r\n"
        assert text_of(process) == "x" * size + "end\r\n"


def test_what_runs_in_a_shell_is_not_stopped_by_resets(session):
    shell = session.start(["bash", "--norc"], pty=True)
    shell.send("touch begun; sleep 1000\n")
    wait_for(lambda: session.files.exists("begun"))
    for _ in range(20):
        session.reset()
    shell.send("\x03")
    shell.send("exit\n")
    shell.wait(60)
    assert "Stopped" not in text_of(shell)


def test_only_what_has_a_terminal_is_resized(session):
    process = session.start("sleep 1000")
    with pytest.raises(limpet.BadRequest, match="no terminal"):
        process.resize(10, 10)


def test_names(session):
    process = session.start("sleep 1000", name="web")
    with pytest.raises(limpet.BadRequest, match="runs already"):
        session.start("true", name="web")
    session.process("web").kill()
    process.wait()
    process.kill()
    again = session.start("echo again", name="web")
    assert text_of(session.process("web")) == "again\n" and again.id != process.id
    for bad in ("", "123", "x" * 65):
        with pytest.raises((limpet.BadRequest, limpet.TooLarge)):
            session.start("true", name=bad)
    with pytest.raises(limpet.NoSuchRun, match="no process 'nobody'; none runs"):
        session.process("nobody")


def test_what_is_listed(session):
    process = session.start("sleep 1000", name="sleeper")
    pty = session.start(["sleep", "1000"], pty=True)
    ended = session.start("exit 7")
    ended.wait()
    rows = {row.id: row for row in session.processes()}
    assert (rows[process.id].name, rows[process.id].kind, rows[process.id].running) == ("sleeper", "process", True)
    assert rows[process.id].command == rows[pty.id].command == "sleep 1000"
    assert (rows[pty.id].pty, rows[process.id].pty) == ((80, 24), None)
    assert (rows[ended.id].running, rows[ended.id].exit_code) == (False, 7)
    begun = Asking(session.exec, "touch begun; until [ -e go ]; do sleep 0.05; done")
    wait_for(lambda: session.files.exists("begun"))
    assert [row.kind for row in session.processes()].count("command") == 1
    session.exec("touch go")
    begun.result()
    assert "command" not in [row.kind for row in session.processes()]


def test_what_is_left_behind(session):
    session.start("sleep 1000 & echo $!").wait()
    wait_for(lambda: "sleep 1000" in [row.command for row in session.processes()])  # it runs another program first
    [orphan] = [row for row in session.processes() if row.kind == "orphan"]
    assert orphan.command == "sleep 1000" and orphan.id == str(orphan.pid)
    orphan.kill()
    wait_for(lambda: "orphan" not in [row.kind for row in session.processes()])
    with pytest.raises(limpet.NoSuchRun):
        session.process("1").send_signal(signal.SIGKILL)


def test_as_many_as_there_may_be(session):
    processes = [session.start("sleep 1000") for _ in range(64)]
    for one_more in (lambda: session.start("true"), lambda: session.exec("true")):
        with pytest.raises(limpet.Busy, match="64"):
            one_more()
    for process in processes:
        process.send_signal(signal.SIGKILL)
    for process in processes:
        process.wait()
    wait_for(lambda: [row.running for row in session.processes()] == [False] * 16)
    assert processes[-1].output().ended


def test_of_a_process_that_ended_before_others_the_result_has_what_it_wrote(session):
    first = session.start("echo out; echo err >&2")
    plain = session.start("echo 0123456789")
    much = session.start("seq 1000000", name="much")
    for process in (first, plain, much):
        process.wait()
    for process in [session.start("true") for _ in range(16)]:
        process.wait()
    wait_for(lambda: first.id not in [row.id for row in session.processes()])
    assert [(output.stdout, output.stderr, output.ended) for output in first.follow()] == [("out\n", "err\n", True)]
    assert (plain.output(4).data, plain.output(4).dropped, plain.output(11).text) == (b"456789\n", 0, "")
    for output in (first.output(3), much.output()):  # of two streams it does not know the order, or has not all
        assert output.ended and output.dropped > 0 and not output.text
    with pytest.raises(limpet.NoSuchRun):
        session.process("much")
    with pytest.raises(limpet.NoSuchRun):
        session.process("0" * 32)
    assert (session.process(first.id).running, session.process(first.id).exit_code) == (False, 0)


def test_a_process_is_of_its_session(client):
    with client.open() as one, client.open() as other:
        process = one.start("echo secret")
        process.wait()
        with pytest.raises(limpet.NoSuchRun):
            other.process(process.id)
        with pytest.raises(limpet.NoSuchRun):
            one.process(one.run("1").run_id)


def test_started_once(session):
    run_id = os.urandom(16).hex()
    command = "echo once >> log; echo written; sleep 1000"
    first = session.start(command, run_id=run_id)
    assert session.start(command, run_id=run_id).id == first.id == run_id
    shown(first, "written")
    first.send_signal(signal.SIGKILL)
    first.wait()
    session.start(command, run_id=run_id)
    assert session.exec("cat log").stdout == "once\n"
    with pytest.raises(limpet.BadRequest, match="used for something else"):
        session.start("echo other", run_id=run_id)


def test_python_and_branches_come_and_go_beside_it(session):
    session.run("x = 1")
    branch = session.branch("try")
    process = branch.start("echo begun; read line; echo lived")
    shown(process, "begun")
    branch.close()
    session.rollback(session.checkpoint())
    session.reset()
    assert session.run("import os; os._exit(7)").status == "exited"
    session.process(process.id).send("\n")
    assert text_of(session.process(process.id)) == "begun\nlived\n"


def test_it_ends_with_its_session(client, name):
    session = client.open(name)
    process = session.start("echo begun; sleep 1000")
    shown(process, "begun")
    waiting = Asking(client.result, process.id)
    following = Asking(list, process.follow(6))
    session.close()
    result = waiting.result()
    assert (result.status, result.error.name) == ("failed", "SandboxLost")
    with pytest.raises(limpet.Error):
        following.result()


def test_a_session_ends_for_idleness_unless_somebody_waits(limpetd, client, name):
    left, used, run_id = f"{name}-left", f"{name}-used", os.urandom(16).hex()
    # On one connection, and without waiting: nobody's time can be over before all of it has been asked.
    with contextlib.closing(RawClient(limpetd.socket)) as peer:
        asked = []
        for session, id in (left, os.urandom(16).hex()), (used, run_id):
            asked.append(peer.ask("open", session=session, ttl=0.5, ttl_action="close"))
            asked.append(peer.ask("start", session=session, command="sleep 1000", run_id=id))
        waiting = peer.ask("result", run_id=run_id)
        for each in asked:
            peer.answer(each)
        wait_for(lambda: left not in [info.session for info in client.sessions()])
        session = client.attach(used)
        assert session.run("1").ok
        session.process(run_id).send_signal(signal.SIGKILL)
        assert peer.answer(waiting)["record"]["signal"] == signal.SIGKILL
        session.close()


def test_artifacts_are_published_at_its_end(limpetd, session):
    path = "/session/artifacts/a" if limpetd.isolates else "artifacts/a"
    process = session.start(f"mkdir -p artifacts; echo data > {path}")
    assert set(process.wait().artifacts) == {"/session/artifacts/a"}


@pytest.mark.docker
def test_it_goes_on_while_controllers_come_and_go(own_limpetd, name):
    limpetd = own_limpetd.start()
    with limpetd.client() as client:
        session = client.open(name)
        session.run("x = 41")
        run_id = os.urandom(16).hex()
        line = "echo begun; while read line; do echo got $line; done; echo end"
        process = session.start(line, run_id=run_id, name="reader")
        shown(process, "begun")
        following = Asking(patient_text_of, process)
        waiting = Asking(patiently, process.wait)
        limpetd.kill()
        limpetd.start()
        assert session.start(line, run_id=run_id, name="reader").id == run_id
        process.send("one\n")
        limpetd.kill()
        limpetd.start()
        process.send("two\n")
        assert [row.name for row in session.processes()] == ["reader"]
        process.close_stdin()
        assert following.result() == "begun\ngot one\ngot two\nend\n"
        assert waiting.result().stdout == "begun\ngot one\ngot two\nend\n"
        assert process.output().ended and session.run("x + 1").result == "42"


def test_it_ends_while_no_controller_is_there(own_limpetd, name):
    limpetd = own_limpetd.start()
    with limpetd.client() as client:
        session = client.open(name)
        process = session.start("until [ -e go ]; do sleep 0.05; done; echo over > over; echo ended")
        waiting = Asking(patiently, process.wait)
        limpetd.kill()
        files = os.path.join(limpetd.directory, "state", "sessions", name, "files")
        with open(os.path.join(files, "go"), "wb"):
            pass
        wait_for(lambda: os.path.exists(os.path.join(files, "over")))
        limpetd.start()
        assert waiting.result().stdout == "ended\n" and text_of(process) == "ended\n"


def test_asyncio(limpetd, name):
    async def run():
        async with limpet.AsyncClient(limpetd.socket) as client, await client.open(name) as session:
            process = await session.start("read line; echo got $line", name="reader")
            follower = asyncio.ensure_future(anext(process.follow()))
            await process.send("one\n")
            assert (await follower).text == "got one\n"
            assert (await process.wait()).ok
            assert [row.name for row in await session.processes()] == ["reader"]

    asyncio.run(run())
