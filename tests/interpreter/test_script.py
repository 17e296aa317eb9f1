"""Code that nothing follows ends as a script does: threads, exit functions, files."""

import gzip
import subprocess
import sys

import pytest

THREAD = """
import threading, time
def work():
    time.sleep(0.3)
    print('done')
    display('shown')
threading.Thread(target=work).start()
print('begun')
"""


def test_threads_are_waited_for(session):
    reply = session.script(THREAD + "'value'")
    assert (reply.stdout, reply.result, reply.error) == ("begun\ndone\n", "'value'", None)
    assert [shown["data"]["text/plain"] for shown in reply.displays] == ["'shown'"]


def test_threads_are_waited_for_after_an_error(session):
    reply = session.script(THREAD + "1/0")
    assert reply.stdout == "begun\ndone\n" and reply.error["name"] == "ZeroDivisionError"


def test_an_interrupt_ends_the_waiting(session):
    session.start(
        "import atexit, threading\natexit.register(print, 'exit')\nfile = open('left', 'w'); file.write('text')\n"
        "threading.Thread(target=threading.Event().wait).start()\nprint('begun', flush=True)",
        script=True,
    )
    session.wait_output("begun")
    session.interrupt_wait()
    reply = session.finish()
    assert reply.error["name"] == "KeyboardInterrupt" and reply.stdout == "begun\nexit\n"
    assert (session.directory / "left").read_text() == "text"
    session.end()


ENDINGS = {
    "file": "f = open('left', 'w'); f.write('text')",
    "bytes": "f = open('left', 'wb'); f.write(b'text')",
    "in a list": "fs = [open('left', 'w')]; fs[0].write('text')",
    "in a cycle": "class C: pass\nc = C(); c.c = c; c.f = open('left', 'w'); c.f.write('text')",
    "of a module": "import string; string.f = open('left', 'w'); string.f.write('text')",
    "of a daemon": "import threading\ndef work():\n    f = open('left', 'w'); f.write('text'); ready.set(); never.wait()\n"
    "ready, never = threading.Event(), threading.Event()\nthreading.Thread(target=work, daemon=True).start(); ready.wait()",
    "at exit": "import atexit\n@atexit.register\ndef _():\n    open('left', 'w').write('text')",
    "finalize": "import weakref\nclass C: pass\nc = C(); weakref.finalize(c, lambda: open('left', 'w').write('text'))",
    "finalizer": "class C:\n    def __del__(self): open('left', 'w').write('text')\nc = C()",
    "task": "import asyncio\nasync def work():\n    try: await asyncio.sleep(60)\n"
    "    finally: open('left', 'w').write('text')\ntask = asyncio.create_task(work()); await asyncio.sleep(0)",
    "pool": "import time, concurrent.futures as c\npool = c.ThreadPoolExecutor()\n"
    "f = pool.submit(lambda: (time.sleep(0.2), open('left', 'w').write('text')))",
    "handler": "import logging\nh = logging.FileHandler('left'); h.terminator = ''\n"
    "logging.getLogger().addHandler(h); logging.warning('text')",
}


@pytest.mark.parametrize("code", ENDINGS.values(), ids=ENDINGS)
def test_what_is_left_open(session, code):
    reply = session.script(code)
    assert reply.error is None, reply.error["traceback"]
    assert (session.directory / "left").read_text() == "text"


def test_a_compressed_file_is_whole(session):
    assert session.script("import gzip; f = gzip.open('left', 'wt'); f.write('text')").error is None
    assert gzip.open(session.directory / "left", "rt").read() == "text"


SAYS = """
import atexit, sys, threading, time
class C:
    def __del__(self): print('finalized')
c = C()
atexit.register(print, 'exit')
threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()
print('end')
"""


def test_the_order_is_that_of_python(session, tmp_path):
    plain = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=True)
    assert session.script(SAYS).stdout == plain.stdout


def test_the_names_that_it_bound_are_told(session):
    changed = session.script("f = open('left', 'w'); x = [1, 2]").body["changed"]
    assert [name["name"] for name in changed["added"]] == ["f", "x"]


def test_in_a_copy(session):
    """As a spare has it, whose checkpoint was taken before the call."""
    session.run("import threading")
    copy = session.checkpoint().restore()
    assert copy.script(THREAD).stdout == "begun\ndone\n"
