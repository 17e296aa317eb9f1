"""Forks and children."""

import importlib.util

import pytest

from .harness import InterpreterDied


def test_a_fork_that_falls_off_the_end_does_not_answer(session):
    reply = session.run(
        "import os\npid = os.fork()\nprint('child' if pid == 0 else 'parent')\nif pid: os.waitpid(pid, 0)"
    )
    assert sorted(reply.stdout.split()) == ["child", "parent"]
    assert reply.error is None
    assert session.messages == []
    assert session.run("pid > 0").result == "True"


def test_what_a_fork_printed_from_c_arrives(session):
    reply = session.run(
        "import ctypes, os\npid = os.fork()\nif pid == 0: ctypes.CDLL(None).printf(b'from C')\n"
        "else: os.waitpid(pid, 0)"
    )
    assert reply.stdout == "from C"


@pytest.mark.parametrize(
    "end, status, text",
    [
        ("", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("1/0", 1, "ZeroDivisionError"),
        ("exit(2)", 2, ""),
    ],
)
def test_how_a_fork_ends(session, end, status, text):
    code = (
        f"import os, sys\n"
        f"pid = os.fork()\n"
        f"if pid == 0:\n"
        f"    {end or 'pass'}\n"
        f"else:\n"
        f"    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    )
    reply = session.run(code)
    assert text in reply.stderr
    assert session.run("status").result == str(status)


def test_unflushed_output_is_not_doubled(session):
    code = (
        "import os\n"
        "print('once', end='')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    print('child'); exit()\n"
        "os.waitpid(pid, 0)\n"
        "print('end')"
    )
    assert session.run(code).stdout == "oncechild\nend\n"


def test_display_in_a_fork_is_text(session):
    code = "import os\npid = os.fork()\nif pid == 0:\n    display([1])\n    exit()\nos.waitpid(pid, 0);"
    reply = session.run(code)
    assert (reply.stdout, reply.displays) == ("[1]\n", [])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(session, method):
    (session.directory / "work.py").write_text(
        "def square(x):\n    print('s', x, flush=True)\n    return x * x\n"
    )
    code = f"""
import multiprocessing, work
executed = globals().get('executed', 0) + 1
print('parent')
with multiprocessing.get_context('{method}').Pool(2) as pool:
    value = pool.map(work.square, range(4))
value
"""
    reply = session.run(code)
    assert reply.error is None, reply.error["traceback"]
    assert reply.result == "[0, 1, 4, 9]"
    assert sorted(reply.stdout.splitlines()) == ["parent", "s 0", "s 1", "s 2", "s 3"]
    assert session.run("executed").result == "1"


def test_multiprocessing_fork_with_functions_of_cells(session):
    session.run(
        (
            "class Box:\n"
            "    def __init__(self, v): self.v = v\n"
            "def grow(b):\n"
            "    print('grow', b.v)\n"
            "    return Box(b.v + 1)"
        )
    )
    code = (
        "import multiprocessing\n"
        "with multiprocessing.get_context('fork').Pool(2) as p: out = p.map(grow, [Box(1), Box(2)])\n"
        "[b.v for b in out]"
    )
    reply = session.run(code)
    assert reply.result == "[2, 3]"
    code = (
        "p = multiprocessing.get_context('fork').Process(target=print, args=('from process',))\n"
        "p.start(); p.join()\n"
        "p.exitcode"
    )
    reply = session.run(code)
    assert (reply.stdout, reply.result) == ("from process\n", "0")


def test_process_pool_executor(session):
    code = (
        "import concurrent.futures as c, multiprocessing as m, math\n"
        "with c.ProcessPoolExecutor(2, m.get_context('fork')) as e: r = list(e.map(math.sqrt, [4, 9]))\n"
        "r"
    )
    assert session.run(code).result == "[2.0, 3.0]"


def test_children_get_interrupts_by_default(session):
    session.run("import subprocess, time\np = subprocess.Popen(['sleep', '60'])")
    session.start("print('on', flush=True)\ntime.sleep(60)")
    session.wait_output("on")
    session.interrupt_wait()
    session.finish()
    assert session.run("p.wait(60)").result == "-2"


def test_exec_ends_the_interpreter_with_its_output_whole(session):
    session.start("import os\nprint('before')\nos.execlp('echo', 'echo', 'after')")
    with pytest.raises(InterpreterDied) as died:
        session.finish()
    assert died.value.args == (0,)
    while len(session.output[1]) < len("before\nafter\n"):
        session.pump_output(10)
    assert session.output[1] == b"before\nafter\n"


def test_sys_executable_is_a_python_of_the_same_version(session):
    code = (
        "import subprocess, sys\n"
        "program = 'import sys; print(sys.version)'\n"
        "run = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)\n"
        "run.stdout.strip() == sys.version"
    )
    assert session.run(code).result == "True"


def test_many_forks_and_threads_printing(session):
    code = """
import os, threading
def spam():
    for _ in range(300): print('t' * 50)
threads = [threading.Thread(target=spam) for _ in range(3)]
for t in threads: t.start()
pids = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        print('child'); exit()
    pids.append(pid)
for t in threads: t.join()
for pid in pids: os.waitpid(pid, 0)
"""
    reply = session.run("import warnings\nwarnings.simplefilter('ignore')\n" + code)
    assert reply.error is None
    assert reply.stdout.count("child") == 20 and reply.stdout.count("t" * 50) == 900


OF_CELLS = """
import dataclasses, functools, threading
scale = 10
lock = threading.Lock()
@functools.lru_cache
def scaled(n):
    return n * scale
@dataclasses.dataclass
class Box:
    size: int
    def grown(self):
        return Box(scaled(self.size))
def begin():
    global begun
    begun = True
def grow(box):
    return box.grown(), begun, 'lock' in globals()
def spread(method):
    with ProcessPoolExecutor(2, multiprocessing.get_context(method), begin) as pool:
        return list(pool.map(grow, [Box(1), Box(2)]))
"""


@pytest.mark.skipif(not importlib.util.find_spec("cloudpickle"), reason="the image has cloudpickle")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing_anew_with_functions_of_cells(session, method):
    session.run("import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\nruns = 0" + OF_CELLS)
    reply = session.run(f"runs += 1\nspread('{method}'), runs")
    assert reply.error is None, reply.error["traceback"]
    assert reply.result == "([(Box(size=10), True, False), (Box(size=20), True, False)], 1)"
