"""Processes that libraries have started, after a checkpoint: copies of the interpreter do not have them."""

import pytest

START = """
import multiprocessing as mp, time
def square(x): return x * x
context = mp.get_context("fork")
"""

RUNNING = START + """
running, ended, unstarted = (context.Process(target=time.sleep, args=(seconds,)) for seconds in (1000, 0, 0))
running.start(); ended.start(); ended.join()
"""


@pytest.fixture
def running(session):
    session.run(RUNNING)
    yield session
    session.run("running.kill(); running.join()")


@pytest.mark.parametrize("branched", [False, True])
def test_process_has_ended_in_a_copy(running, branched):
    copy = running.checkpoint().restore(branched)
    assert copy.value("running.is_alive(), running.exitcode, running in mp.active_children()") == (False, -9, False)
    assert copy.value("running.join(), running.kill(), running.terminate()") == (None,) * 3
    assert running.value("running.is_alive()") is True


def test_number_of_a_process_that_has_ended_is_nobodys(running):
    copy = running.checkpoint().restore()
    assert copy.run("import os, signal; os.kill(running.pid, signal.SIGKILL)").error["name"] == "ProcessLookupError"
    assert running.value("running.is_alive()") is True


@pytest.mark.parametrize("branched", [False, True])
def test_program_has_ended_in_a_copy(session, branched):
    session.run("import os, signal, subprocess\nrunning, ended = subprocess.Popen(['sleep', '1000']), subprocess.Popen(['true']); ended.wait()")
    copy = session.checkpoint().restore(branched)
    assert copy.value("running.kill(), running.wait(), running.poll(), ended.wait()") == (None, -9, -9, 0)
    assert copy.run("os.kill(running.pid, signal.SIGKILL)").error["name"] == "ProcessLookupError"
    assert session.value("running.poll(), running.kill(), running.wait()") == (None, None, -9)


def test_programs_that_nobody_knows_any_more_are_forgotten(session):
    session.run("import subprocess\nfor _ in range(3): subprocess.run(['true'])")
    assert session.value("from limpet_runtime import hooks; len(hooks.programs)") == 0
    assert session.value("import inspect; list(inspect.signature(subprocess.Popen).parameters)[:2]") == ["args", "bufsize"]


def test_other_processes_are_as_they_were(running):
    copy = running.checkpoint().restore().checkpoint().restore()
    assert copy.value("ended.is_alive(), ended.exitcode, ended.join(), unstarted.exitcode") == (False, 0, None, None)
    assert copy.value("unstarted.start(), unstarted.join(), unstarted.exitcode") == (None, None, 0)


def test_executor_says_that_it_is_broken(session):
    session.run(START + "import concurrent.futures as c; e = c.ProcessPoolExecutor(2, context); e.submit(square, 2).result()")
    copy = session.checkpoint().restore()
    again = "c.ProcessPoolExecutor(2, context).submit(square, 3).result()"
    reply = copy.run("e._executor_manager_thread and e._executor_manager_thread.join(); e.submit(square, 3)")
    assert (reply.error["name"], reply.stderr) == ("BrokenProcessPool", "")
    assert copy.value(again) == 9
    assert session.value("e.submit(square, 3).result()") == 9


def test_pool_says_that_it_does_not_run(session):
    session.run(START + "import multiprocessing.pool\npool = context.Pool(2); pool.map(square, [2]); threads = mp.pool.ThreadPool(2)")
    copy = session.checkpoint().restore()
    assert copy.run("pool.map(square, [3])").error["message"] == "Pool not running"
    assert copy.value("pool.terminate(), pool.join(), threads.map(square, [3])") == (None, None, [9])
    assert copy.value("with context.Pool(2) as another: result = another.map(square, [3])\nresult") == [9]
    assert session.value("pool.map(square, [3])") == [9]
    session.run("pool.terminate()")


def test_who_waits_for_work_of_a_pool_is_told(session):
    session.run(START + """
import threading
pool, told = context.Pool(1), []
one, all, each = pool.apply_async(time.sleep, (1000,)), pool.map_async(square, [1, 2]), pool.imap(square, [3])
def wait():
    try: one.get()
    except mp.ProcessError as error: told.append(str(error))
thread = threading.Thread(target=wait); thread.start()
""")
    copy = session.checkpoint().restore()
    for wait in ("one.get()", "all.get()", "next(each)", "list(each)"):
        assert copy.run(wait).error["name"] == "ProcessError"
    assert copy.value("thread.join(), len(told), one.successful()") == (None, 1, False)
    session.run("pool.terminate()")


def test_server_is_started_anew(session):
    session.run(START + "server = mp.get_context('forkserver'); p = server.Process(target=time.sleep, args=(0,)); p.start(); p.join()")
    copy = session.checkpoint().restore()
    assert copy.value("p2 = server.Process(target=time.sleep, args=(0,))\np2.start(), p2.join(), p2.exitcode") == (None, None, 0)
