"""Libraries that keep threads, loops and files of their own, before and after a checkpoint."""

import pytest


def need(session, module):
    if session.run(f"import {module}").error:
        pytest.skip(f"there is no {module}")


PARALLEL = """
import ctypes
gomp = ctypes.CDLL('libgomp.so.1')
def parallel(n=2):
    seen = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda unused: seen.append(gomp.omp_get_thread_num()))
    gomp.GOMP_parallel(function, None, n, 0)
    return sorted(seen)
"""


def test_openmp(session):
    if session.run(PARALLEL).error:
        pytest.skip("there is no libgomp")
    assert session.value("parallel()") == [0, 1]
    restored = session.checkpoint().restore()
    assert restored.value("parallel()") == [0, 1]
    assert restored.checkpoint().restore().value("parallel(3)") == [0, 1, 2]
    assert session.value("parallel(4)") == [0, 1, 2, 3]


def test_openmp_that_is_loaded_between_checkpoints(session):
    session.checkpoint()
    if session.run(PARALLEL).error:
        pytest.skip("there is no libgomp")
    session.value("parallel()")
    assert session.checkpoint().restore().value("parallel()") == [0, 1]


def test_machine_learning(session):
    """Its parallel loops are OpenMP's, its matrices BLAS's."""
    need(session, "sklearn.cluster")
    session.run("""
import numpy, sklearn.cluster
points = numpy.random.default_rng(1).random((20000, 8))
def fit(): return float(sklearn.cluster.KMeans(5, n_init=1, random_state=0).fit(points).inertia_)
expected = fit()
""")
    frozen = session.checkpoint()
    for peer in frozen.restore(), frozen.restore(True), session:
        assert peer.value("abs(fit() / expected - 1) < 1e-6") is True


def test_linear_algebra(session):
    need(session, "numpy")
    session.run("import numpy as np; m = np.random.default_rng(1).random((600, 600))")
    session.run("expected = (m @ m).sum()")
    frozen = session.checkpoint()
    for peer in (session, frozen.restore(), frozen.restore(), session.checkpoint().restore()):
        assert peer.value("bool((m @ m).sum() == expected)") is True


def test_figures(session):
    need(session, "matplotlib.pyplot")
    session.run("import matplotlib.pyplot as plt\nfigure, axes = plt.subplots(); axes.plot([1, 2])")
    restored = session.checkpoint().restore()
    reply = restored.run("axes.set_title('after'); figure")
    assert reply.error is None
    assert reply.displays[0]["data"]["image/png"].startswith(b"\x89PNG")


# asyncio


def test_await_goes_on(session):
    session.run("import asyncio\nawait asyncio.sleep(0)")
    first = session.checkpoint().restore()
    second = first.checkpoint().restore()
    assert first.not_restored == second.not_restored == []
    for peer in (session, first, second):
        assert peer.value("await asyncio.sleep(0.001, 'v')") == "v"


def test_tasks_go_on(session):
    session.run("""
import asyncio
log = []
async def tick():
    for i in range(100):
        log.append(i)
        await asyncio.sleep(0.001)
task = asyncio.create_task(tick())
while len(log) < 3: await asyncio.sleep(0.001)
""")
    frozen = session.checkpoint()
    session.run("task.cancel()")
    assert frozen.restore().value("await task; log") == list(range(100))


def test_what_loops_give_to_threads(session):
    session.run("import asyncio, os\nawait asyncio.to_thread(os.getpid)")
    restored = session.checkpoint().restore()
    assert restored.not_restored == []
    assert restored.value("await asyncio.to_thread(os.getpid) == os.getpid()") is True


def test_loops_are_woken_from_threads(session):
    session.run("""
import asyncio, threading
def wake(loop, future): loop.call_soon_threadsafe(future.set_result, 'woken')
async def woken():
    loop = asyncio.get_running_loop(); future = loop.create_future()
    threading.Thread(target=wake, args=(loop, future)).start()
    return await asyncio.wait_for(future, 20)
await woken()
""")
    frozen = session.checkpoint()
    for peer in (frozen.restore(), frozen.restore(True), session):
        assert peer.value("await woken()") == "woken"


def test_loops_that_run_in_threads(session):
    """A loop knows by the number of its process that it runs."""
    session.run("""
import asyncio, threading
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
async def ask(): return await asyncio.gather(asyncio.to_thread(abs, -3), asyncio.sleep(0.001, asyncio.get_running_loop() is loop))
def use(): return asyncio.run_coroutine_threadsafe(ask(), loop).result(20)
""")
    assert session.value("use()") == [3, True]
    first = session.checkpoint().restore()
    for peer in first, first.checkpoint().restore(True), session:
        assert peer.value("use()") == [3, True]


def test_loops_of_cells(session):
    session.run("import asyncio\nloop = asyncio.new_event_loop()")
    session.run("async def f(): return await asyncio.sleep(0.001, 3)")
    session.value("loop.run_until_complete(f())")
    restored = session.checkpoint().restore()
    assert restored.not_restored == []
    assert restored.value("loop.run_until_complete(f()), asyncio.run(f())") == (3, 3)


def test_asyncio_children_after_a_restore(session):
    code = """
import asyncio
async def echo():
    process = await asyncio.create_subprocess_exec('echo', 'x', stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0]
await echo()"""
    assert session.value(code) == b"x\n"
    assert session.checkpoint().restore().value("await echo()") == b"x\n"


# Pools


def test_pools_of_threads(session):
    session.run("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)")
    session.run("pool.submit(int).result()")
    restored = session.checkpoint().restore()
    assert restored.not_restored == []
    assert restored.value("pool.submit(int, '6').result()") == 6
    code = "with ThreadPoolExecutor(2) as other: out = list(other.map(abs, [-1, 2]))\nout"
    assert restored.value(code) == [1, 2]
    assert session.value("pool.submit(int, '7').result()") == 7


def test_pools_of_processes(session):
    session.run("import multiprocessing\npool = multiprocessing.get_context('fork').Pool(1)")
    session.run("pool.map(abs, [1])")
    restored = session.checkpoint().restore()
    assert any(note.startswith("child process ") for note in restored.not_restored)
    code = "with multiprocessing.get_context('fork').Pool(2) as other: out = other.map(abs, [-1, 2])\nout"
    assert restored.value(code) == [1, 2]
    assert session.value("pool.map(abs, [-5])") == [5]
    session.run("pool.terminate(); pool.join()")


def test_children_that_ended_unseen(session):
    session.run("import subprocess, time\nchild = subprocess.Popen(['false'])")
    session.run("import os; os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)")
    restored = session.checkpoint().restore()
    assert restored.not_restored == [f"child process {session.value('child.pid')} (false) is gone"]
    assert session.value("child.wait()") == 1
    assert session.checkpoint().restore().not_restored == []


def test_alarms(session):
    session.run("import signal\nsignal.signal(signal.SIGALRM, lambda *unused: None); signal.alarm(1000)")
    frozen = session.checkpoint()
    session.run("signal.alarm(0)")
    assert frozen.restore().not_restored == ["the alarm that signal.alarm() or setitimer() set does not come"]
    assert session.checkpoint().restore().not_restored == []


def test_temporary_directories(session):
    session.run("import os, tempfile\nd = tempfile.TemporaryDirectory(dir='.')")
    session.run("f = tempfile.NamedTemporaryFile(dir='.')")
    frozen = session.checkpoint()
    assert frozen.drop() == 0
    assert session.value("os.path.isdir(d.name), os.path.exists(f.name)") == (True, True)


SHARED = "shared memory that has a name, is mapped twice, or of more than 16 MiB, is not brought back: all copies of the session have the same"


def test_shared_memory(session):
    session.run("from multiprocessing.shared_memory import SharedMemory\nm = SharedMemory(create=True, size=10)")
    restored = session.checkpoint().restore()
    assert SHARED in restored.not_restored
    assert restored.run("m.buf[0] = 5; other = SharedMemory(create=True, size=10)").error is None
    assert restored.run("other.close(); other.unlink()").error is None
    session.run("m.close(); m.unlink()")


def test_shared_memory_without_a_name(session):
    session.run("import mmap, multiprocessing, os; m = mmap.mmap(-1, 10000); lock = multiprocessing.RLock()")
    session.run("v = multiprocessing.Value('i', 5); m[9999] = 65")
    frozen = session.checkpoint()
    session.run("v.value = 6; m[9999] = 66; lock.acquire()")
    restored = frozen.restore()
    branch = restored.checkpoint().restore(branched=True)
    for peer in (restored, branch):
        assert peer.not_restored == []
        assert peer.value("v.value, m[9999], lock.acquire(timeout=20)") == (5, 65, True)
    code = """
v.value += 10
if not (child := os.fork()):
    v.value += 1; m[9999] += 1
    os._exit(0)
os.waitpid(child, 0)
(v.value, m[9999])"""
    assert branch.value(code) == (16, 66)
    assert restored.value("v.value, m[9999]") == (5, 65)
    assert session.value("v.value, m[9999]") == (6, 66)


def test_much_shared_memory_stays_shared(session):
    session.run("import mmap; m = mmap.mmap(-1, 17 << 20); m[0] = 65; n = mmap.mmap(-1, 100)")
    branch = session.checkpoint().restore(branched=True)
    assert branch.not_restored == [SHARED]
    branch.run("m[0] = n[0] = 66")
    assert session.value("m[0], n[0]") == (66, 0)


def test_shared_memory_that_is_mapped_twice(session):
    """As for code that is written in one place and run in the other."""
    session.run("import mmap, os; f = os.memfd_create('twice'); os.truncate(f, 4096); m, n = mmap.mmap(f, 4096), mmap.mmap(f, 4096)")
    branch = session.checkpoint().restore(branched=True)
    assert (branch.not_restored, branch.value("m.write(b'x'), n[0]")) == ([SHARED], (1, 120))


def test_shared_memory_that_ends_before_its_mapping(session):
    session.run("""
import mmap, os
f = os.memfd_create('short'); os.truncate(f, 8192)
m = mmap.mmap(f, 8192); m[0] = 65; os.truncate(f, 4096)
""")
    branch = session.checkpoint().restore(branched=True)
    assert (branch.not_restored, branch.value("m[0]")) == ([SHARED], 65)


def test_memory_that_is_not_shared(session):
    """Nor are locks, of which progress bars make one, worth a word."""
    session.run("""
import mmap, multiprocessing
lock = multiprocessing.RLock()
f = open('text', 'w+b', buffering=0); f.write(b'x' * 10)
m = mmap.mmap(f.fileno(), 10, access=mmap.ACCESS_COPY)
""")
    restored = session.checkpoint().restore()
    assert SHARED not in restored.not_restored
    assert restored.run("with lock: m[0] = 65").error is None
