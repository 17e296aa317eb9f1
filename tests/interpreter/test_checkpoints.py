"""Frozen copies of the interpreter, and interpreters brought back from them."""

import os
import signal

import pytest

from .harness import CheckpointFailed, Interpreter, InterpreterDied


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def test_variables_come_back_as_they_were(session):
    session.run("x = [1]; import json")
    frozen = session.checkpoint()
    session.run("x.append(2); y = 3; del json")
    restored = frozen.restore()
    assert restored.value("x, json.dumps(x), 'y' in globals()") == ([1], "[1]", False)
    assert session.value("x, y") == ([1, 2], 3)


def test_not_even_python_knows_what_came_after(session):
    session.run("def f(): return 'before'")
    frozen = session.checkpoint()
    session.run("def f(): return 'after'\nimport wave, builtins, sys\nbuiltins.len = None; sys.path.clear()")
    restored = frozen.restore()
    assert restored.value("import sys\nf(), 'wave' in sys.modules, len([1]), len(sys.path) > 1") == (
        "before",
        False,
        1,
        True,
    )


def test_one_copy_is_brought_back_twice(session):
    session.run("x = []")
    frozen = session.checkpoint()
    first = frozen.restore()
    first.run("x.append('first')")
    second = frozen.restore()
    second.run("x.append('second')")
    assert (first.value("x"), second.value("x"), session.value("x")) == (["first"], ["second"], [])


def test_a_copy_of_a_copy_of_a_copy(session):
    session.run("trail = []")
    current = session
    for i in range(8):
        current.run(f"trail.append({i})")
        current = current.checkpoint().restore()
    assert current.value("trail") == list(range(8))
    assert session.value("trail") == [0]


def test_fifty_rounds(tmp_path):
    interpreter = Interpreter(tmp_path)
    interpreter.run("import random\nx = {}; random.seed(1)")
    expected = {}
    peers = [interpreter]
    try:
        for i in range(50):
            current = peers[-1]
            current.run(f"x[{i}] = 'v' * {i}")
            expected[i] = "v" * i
            frozen = current.checkpoint()
            current.run("x.clear(); del random")
            peers.append(frozen.restore())
            assert frozen.drop() == 0
            current.end()
            assert peers[-1].value("x") == expected
        assert peers[-1].value("random.randrange(10**9), len(x)") == (_second_of_seed_one(), 50)
    finally:
        for peer in peers:
            peer.frozen.clear()
            peer.close()


def _second_of_seed_one():
    import random

    return random.Random(1).randrange(10**9)


def test_copies_are_children_of_the_supervisor(session):
    frozen = session.checkpoint()
    restored = frozen.restore()
    assert parent_of(frozen.process.pid) == parent_of(restored.process.pid) == os.getpid()
    restored.start("import os; os._exit(41)")
    with pytest.raises(InterpreterDied) as died:
        restored.finish()
    assert died.value.args == (41,)
    assert frozen.drop() == 0


def test_a_copy_ends_with_its_supervisor(session):
    """What is set with PR_SET_PDEATHSIG cannot be read from outside; cells can ask for it."""
    ask = """
import ctypes
number = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(number))
number.value
"""
    assert session.checkpoint().restore().value(ask) == signal.SIGKILL


def test_what_waits_for_children_sees_no_copy(session):
    session.run(
        "import os, signal\ncalls = []\nsignal.signal(signal.SIGCHLD, lambda *unused: calls.append(1))"
    )
    for _ in range(5):
        session.checkpoint()
    code = """
try:
    seen = os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    seen = 'none'
seen, calls"""
    assert session.value(code) == ("none", [])


def test_a_thread_that_waits_for_a_child_gets_that_child(session):
    session.run("""
import os, subprocess, threading
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)
seen = []
thread = threading.Thread(target=lambda: seen.append(os.wait()[0]))
thread.start()
""")
    for _ in range(5):
        session.checkpoint()
    assert session.value("child.stdin.close(); thread.join(60); seen == [child.pid]") is True


def test_ignored_sigchld(session):
    session.run("import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nx = 1")
    frozen = session.checkpoint()
    assert frozen.restore().value("x, signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN") == (1, True)


def test_an_interpreter_that_collects_orphans(session):
    session.run("import ctypes\nctypes.CDLL(None).prctl(36, 1)\nx = 1")
    frozen = session.checkpoint()
    restored = frozen.restore()
    assert parent_of(frozen.process.pid) == parent_of(restored.process.pid) == os.getpid()
    ask = "number = ctypes.c_int(); ctypes.CDLL(None).prctl(37, ctypes.byref(number)); number.value"
    assert session.value(ask) == 1


def test_cells_cannot_tell_that_copies_are_made(session):
    look = "os.getpid(), os.getppid(), signal.pthread_sigmask(signal.SIG_BLOCK, [])"
    session.run(f"import os, signal\nbefore = {look}")
    session.checkpoint()
    assert session.value(f"({look}) == before") is True
    assert session.run("pass").spawned is False


def test_a_restored_interpreter_is_one_in_all_respects(session):
    session.run("import os, sys, threading, time")
    restored = session.checkpoint().restore()
    reply = restored.run("print('out'); print('err', file=sys.stderr); os.system('echo child'); input()")
    assert (reply.stdout, reply.stderr, reply.error["name"]) == ("out\nchild\n", "err\n", "EOFError")
    assert restored.value("threading.current_thread() is threading.main_thread()") is True
    assert restored.value("os.getpid()") == restored.process.pid
    assert restored.run("display(1)").displays[0]["data"] == {"text/plain": "1"}
    assert restored.value("import subprocess; subprocess.check_output(['echo', 'x'])") == b"x\n"
    assert restored.value("os.getpgid(0), os.getsid(0)") == (restored.process.pid,) * 2
    restored.start("print('on', flush=True)\ntime.sleep(60)")
    restored.wait_output("on")
    restored.interrupt_wait()
    assert restored.finish().error["name"] == "KeyboardInterrupt"


def test_streams_that_come_with_a_cell(session):
    session.run("import os; saved = os.dup(1)")
    restored = session.checkpoint().restore()
    assert restored.run("print(1); os.write(saved, b'2')").stdout in ("1\n2", "21\n")
    ends = [restored.new_pipe(1), restored.new_pipe(2)]
    assert restored.run("print(3)", ends).stdout == "3\n"
    for end in ends:
        os.close(end)


def test_frozen_copies_run_nothing(session):
    session.run("""
import atexit, weakref
class Marker: pass
marker = Marker()
weakref.finalize(marker, lambda: open('finalised', 'w').close())
atexit.register(lambda: open('exited', 'w').close())
""")
    frozen = session.checkpoint()
    assert frozen.drop() == 0
    assert list(session.directory.iterdir()) == []


def test_signals_do_not_reach_frozen_copies(session):
    frozen = session.checkpoint()
    for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM:
        os.kill(frozen.process.pid, number)
    session.interrupt()
    assert frozen.restore().value("1") == 1


def test_a_cell_that_kills_the_copy(session):
    session.run("x = 1")
    frozen = session.checkpoint()
    session.run(f"import os; os.kill({frozen.process.pid}, 9)")
    assert frozen.process.wait() == -signal.SIGKILL
    assert session.checkpoint().restore().value("x") == 1


@pytest.mark.parametrize(
    "end",
    [
        "os._exit(3)",
        "os.abort()",
        "ctypes.string_at(0)",
        "os.killpg(0, 9)",
        "os.execlp('true', 'true')",
        "os.closerange(3, 1 << 20)",
    ],
)
def test_every_end_can_be_undone(session, end):
    session.run("import ctypes, os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0)); x = [1]")
    frozen = session.checkpoint()
    session.start(f"x.clear(); {end}")
    with pytest.raises(InterpreterDied):
        session.finish()
    assert frozen.restore().value("x") == [1]


def test_blocked_signals_come_back_unblocked(session):
    session.run("import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))")
    restored = session.checkpoint().restore()
    restored.start("print('on', flush=True)\ntime.sleep(60)")
    restored.wait_output("on")
    restored.interrupt_wait()
    assert restored.finish().error["name"] == "KeyboardInterrupt"


def test_code_that_forks_at_the_same_time(session):
    """Its thread goes on in a copy, wherever in a fork it was; the child it had there it has not."""
    session.run("""
import os, threading
stop, forks = False, 0
def fork():
    global forks
    while not stop:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass
        forks += 1
import warnings; warnings.simplefilter('ignore')
thread = threading.Thread(target=fork, name='forker'); thread.start()
""")
    for _ in range(10):
        restored = session.checkpoint().restore()
        assert all(note.startswith("child process ") for note in restored.not_restored)
        code = "before = forks\nwhile forks < before + 3: pass\nstop = True; thread.join()"
        assert restored.run(code).error is None
    assert session.run("stop = True; thread.join()").error is None


def test_threads_that_hold_locks(session):
    session.run("""
import logging, threading, queue
logger = logging.getLogger(); logger.addHandler(logging.StreamHandler())
lock, started, go_on = threading.Lock(), threading.Event(), threading.Event()
def hold():
    with lock, logger.handlers[0].lock:
        started.set()
        go_on.wait()
thread = threading.Thread(target=hold, daemon=True); thread.start()
started.wait()
""")
    restored = session.checkpoint().restore()
    for peer in restored, session:
        assert peer.value("lock.locked()") is True
        assert peer.run("go_on.set(); thread.join(); logger.error('text')").stderr == "text\n"
        assert peer.value("lock.locked()") is False


def test_hooks_of_cells(session):
    session.run("""
import os
log = []
os.register_at_fork(before=lambda: log.append('before'), after_in_parent=lambda: log.append('parent'),
                    after_in_child=lambda: log.append('child'))
os.register_at_fork(before=lambda: 1 / 0, after_in_child=lambda: 1 / 0)
""")
    frozen = session.checkpoint()
    reply, restored = session.run("log"), frozen.restore().run("log")
    assert (reply.result, reply.stderr) == ("['before', 'parent']", "")
    assert (restored.result, restored.stderr) == ("['before', 'child']", "")


def become_limited():
    """For preexec_fn: a user for whom RLIMIT_NPROC holds."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(54321)
        os.setuid(54321)


def test_no_process_is_left_for_a_copy(tmp_path):
    tmp_path.chmod(0o777)
    interpreter = Interpreter(tmp_path, prepare=become_limited)
    interpreter.run("""
import resource
x = 1
most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
def allow(count, pid=0):
    resource.prlimit(pid, resource.RLIMIT_NPROC, (count, most))
""")
    try:
        frozen = interpreter.checkpoint()
        interpreter.run("allow(1)")
        with pytest.raises(CheckpointFailed, match="no more processes"):
            interpreter.checkpoint()
        interpreter.run("allow(most)")
        assert interpreter.checkpoint().restore().value("x") == 1
        interpreter.run(f"allow(1, {frozen.process.pid})")
        with pytest.raises(CheckpointFailed, match="no more processes"):
            frozen.restore()
        interpreter.run(f"allow(most, {frozen.process.pid})")
        assert frozen.restore().value("x") == 1
    finally:
        interpreter.close()


def test_hooks_find_signals_as_they_were(session):
    session.run("""
import os, signal
masks = []
os.register_at_fork(after_in_child=lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
""")
    assert session.checkpoint().restore().value("len(masks) == 2 and masks[0] == masks[1]") is True


SCORES_OF_CHILDREN = """
import os, subprocess
FILE = "/proc/self/oom_score_adj"
started = [subprocess.run([cat, FILE], capture_output=True, text=True).stdout for cat in ("cat", "/bin/cat")]
reader, writer = os.pipe()
pid = os.fork()
if pid == 0:
    os.write(writer, open(FILE, "rb").read())
    os._exit(0)
os.waitpid(pid, 0)
assert os.system(f"cat {FILE} > score") == 0
[*started, os.read(reader, 16).decode(), open("score").read()]"""


@pytest.mark.parametrize("prepare", [become_limited, int], ids=["user", "root"])
def test_whom_the_kernel_takes_when_memory_runs_out(tmp_path, prepare):
    def score(peer):
        with open(f"/proc/{peer.process.pid}/oom_score_adj") as file:
            return int(file.read())

    tmp_path.chmod(0o777)
    interpreter = Interpreter(tmp_path, prepare=prepare)
    try:
        kept, automatic = interpreter.checkpoint(), interpreter.checkpoint(automatic=True)
        assert score(kept) < score(interpreter) < score(automatic) <= 1000
        assert score(automatic.restore()) == score(kept.restore()) == score(interpreter)
        assert interpreter.value(SCORES_OF_CHILDREN) == ["1000\n"] * 4
        before = score(interpreter)
        failed = interpreter.run("os.execvp('no-such-program', ['no-such-program'])").error
        assert (failed["name"], score(interpreter)) == ("FileNotFoundError", before)
    finally:
        interpreter.close()


def test_memory_that_a_copy_shares(session):
    session.run("x = bytearray(64 << 20)")
    frozen = session.checkpoint()
    assert private_bytes(frozen.process.pid) < 8 << 20
    restored = frozen.restore()
    assert restored.value("len(x)") == 64 << 20
    assert private_bytes(restored.process.pid) < 8 << 20


def private_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private"))


def test_sched_getcpu_is_right_after_a_restore(session):
    """The C library has it from memory that the kernel keeps current for registered threads alone."""
    session.run("import ctypes, os; libc = ctypes.CDLL(None); cpus = sorted(os.sched_getaffinity(0))")
    restored = session.checkpoint().restore()
    code = """
seen = []
for cpu in cpus:
    os.sched_setaffinity(0, [cpu])
    seen.append(libc.sched_getcpu())
seen == cpus"""
    assert restored.value(code) is True
