"""How a call may end, and what becomes of the state that no checkpoint protects; test_variables.py has that which one
does."""

import io
import pathlib
import signal
import threading

import limpet
import pytest

from .killed import wait_for


@pytest.fixture
def session(client, name):
    with client.open(name, checkpoint="off") as session:
        yield session


def lost(result, status, name):
    assert (result.status, result.state, result.rolled_back_to) == (status, "lost", None), (
        result,
        result.error,
    )
    assert result.error.name == name and result.error.message
    assert result.epoch == 2


def works_again(session, count=3):
    result = session.run("'x' in globals()")
    assert (result.status, result.result, result.epoch, result.execution_count) == ("ok", "False", 2, count)


def test_timeout_in_a_loop(session):
    session.run("x = 1")
    result = session.run("while True: pass", timeout=1)
    assert (result.status, result.state, result.epoch) == ("timeout", "kept", 1)
    assert result.error.name == "KeyboardInterrupt" and "while True" in result.error.traceback
    assert (result.signal, result.exit_code) == (None, None)
    assert result.duration >= 1
    assert session.run("x").result == "1"


def test_timeout_that_the_code_catches(session):
    result = session.run(
        "import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    x = 'caught'", timeout=2
    )
    assert (result.status, result.state, result.error.name) == ("timeout", "kept", "Timeout")
    assert session.run("x").result == "'caught'"


@pytest.mark.proves("security: endless code")
def test_timeout_that_nothing_interrupts(session):
    session.run("x = 1")
    result = session.run("print('before')\nsum(range(10**12))", timeout=1)
    lost(result, "timeout", "TimeoutKilled")
    assert result.stdout == "before\n"
    works_again(session)


@pytest.mark.proves("security: endless code")
def test_timeout_that_the_code_ignores(session):
    code = "import time\nwhile True:\n    try:\n        time.sleep(60)\n    except KeyboardInterrupt: pass"
    lost(session.run(code, timeout=2), "timeout", "TimeoutKilled")


def test_timeout_of_the_session(client, name):
    with client.open(name, timeout=1) as session:
        assert session.options["timeout"] == 1
        assert session.run("import time; time.sleep(60)").status == "timeout"


def test_children_are_ended_with_the_interpreter(session):
    code = "import subprocess\np = subprocess.Popen(['sleep', '1000'])\nprint(p.pid)\nimport os; os.abort()"
    pid = session.run(code).stdout.strip()
    # It was killed, and may have the rest of its end still before it.
    check = f"import os, time\ntry:\n    while True: os.kill({pid}, 0), time.sleep(0.01)\nexcept OSError:\n    ended = True\nended"
    assert session.run(check).result == "True"


def test_exit(session):
    session.run("x = 1")
    result = session.run("import os\nprint('last words', flush=True)\nos._exit(3)")
    lost(result, "exited", "Exited")
    assert (result.exit_code, result.signal, result.stdout) == (3, None, "last words\n")
    works_again(session)


def test_segmentation_fault(session):
    session.run("x = 1")
    result = session.run("import ctypes\nctypes.string_at(0)")
    lost(result, "crashed", "Crashed")
    assert (result.signal, result.exit_code) == (signal.SIGSEGV, None)
    works_again(session)


def test_exec_replaces_the_interpreter(session):
    session.run("x = 1")
    lost(session.run("import os\nos.execv('/bin/true', ['true'])"), "exited", "Exited")
    works_again(session)


@pytest.mark.docker
@pytest.mark.engine
@pytest.mark.proves("security: too much memory, processes, processor time")
def test_out_of_memory(client, name, limpetd):
    if not limpetd.isolates:
        pytest.skip("the local engine has no memory limit")
    with client.open(name, memory="128m", checkpoint="off") as session:
        assert session.options["memory"] == 128 << 20
        result = session.run("x = b'x' * (1 << 30)\nlen(x)", timeout=60)
        if result.status == "error":
            assert (result.error.name, result.state) == ("MemoryError", "kept")
        else:
            lost(result, "oom", "OutOfMemory")
        assert session.run("6 * 7").result == "42"


@pytest.mark.proves("security: too much output")
def test_a_hundred_megabytes_of_output(session):
    code = (
        "import sys\nline = 'x' * 1023 + '\\n'\nfor _ in range(100 * 1024):\n    _ = sys.stdout.write(line)"
    )
    result = session.run(code, timeout=120)
    assert result.ok and result.truncated
    assert (result.stdout_bytes, result.stderr_bytes, result.stderr_file) == (100 << 20, 0, None)
    assert 0 < len(result.stdout) <= 1 << 20 and result.stdout.startswith("xxx")
    whole = io.BytesIO()
    session.get(result.stdout_file, whole)
    assert 1 << 20 < len(whole.getvalue()) <= 64 << 20
    assert set(whole.getvalue()[:2048]) == set(b"x\n")


SAY = "print('started', flush=True)\n"


def running(session, code, **options):
    """Starts a call in a thread; returns when its first output has come, with the thread and its results."""
    results, started = [], threading.Event()

    def work():
        results.append(session.run(code, on_stdout=lambda text: started.set(), **options))

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(60)
    return thread, results


def test_interrupt_from_another_thread(session):
    session.run("x = 1")
    thread, results = running(session, SAY + "while True: pass", timeout=60)
    assert session.interrupt() is True
    thread.join(30)
    assert (results[0].status, results[0].state, results[0].error.name) == (
        "interrupted",
        "kept",
        "KeyboardInterrupt",
    )
    assert session.run("x").result == "1"


def test_interrupt_that_the_code_catches(session):
    code = (
        "import time\n"
        "try:\n    print('started', flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt: pass"
    )
    thread, results = running(session, code, timeout=60)
    session.interrupt()
    thread.join(30)
    assert (results[0].status, results[0].state, results[0].error.name) == (
        "interrupted",
        "kept",
        "Interrupted",
    )


def test_interrupt_that_nothing_heeds(session):
    # It says so within the sum, which looks for no signals.
    code = "import itertools, os\nsum(itertools.chain(map(os.write, [1], [b'started\\n']), range(10**12)))"
    thread, results = running(session, code, timeout=60)
    session.interrupt()
    thread.join(30)
    lost(results[0], "interrupted", "InterruptKilled")
    works_again(session, count=2)


def test_interrupt_of_an_idle_session_does_nothing(session):
    assert session.interrupt() is False
    assert session.run("6 * 7").result == "42"
    assert session.interrupt() is False


def test_reset(session):
    session.run("x = 1\nopen('kept.txt', 'w').write('file')")
    session.reset()
    works_again(session, count=2)
    assert session.run("open('kept.txt').read()").result == "'file'"


def test_reset_of_a_running_call(session):
    thread, results = running(session, SAY + "import time\ntime.sleep(60)", timeout=60)
    session.reset()
    thread.join(30)
    assert results[0].status in ("interrupted", "failed") and results[0].state == "lost"
    assert session.run("6 * 7").result == "42"


def test_close_of_a_running_call(client, name):
    session = client.open(name)
    thread, results = running(session, SAY + "import time\ntime.sleep(60)", timeout=60)
    client.open(name).close()
    thread.join(30)
    assert results[0].status == "failed" and results[0].error.name
    with pytest.raises(limpet.NoSuchSession):
        session.run("1")


LEAVES = """
import atexit, os
os.makedirs('artifacts', exist_ok=True)
file = open('artifacts/left', 'w')
atexit.register(file.write, 'text')
atexit.register(print, 'bye')
"""


def left(result):
    """What a session that runs LEAVES leaves in its artifact."""
    (path,) = result.artifacts.values()
    return pathlib.Path(path).read_text()


def test_exit_functions_run_when_it_is_closed(client, name):
    session = client.open(name, checkpoint="always")
    result = session.run(LEAVES)
    assert left(result) == "" and session.run("import os; os._exit(1)").status == "exited"
    session.run("import threading; threading.Thread(target=threading.Event().wait).start()")
    assert left(result) == ""
    assert session.close() == limpet.Between("bye\n", "", 0)
    assert left(result) == "text"


@pytest.mark.parametrize(
    "leave",
    [
        "import multiprocessing, time; multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,)).start()",
        "from concurrent.futures import ProcessPoolExecutor; pool = ProcessPoolExecutor(2); list(pool.map(abs, [1, 2]))",
    ],
    ids=["process", "pool"],
)
def test_processes_do_not_hold_up_its_end(client, name, leave):
    session = client.open(name)
    assert session.run("import atexit, multiprocessing.util; atexit.register(print, 'bye')\n" + leave).status == "ok"
    assert session.close() == limpet.Between("bye\n", "", 0)


@pytest.mark.parametrize("way", ["ttl", "stop"])
def test_exit_functions_run_when_nobody_closes_it(own_limpetd, way):
    own_limpetd.start()
    with own_limpetd.client() as client:
        result = client.open("a", ttl=0.5 if way == "ttl" else 600, ttl_action="close").run(LEAVES)
        if way == "ttl":
            wait_for(lambda: not client.sessions())
        else:
            client.shutdown()
    assert left(result) == "text"


@pytest.mark.long
def test_exit_functions_are_ended_in_time(client, name):
    session = client.open(name)
    session.run("import atexit, time; atexit.register(print, 'bye'); atexit.register(time.sleep, 600)")
    said = session.close()
    assert said.stdout == "bye\n" and "KeyboardInterrupt" in said.stderr


def test_a_callback_that_raises(session):
    def on_stdout(text):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        session.run("print(1, flush=True)\nimport time\ntime.sleep(60)", on_stdout=on_stdout, timeout=60)
    assert caught.value.limpet_result.status == "interrupted"
    assert session.run("6 * 7").result == "42"
