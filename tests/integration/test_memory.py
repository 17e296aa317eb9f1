"""What people do all day fits into small sessions, and one that is full goes on."""

import pytest

from .pooled import Pool, settings  # noqa: F401

pytestmark = pytest.mark.engine

MIB = 1 << 20
HOG = "import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1"  # which no limit of its own counts
PATIENCE = 300  # seconds; a call that hangs ends here

DAILY = {
    "block": ("len(bytearray(50 << 20))", str(50 * MIB)),
    "threads": (
        """
import threading
stop = threading.Event()
threads = [threading.Thread(target=stop.wait) for _ in range(8)]
for thread in threads: thread.start()
stop.set()
for thread in threads: thread.join()
len(threads)""",
        "8",
    ),
    "matmul": ("import numpy; a = numpy.ones((1000, 1000)); float((a @ a)[0, 0])", "1000.0"),
    "svd": ("import numpy; numpy.linalg.svd(numpy.random.rand(400, 400))[1].shape", "(400,)"),
    "groupby": (
        """
import numpy, pandas
frame = pandas.DataFrame({"key": numpy.arange(1_000_000) % 7, "value": 1.0})
int(frame.groupby("key").value.sum().sum())""",
        "1000000",
    ),
    "fit": (
        """
import numpy
from sklearn.linear_model import LinearRegression
x = numpy.random.rand(2000, 8)
LinearRegression().fit(x, x @ numpy.arange(8)).coef_.round().tolist()[7]""",
        "7.0",
    ),
    "figure": (
        """
import matplotlib.pyplot as plt
_ = plt.plot(range(1000))
plt.savefig("figure.png")
open("figure.png", "rb").read(4)""",
        r"b'\x89PNG'",
    ),
    "child": (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True).stdout",
        r"b'42\n'",
    ),
    "output": ("import sys; sys.stdout.write('x' * (20 << 20))", str(20 * MIB)),
}


@pytest.fixture
def isolating(own_limpetd):
    if not own_limpetd.isolates:
        pytest.skip("the local engine has no memory limit")
    return own_limpetd


def assert_daily(session, case):
    code, expected = DAILY[case]
    result = session.run(code, timeout=PATIENCE)
    assert (result.status, result.state, result.result) == ("ok", "kept", expected), (case, result)


@pytest.mark.parametrize("memory", ["256m", pytest.param("512m", marks=pytest.mark.long)])
def test_daily_work(isolating, settings, memory):
    """In a container of its own, after a reset, and in one that was a spare."""
    settings(pool=1, pool_limit=1, memory=memory, imports="numpy,pandas,matplotlib.pyplot")
    pool = Pool(isolating.start())
    for case in DAILY:
        pool.ready()
        with pool.client.open(f"pooled-{case}") as session:
            assert_daily(session, case)
    for case in DAILY:  # of another kind, which then has spares of its own
        with pool.client.open(f"cold-{case}", pids=99) as session:
            assert_daily(session, case)
            session.reset()
            assert_daily(session, case)
    pool.client.close()


HOARDS = {
    "blocks": "while True: hoard.append(bytearray(1 << 20))",
    "lists": "while True: hoard.append([1])",
    "texts": "while True: hoard.append(str(len(hoard)))",
    "arrays": "import numpy\nwhile True: hoard.append(numpy.ones(1 << 16))",
    "one array": "import numpy\nhoard = numpy.ones(24 << 20, dtype='u1')\nwhile True: hoard = numpy.concatenate([hoard, hoard[:4 << 20]])",
}


def test_names_that_held_most_are_told_of_a_call_that_was_killed(isolating):
    with isolating.start().client() as client, client.open("a", memory="256m", checkpoint="always") as session:
        session.run("hoard = [b'x' * (1 << 20) for _ in range(60)]; few = b'x' * (4 << 20)")
        result = session.run(HOG, timeout=PATIENCE)
        assert (result.status, result.state) == ("oom", "rolled_back")
        assert [(held.name, held.type) for held in result.memory] == [("hoard", "list"), ("few", "bytes")]
        killed = session.run("import os; os.kill(os.getpid(), 9)")
        assert (killed.status, killed.memory) == ("crashed", None)


@pytest.mark.parametrize("hoard", [pytest.param("blocks", marks=pytest.mark.docker), *(hoard for hoard in HOARDS if hoard != "blocks")])
@pytest.mark.parametrize("memory", ["256m", pytest.param("512m", marks=pytest.mark.long)])
def test_a_full_session_goes_on(isolating, memory, hoard):
    with isolating.start().client() as client, client.open("full", memory=memory) as session:
        session.run("hoard = []")
        result = session.run(HOARDS[hoard], timeout=PATIENCE)
        assert result.error.name in ("MemoryError", "_ArrayMemoryError", "OutOfMemory"), result
        assert result.state == ("rolled_back" if result.status == "oom" else "kept"), result
        for i in range(20):
            result = session.run(f"small = [{i}] * 1000; print(len(hoard) >= 0); sum(small)", timeout=PATIENCE)
            assert (result.status, result.state, result.stdout) == ("ok", "kept", "True\n"), (i, result)
        result = session.run("del hoard; import gc; gc.collect(); len(bytearray(100 << 20))", timeout=PATIENCE)
        assert (result.status, result.state, result.result) == ("ok", "kept", str(100 * MIB)), result


def test_a_child_goes_before_what_the_session_holds(isolating):
    with isolating.start().client() as client, client.open("a", memory="512m") as session:
        assert session.run("kept = b'x' * (300 << 20)").ok
        child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = b\"x\" * (400 << 20)']).returncode"
        result = session.run(child, timeout=PATIENCE)
        assert (result.status, result.state, result.result) == ("ok", "kept", "-9"), result
        assert session.run("len(kept)").result == str(300 * MIB)


def test_children_that_stay_go_before_what_a_full_session_holds(isolating):
    """They are not counted for the interpreter: without them there is room for all that it may hold."""
    child = "held = b'x' * (30 << 20); print(flush=True); import time; time.sleep(600)"
    with isolating.start().client() as client, client.open("a", memory="512m", checkpoint="always") as session:
        assert session.run("kept = b'x' * (160 << 20); hoard = []").ok
        assert session.run(f"""
import subprocess, sys
children = [subprocess.Popen([sys.executable, "-c", {child!r}], stdout=subprocess.PIPE) for _ in range(3)]
for each in children: each.stdout.readline()""").ok
        result = session.run("while True: hoard.append(b'x' * (1 << 20))", timeout=PATIENCE)
        assert (result.error.name, result.state) == ("MemoryError", "kept"), result
        ended = """
import os, select
hoard.clear()
some = select.poll()
for each in children: some.register(os.pidfd_open(each.pid))
some.poll()
len(kept), -9 in [each.poll() for each in children]"""
        assert session.run(ended).result == f"({160 * MIB}, True)"


@pytest.mark.parametrize("cpus, threads", [(0.5, "1"), (1.5, "2")])
def test_libraries_start_as_many_threads_as_there_are_processors(own_limpetd, cpus, threads):
    names = "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMEXPR_NUM_THREADS POLARS_MAX_THREADS".split()
    with own_limpetd.start().client() as client, client.open("a", cpus=cpus, env={"MKL_NUM_THREADS": "7"}) as session:
        values = session.run(f"import os; ' '.join(os.environ[name] for name in {names})").result
        assert values == repr(" ".join("7" if name.startswith("MKL") else threads for name in names))


def test_many_files_come_and_go(isolating):
    """The kernel's memory of their names counts as the container's."""
    with isolating.start().client() as client, client.open("a", memory="512m") as session:
        code = """
import os
for i in range(99_000):
    open(f"d{i}", "w").close()
for i in range(99_000):
    os.unlink(f"d{i}")
len([name for name in os.listdir() if name.startswith("d")])"""
        result = session.run(code, timeout=PATIENCE)
        assert (result.status, result.state, result.result) == ("ok", "kept", "0"), result
