"""Interrupt, restart, loss of the state, and the end: of the kernel and of its session."""

import os
import signal
import socket
import subprocess
import sys
import time

import limpet
import pytest
from jupyter_client.connect import write_connection_file
from jupyter_client.manager import KernelManager
from limpet._calls._asks import NO_ASKS
from limpet.jupyter import _options, _sandbox
from limpet.jupyter._sandbox import Sandbox

WAIT = 60
QUIET = [lambda shown: None] * 3 + [NO_ASKS]
ENDLESS = "mark = 5\nprint('runs', flush=True)\nwhile True: pass"


def started(notebook, code=ENDLESS):
    request = notebook.start(code)
    notebook.until(request, lambda message: message["content"].get("text") == "runs\n")
    return request


def eventually(condition):
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def by_message(notebook):
    notebook.manager.interrupt_kernel()


def by_signal(notebook):
    os.kill(notebook.manager.provisioner.pid, signal.SIGINT)


@pytest.mark.parametrize("interrupt", [by_message, by_signal])
def test_an_interrupt_keeps_the_variables(notebook, interrupt):
    request = started(notebook)
    interrupt(notebook)
    cell = notebook.finish(request)
    assert cell.of("error")[0]["ename"] == "KeyboardInterrupt" and cell.stderr == ""
    assert notebook.run("mark").result == "5"


def test_an_interrupt_of_nothing_does_nothing(notebook):
    by_message(notebook)
    by_signal(notebook)
    assert notebook.run("1 + 1").result == "2"


def test_an_interrupt_before_the_session_is_open_is_not_lost(own_notebook):
    notebook = own_notebook()
    request = notebook.start("while True: pass")
    notebook.until(request, lambda message: message["content"].get("execution_state") == "busy")
    by_message(notebook)
    assert notebook.finish(request).of("error")[0]["ename"] in ("KeyboardInterrupt", "Interrupted")


def test_a_session_that_could_not_be_told_that_it_is_a_notebook_s_is_told_again(limpetd, monkeypatch):
    options, _ = _options.read(["--address", limpetd.socket, "-f", "untold.json"])
    sandbox = Sandbox(options, "untold.json")
    with monkeypatch.context() as patch:
        patch.setattr(_sandbox, "NOTEBOOK", "(1 / 0)")
        assert sandbox.begin() == 1 and not sandbox.has_begun
    assert sandbox.begin() == 2 and sandbox.has_begun
    assert sandbox.begin() is None
    sandbox.end(restart=False)


def test_an_interrupt_before_the_call_is_not_lost(limpetd):
    """The cell has begun, so a frontend shows it as running; but what it asks for is still being made."""
    options, _ = _options.read(["--address", limpetd.socket, "-f", "early.json"])
    sandbox = Sandbox(options, "early.json")
    sandbox.interrupt()  # nothing has begun
    assert sandbox.run("1", *QUIET).status == "ok"
    with sandbox.expecting():
        sandbox.interrupt()
        assert sandbox.run("while True: pass", *QUIET).status == "interrupted"
        assert sandbox.run("1", *QUIET).status == "ok"
    sandbox.end(restart=False)


def test_what_others_run_in_the_session_is_not_interrupted(install, own_notebook, limpetd):
    notebook = own_notebook(install("of-two", "--session", "of-two"))
    notebook.run("done = False")
    with limpetd.client() as client:
        other = client.open("of-two")
        by_message(notebook)
        result = other.run("import time\ntime.sleep(0.3)\ndone = True")
        assert result.status == "ok"
        assert notebook.run("done").result == "True"


def test_a_crash_is_told_with_the_cell_it_went_back_to(own_notebook):
    notebook = own_notebook()
    notebook.run("kept = 1")
    count = notebook.run("kept = 2").reply["execution_count"]
    notebook.run("%limpet checkpoint")
    cell = notebook.run("kept = 3\nimport os; os._exit(3)")
    assert cell.of("error")[0]["ename"] == "Exited"
    assert "are as call" in cell.stderr and f"(that was In [{count}])" in cell.stderr
    assert notebook.run("kept").result == "2"


def test_a_loss_is_told(install, own_notebook):
    notebook = own_notebook(install("unprotected", "--checkpoint", "off"))
    notebook.run("kept = 1")
    assert "are lost" in notebook.run("import os; os._exit(3)").stderr
    assert notebook.run("kept").of("error")[0]["ename"] == "NameError"


def restarted(notebook, now):
    """With new channels: by what the old kernel has said last, the ones it had seem to be connected to the new one."""
    notebook.client.stop_channels()
    notebook.manager.restart_kernel(now=now)
    notebook.begin()
    return notebook


@pytest.mark.parametrize("now", [False, True])
def test_a_restart_begins_without_variables_and_keeps_files(own_notebook, now):
    notebook = own_notebook(whole=now)
    notebook.run("gone = 1\nopen('kept.txt', 'w').write('kept')")
    cell = restarted(notebook, now).run("open('kept.txt').read(), 'gone' in globals()")
    assert cell.result == "('kept', False)" and cell.reply["execution_count"] == 1


def test_a_restart_ends_a_cell_that_runs(own_notebook):
    notebook = own_notebook()
    started(notebook)
    assert restarted(notebook, now=False).run("'mark' in globals()").result == "False"


@pytest.mark.parametrize("after_a_restart", [False, True])
def test_a_session_of_its_own_ends_with_the_kernel(own_notebook, limpetd, after_a_restart):
    before = set(limpetd.sessions())
    notebook = own_notebook()
    notebook.run("1")
    (mine,) = set(limpetd.sessions()) - before
    assert mine.startswith("jupyter-")
    if after_a_restart:
        restarted(notebook, now=False)
    notebook.manager.shutdown_kernel()
    eventually(lambda: mine not in limpetd.sessions())


def test_a_named_session_is_shared_and_kept(install, own_notebook, limpetd):
    with limpetd.client() as client, client.open("agents") as agent:
        agent.run("found = 'by the agent'")
        notebook = own_notebook(install("with-agent", "--session", "agents"))
        assert notebook.run("found").result == "'by the agent'"
        notebook.run("def answer(): return 1 / 0")
        assert agent.run("answer()").error.name == "ZeroDivisionError"
        agent.run("def theirs(): return 1 / 0")
        assert " of agents>" in notebook.run("theirs()").traceback
        notebook.manager.shutdown_kernel()
        assert agent.run("found").result == "'by the agent'"


def test_a_session_that_was_closed_is_told(install, own_notebook, limpetd):
    notebook = own_notebook(install("closed-one", "--session", "closed-one"))
    notebook.run("x = 1")
    with limpetd.client() as client:
        client.open("closed-one").close()
    for _ in range(2):
        cell = notebook.run("x")
        assert cell.of("error")[0]["ename"] == "NoSuchSession" and "Restart the kernel" in cell.traceback
    assert restarted(notebook, now=False).run("'x' in globals()").result == "False"


def test_options_that_differ_are_told(install, own_notebook, limpetd):
    with limpetd.client() as client, client.open("as-it-is", memory="256m"):
        notebook = own_notebook(install("differing", "--session", "as-it-is", "--memory", "512m"))
        assert notebook.run("1").of("error")[0]["ename"] == "OptionsDiffer"


def test_a_controller_that_is_not_there_is_told(install, own_notebook, tmp_path):
    notebook = own_notebook(install("nobody", address=str(tmp_path / "nobody.sock")))
    assert notebook.run("1").of("error")[0]["ename"] == "Unavailable"
    assert notebook.ask("complete", "sor")["matches"] == ["sorted"]


def test_the_time_limit_is_the_one_that_was_given(install, own_notebook, limpetd):
    with limpetd.client() as client, client.open("hasty") as session:
        session.run("slow = 1")
        notebook = own_notebook(install("hasty", "--session", "hasty", "--timeout", "0.3"))
        assert notebook.run("while True: pass").status == "error"
        assert session.run("slow").result == "1"


def test_the_session_lives_while_the_kernel_does(install, own_notebook, limpetd):
    before = set(limpetd.sessions())
    notebook = own_notebook(install("short-lived", "--ttl", "15"))
    notebook.run("x = 1")
    (mine,) = set(limpetd.sessions()) - before
    idle = [0.0]

    def was_touched():
        idle.append(limpetd.sessions()[mine].idle)
        return idle[-1] < idle[-2]

    eventually(was_touched)  # though no cell runs
    assert notebook.run("x").result == "1"
    notebook.end(now=True)
    eventually(lambda: mine not in limpetd.sessions())


def test_the_connection_may_be_encrypted(install):
    manager = KernelManager(kernel_name="limpet", transport_encryption="required")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=WAIT)
        shown = []
        client.execute_interactive("print('secret')", timeout=WAIT, output_hook=shown.append)
        assert "secret\n" in [message["content"].get("text") for message in shown]
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def test_the_kernel_has_the_version_of_the_client(notebook):
    assert limpet.__version__ == notebook.ask("kernel_info")["implementation_version"]


@pytest.mark.parametrize("port", ["shell_port", "iopub_port"])
def test_a_port_that_is_taken_is_told_and_nothing_else(tmp_path, port):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        file, _ = write_connection_file(str(tmp_path / "kernel.json"), **{port: taken.getsockname()[1]})
        kernel = [sys.executable, "-m", "limpet.jupyter", "-f", file]
        ended = subprocess.run(kernel, capture_output=True, text=True, timeout=WAIT)
    assert "Address already in use" in ended.stderr and "Exception ignored" not in ended.stderr
