"""Threads, Python's and those of libraries, go on in whatever a checkpoint is brought back to."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from .harness import CheckpointFailed, Interpreter
from .test_checkpoints import become_limited

SOURCE = Path(__file__).parent / "native_threads.c"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("library") / "native_threads.so"
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", SOURCE, "-o", path], check=True)
    return path


@pytest.fixture
def native(session, library):
    return load(session, library)


def load(session, library):
    assert session.run(f"import ctypes, os, time\nnative = ctypes.CDLL('{library}')").error is None
    session.run("turns, mistakes = (ctypes.c_long.in_dll(native, name) for name in ('turns', 'mistakes'))")
    return session


ON = """
before = turns.value
while turns.value == before: time.sleep(0.001)
mistakes.value"""


def comes_back(session):
    """A rollback, a branch and the original."""
    frozen = session.checkpoint()
    restored = frozen.restore(), frozen.restore(branched=True)
    for peer in restored:
        assert peer.not_restored == []
    return *restored, session


# Threads of libraries


def test_a_pool_that_waits(native):
    assert native.value("native.pool_start(4); native.pool_sum(4)") == 14
    for peer in comes_back(native):
        assert peer.value("native.pool_sum(4)") == 14
        assert peer.value("len(os.listdir('/proc/self/task'))") == 5


def test_a_copy_of_a_copy_of_a_copy(native):
    native.value("native.pool_start(3); native.pool_sum(3)")
    current = native
    for _ in range(8):
        current = current.checkpoint().restore()
        assert current.value("native.pool_sum(3)") == 5


@pytest.mark.parametrize("rounds", [3, pytest.param(15, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "kind, threads",
    [("allocate", 3), ("lock_twice", 2), ("write_and_read", 2), ("bear", 2), ("small_stack", 2), ("wait_in_kernel", 1), ("flood", 1)],
)
def test_threads_that_never_pause(native, kind, threads, rounds):
    """Whatever they are at, locks of the C library's allocator included."""
    native.value(f"native.busy_start(b'{kind}', {threads})")
    for _ in range(rounds):
        frozen = native.checkpoint()
        restored = frozen.restore()
        assert restored.value(ON) == 0
        assert restored.checkpoint().restore().value(ON) == 0
        restored.close()
        frozen.restored.clear()
        assert frozen.drop() == 0
        native.frozen.clear()
    assert native.value(ON) == 0


def test_what_the_kernel_knows_of_a_thread(native):
    native.run("native.marked_start()")
    expected = native.value("[native.marked_ask(i) for i in range(7)]")
    assert expected == [1, 7, 1, 1, 0, 0, 0]
    for peer in comes_back(native):
        assert peer.value("[native.marked_ask(i) for i in range(7)]") == expected


def test_a_thread_that_is_joined(native):
    native.run("native.joined_start()")
    for peer in comes_back(native):
        assert peer.value("native.joined_end()") == 42


def test_a_child_that_saves_hears_nothing(native):
    """Threads of libraries go on in it, and have the same files as here."""
    code = """
import _limpet
to = native.listener_start()
heard, tell = os.pipe()
if (child := _limpet.fork(tell)) == 0:
    os.write(tell, b'x'); time.sleep(60)
    os._exit(0)
os.read(heard, 1)
for _ in range(1000): os.write(to, b'x')
os.kill(child, 9); os.waitpid(child, 0)
end = time.monotonic() + 20
while turns.value < 1000 and time.monotonic() < end: time.sleep(0.001)
turns.value"""
    assert native.value(code) == 1000


def test_a_thread_that_cannot_be_stopped(native):
    native.run("x = 1; native.pool_start(2); native.deaf_start()")
    begun = time.monotonic()
    with pytest.raises(CheckpointFailed) as failed:
        native.checkpoint()
    assert time.monotonic() - begun < 30
    assert re.fullmatch(r"thread \d+ \(deaf one\) could not be stopped in time", str(failed.value))
    assert native.value("native.pool_sum(2)") == 1
    native.run("native.deaf_end()")
    assert native.checkpoint().restore().value("native.pool_sum(2)") == 1


def test_no_room_for_threads(tmp_path, library):
    tmp_path.chmod(0o777)
    shutil.copy(library, tmp_path)
    interpreter = load(Interpreter(tmp_path, prepare=become_limited), "./native_threads.so")
    try:
        interpreter.run("import resource\nmost = resource.getrlimit(resource.RLIMIT_NPROC)[1]")
        interpreter.run("def allow(n, pid): resource.prlimit(pid, resource.RLIMIT_NPROC, (n, most))")
        interpreter.run("native.pool_start(4); native.pool_sum(4)")
        frozen = interpreter.checkpoint()
        # One for its main thread, and not as many more.
        interpreter.run(f"allow(8, {frozen.process.pid})")
        with pytest.raises(CheckpointFailed, match="no more processes"):
            frozen.restore()
        interpreter.run(f"allow(most, {frozen.process.pid})")
        assert frozen.restore().value("native.pool_sum(4)") == 14
    finally:
        interpreter.close()


# Python's


def test_threads_go_on_where_they_were(session):
    session.run("""
import threading, time
counted = []
def count():
    for i in range(10 ** 9):
        counted.append(i)
        time.sleep(0.001)
threading.Thread(target=count, daemon=True).start()
while len(counted) < 3: time.sleep(0.001)
""")
    for peer in comes_back(session):
        code = "n = len(counted)\nwhile len(counted) < n + 3: time.sleep(0.001)\ncounted == list(range(len(counted)))"
        assert peer.value(code) is True


def test_threads_end_and_are_joined(session):
    session.run("""
import threading
go, seen = threading.Event(), []
def work():
    go.wait()
    seen.append(threading.current_thread().name)
thread = threading.Thread(target=work, name='worker'); thread.start()
""")
    for peer in comes_back(session):
        assert peer.value("go.set(); thread.join(); seen, thread.is_alive(), threading.active_count()") == (
            ["worker"],
            False,
            1,
        )


def test_threads_that_compute_and_sleep_and_wait(session):
    session.run("""
import threading, time, queue
jobs, out = queue.Queue(), queue.Queue()
def spin():
    while True: sum(range(1000))
def serve():
    while True: out.put(jobs.get() + 1)
for f in spin, spin, serve: threading.Thread(target=f, daemon=True).start()
""")
    for _ in range(3):
        for peer in comes_back(session):
            assert peer.value("jobs.put(1); out.get()") == 2
        for frozen in session.frozen:
            frozen.close()
        session.frozen.clear()


def test_what_python_and_the_kernel_call_threads(session):
    session.run("import os, threading\nstop = threading.Event()")
    session.run("for i in range(3): threading.Thread(target=stop.wait, daemon=True).start()")
    for peer in comes_back(session):
        named = "sorted(thread.native_id for thread in threading.enumerate())"
        assert peer.value(f"{named} == sorted(map(int, os.listdir('/proc/self/task')))") is True


def test_signals_for_a_thread(session):
    session.run("""
import signal, threading
got = []
def wait():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    ready.set()
    got.append(signal.sigwait([signal.SIGUSR1]))
ready = threading.Event()
thread = threading.Thread(target=wait, daemon=True); thread.start(); ready.wait()
""")
    for peer in comes_back(session):
        assert peer.value("signal.pthread_kill(thread.ident, signal.SIGUSR1); thread.join(); [int(n) for n in got]") == [10]


def test_nothing_is_told_of_a_fork(session):
    """What a library does then gives up its threads."""
    session.run("""
import os, random, threading
log, stop = [], threading.Event()
os.register_at_fork(before=lambda: log.append('before'), after_in_parent=lambda: log.append('parent'),
                    after_in_child=lambda: log.append('child'))
threading.Thread(target=stop.wait, daemon=True).start()
random.seed(1)
""")
    restored, branch, original = comes_back(session)
    assert [peer.value("log") for peer in (restored, branch, original)] == [[], [], []]
    drawn = [peer.value("random.random()") for peer in (restored, original, branch)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_output_of_threads(session):
    session.run("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()")
    for peer in comes_back(session):
        reply = peer.run("""
import sys
print('out'); print('err', file=sys.stderr)
thread = threading.Thread(target=print, args=('from a thread',)); thread.start(); thread.join()""")
        assert (reply.stdout, reply.stderr) == ("out\nfrom a thread\n", "err\n")


def test_matrices_at_the_same_time(tmp_path):
    """OpenBLAS waits, when it is told of a fork, for threads that may never come."""
    interpreter = Interpreter(tmp_path, env={"OPENBLAS_NUM_THREADS": "2"})
    try:
        if interpreter.run("import numpy as np, threading, time").error:
            pytest.skip("there is no numpy")
        interpreter.run("""
m, count = np.ones((300, 300)), [0]
def work():
    while True: m @ m; count[0] += 1
threading.Thread(target=work, daemon=True).start()
""")
        for _ in range(3):
            for peer in comes_back(interpreter):
                code = "n = count[0]; r = float((m @ m)[0, 0])\nwhile count[0] < n + 3: time.sleep(0.001)\nr"
                assert peer.value(code) == 300.0
            for frozen in interpreter.frozen:
                frozen.close()
            interpreter.frozen.clear()
    finally:
        interpreter.close()
