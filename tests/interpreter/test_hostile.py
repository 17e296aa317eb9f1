"""Nothing a cell does hurts the next one."""

import signal
import time

import pytest

from .harness import Interpreter, InterpreterDied

CHECK = """
import io, os, sys, signal, threading
print('printed')
print('warned', file=sys.stderr)
assert os.read(0, 1) == b''
def probe(n): return n and probe(n - 1)
probe(200)
assert len([*map(str, range(3))]) == 3 and isinstance(1, int)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
assert sys.modules['__main__'].__dict__ is globals() and __name__ == '__main__'
os.system('echo child')
"""


def check_usable(session):
    reply = session.run(CHECK + "'fine'")
    assert reply.error is None, reply.error["traceback"]
    assert (reply.stdout, reply.result) == ("printed\nchild\n", "'fine'")
    assert reply.stderr.startswith("warned\n")  # the shell has words of its own where the directory is gone
    error = session.run("def broken():\n    return 1 / 0\nbroken()").error
    assert error["name"] == "ZeroDivisionError" and "return 1 / 0" in error["traceback"]
    assert session.run("display('shown')").displays[0]["data"] == {"text/plain": "'shown'"}
    session.start("print('on', flush=True)\nwhile True: pass")
    session.wait_output("on")
    session.interrupt()
    assert session.finish().error["name"] == "KeyboardInterrupt"


DAMAGE = {
    "stdout replaced": "import sys\nsys.stdout = sys.stderr = None",
    "stdout closed by itself": "import io, sys\nsys.stdout = io.StringIO(); sys.stdout.close()",
    "stdout deleted": "import sys\ndel sys.stdout, sys.stderr, sys.stdin",
    "stdout broken": "import sys\nclass B:\n    def __getattr__(self, n): raise SystemExit\nsys.stdout = B()",
    "stdout closed": "import sys\nsys.stdout.close(); sys.stderr.close(); sys.stdin.close()",
    "descriptors closed": "import os\nfor fd in range(4):\n    try: os.close(fd)\n    except OSError: pass",
    "many descriptors closed": "import os\nos.closerange(0, 256)",
    "descriptors replaced": (
        "import os\n" "fd = os.open('/dev/null', os.O_RDWR)\n" "for i in range(4): os.dup2(fd, i)"
    ),
    "builtins deleted": (
        "import builtins\n" "for n in list(vars(builtins)):\n" "    if n != 'vars': delattr(builtins, n)"
    ),
    "builtins cleared": "import builtins\nvars(builtins).clear()",
    "builtins overwritten": (
        "import builtins as b\n"
        "for n in 'len print isinstance str getattr compile eval type __import__ Exception open'.split():\n"
        "    vars(b)[n] = None"
    ),
    "namespace's builtins": "__builtins__ = {}",
    "namespace cleared": "globals().clear()",
    "name changed": "__name__ = 'other'",
    "modules cleared": "import sys\nsys.modules.clear()",
    "modules replaced": "import sys\nsys.modules = {}",
    "main replaced": "import sys, types\nsys.modules['__main__'] = types.ModuleType('x')",
    "main deleted": "import sys\ndel sys.modules['__main__']",
    "linecache": (
        "import linecache\n"
        "linecache.cache = None\n"
        "linecache.getline = linecache.getlines = linecache.checkcache = lambda *a: 1/0"
    ),
    "traceback": (
        "import traceback\n"
        "for n in dir(traceback):\n"
        "    if not n.startswith('__'): setattr(traceback, n, None)"
    ),
    "handler ignored": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "handler default": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)",
    "handler of the user": "import signal\nsignal.signal(signal.SIGINT, lambda *a: None)",
    "handler from C": "import ctypes\nctypes.CDLL(None).signal(2, 1)",
    "signals blocked": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
    "blocked and pending": (
        "import signal, os\n" "signal.pthread_sigmask(signal.SIG_BLOCK, [2])\n" "os.kill(os.getpid(), 2)"
    ),
    "recursion limit": "import sys\nsys.setrecursionlimit(70)",
    "hooks": "import sys\nsys.excepthook = sys.displayhook = sys.unraisablehook = lambda *a: 1/0",
    "directory removed": "import os, tempfile\nd = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)",
    "gc disabled": "import gc\ngc.disable(); gc.set_threshold(1)",
    "our modules deleted": (
        "import sys\n" "for n in list(sys.modules):\n" "    if 'limpet' in n: del sys.modules[n]"
    ),
    "our functions replaced": (
        "import limpet_runtime.errors as e, limpet_runtime.display as d\n"
        "e.describe = d.display_result = None"
    ),
    "codecs": (
        "import codecs\n"
        "codecs.register_error('backslashreplace', lambda e: 1/0)\n"
        "codecs.register_error('replace', lambda e: 1/0)"
    ),
    "atexit": "import atexit\natexit.register(lambda: 1/0)",
    "threads": (
        "import threading\n"
        "for _ in range(5): threading.Thread(target=threading.Event().wait, daemon=True).start()"
    ),
    "warnings are errors": "import warnings\nwarnings.simplefilter('error')",
    "stdin": "import sys\nsys.stdin = None",
    "environment": "import os\nos.environ.clear(); os.environ['PATH'] = '/usr/bin:/bin'",
    "import path": (
        "import sys\n"
        "sys.path.clear(); sys.meta_path.clear(); sys.path_hooks.clear(); sys.path_importer_cache.clear()"
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_the_next_cell_works(session, case):
    session.run("import io, os, sys, signal, threading")
    session.run(DAMAGE[case])
    check_usable(session)


def test_all_at_once(session):
    session.run("import io, os, sys, signal, threading")
    for case in DAMAGE:
        session.run(DAMAGE[case])
    check_usable(session)


# The first cell chooses something, and the second one finds it.
CHOSEN = {
    "trace": (
        "import sys\nseen = set()\ndef trace(frame, *unused):\n    seen.add(frame.f_code.co_filename)\n    return trace\n"
        "sys.settrace(trace)",
        "def called(): return 1\n(called(), sys.gettrace() is trace, len(seen) > 0, [f for f in seen if 'limpet' in f])",
        "(1, True, True, [])",
    ),
    "profile": ("import sys\ncalls = []\nsys.setprofile(lambda *call: calls.append(call))", "len(calls) > 0", "True"),
    "builtin": ("import builtins\nbuiltins.len = lambda value: 42", "len([])", "42"),
    "stream": ("import io, sys\nsys.stdout = io.StringIO()\nprint('a')", "print('b'); sys.stdout.getvalue()", r"'a\nb\n'"),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_what_a_cell_has_chosen_stays(session, case):
    choose, found, result = CHOSEN[case]
    assert session.run(choose).error is None
    assert session.run("1 / 0").error["name"] == "ZeroDivisionError"
    assert session.run("class Shown:\n    def _repr_html_(self): return 'html'\nShown()").displays[0]["data"]["text/html"] == "html"
    assert session.run(found).result == result


def test_a_trace_function_that_raises_is_gone_after_that(session):
    session.run("import sys\nsys.settrace(lambda *unused: 1 / 0)")
    assert session.run("1").error["name"] == "ZeroDivisionError"
    check_usable(session)


def test_the_error_of_a_cell_that_broke_things_is_told(session):
    for case in (
        "builtins cleared",
        "traceback",
        "linecache",
        "modules cleared",
        "recursion limit",
    ):
        reply = session.run(DAMAGE[case] + "\nraise KeyError('told')")
        assert reply.error["name"] in ("KeyError", "NameError", "ZeroDivisionError"), case
        assert "<cell" in reply.error["traceback"], case


def test_added_builtins_stay(session):
    session.run("import builtins\nbuiltins.mine = 5")
    assert session.run("mine").result == "5"


def test_a_higher_recursion_limit_stays(session):
    session.run("import sys\nsys.setrecursionlimit(5000)")
    assert session.run("sys.getrecursionlimit()").result == "5000"


def test_the_directory_stays(session):
    session.run("import os\nos.chdir('/')")
    assert session.run("os.getcwd()").result == "'/'"


def test_late_interrupts_are_forgotten(session):
    for _ in range(5):
        session.run("1")
        session.interrupt()
        time.sleep(0.02)
        session.interrupt()
        reply = session.run("import time\ntime.sleep(0.05)\n'whole'")
        assert (reply.error, reply.result) == (None, "'whole'")


def test_a_late_exception_from_a_thread_is_forgotten(session):
    session.run(
        "import ctypes, threading, time\n"
        "main = ctypes.c_ulong(threading.get_ident())\n"
        "def late():\n"
        "    time.sleep(0.2)\n"
        "    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(ValueError))\n"
        "    open('set', 'w').close()\n"
        "threading.Thread(target=late).start()"
    )
    while not (session.directory / "set").exists():
        time.sleep(0.01)
    assert session.run("sum(i for i in range(1000))").result == "499500"


def test_interrupt_at_any_moment_is_answered_once(session):
    """An interrupt during the end of a cell is its error or nobody's."""
    for i in range(200):
        session.start("class R:\n    def _repr_html_(self): return 'h'\nprint('x')\n1/0" if i % 2 else "R()")
        if i % 5 == 0:
            time.sleep(0.0001 * (i % 7))
        session.interrupt()
        session.finish()
    assert session.run("'alive'").result == "'alive'"
    assert session.messages == []


def test_os_exit_ends_the_process(session):
    session.start("print('last words', flush=True)\nimport os\nos._exit(3)")
    with pytest.raises(InterpreterDied) as died:
        session.finish()
    assert died.value.args == (3,)


def test_a_crash_says_where(session):
    session.start("import ctypes\nctypes.string_at(0)")
    with pytest.raises(InterpreterDied) as died:
        session.finish()
    assert died.value.args == (-signal.SIGSEGV,)
    while b"<cell 1>" not in session.output[2]:
        session.pump_output(10)


def test_the_process_ends_with_its_supervisor(tmp_path):
    interpreter = Interpreter(tmp_path)
    interpreter.run("import threading\nthreading.Thread(target=threading.Event().wait).start()")
    interpreter.close()
    assert interpreter.process.returncode == 0
