"""The same lines in python3, in a cell of a session, and in a call without one: docs/cells.md has those that differ."""

import json
import re
import subprocess

import pytest
from tests.support import ROOT

from .harness import Interpreter

PAGE = (ROOT / "docs/cells.md").read_text()
ROW = re.compile(r"^\| `([^`]+)` \|(?: `([^`]+)`)? \|(?: `([^`]+)`)? \| .* \|$", re.MULTILINE)
DIFFERENT = {line: (plain, cell) for line, plain, cell in ROW.findall(PAGE)}

ASYNC = "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\n"
SAME = {
    "print": "print('a', 'b', sep='-', end='.')",
    "an error": "print('before'); 1 / 0",
    "an error without a message": "raise KeyError",
    "input": "input()",
    "input with a prompt": "input('name? ')",
    "lines of stdin": "import sys; print(list(sys.stdin))",
    "stdin": "import sys; print(repr(sys.stdin.read()))",
    "main": "if __name__ == '__main__': print('main')",
    "globals": "x = 1; print(globals()['x'], vars()['x'], 'x' in dir())",
    "annotations": "x: int = 1\nprint(__annotations__['x'])",
    "class": "class A: pass\nprint(A, A.__module__, A.__qualname__)",
    "pickle": "import pickle\nclass A:\n    x = 1\nprint(pickle.loads(pickle.dumps(A())).x)",
    "dataclass": "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int = 3\nprint(P())",
    "enum": "import enum\nclass C(enum.Enum):\n    RED = 1\nprint(C.RED, repr(C.RED))",
    "source": "import inspect\ndef f():\n    return 1\nclass A:\n    x = 1\nprint(inspect.getsource(f), inspect.getsource(A))",
    "hints": "import typing\nclass A:\n    x: 'A'\nprint(typing.get_type_hints(A))",
    "doctest": 'import doctest\ndef f():\n    """\n    >>> 1 + 1\n    2\n    """\nprint(doctest.run_docstring_examples(f, {}))',
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 1)\n"
    "print(unittest.main(exit=False, argv=['x', 'T']).result.testsRun)",
    "asyncio.run": f"{ASYNC}print(asyncio.run(f()))",
    "event loop": f"{ASYNC}loop = asyncio.new_event_loop(); print(loop.run_until_complete(f())); loop.close()",
    "no running loop": "import asyncio; asyncio.get_running_loop()",
    "thread": "import threading; t = threading.Thread(target=print, args=('t',)); t.start(); t.join()",
    "subprocess": "import subprocess; subprocess.run(['echo', 'child']); print('end')",
    "system": "import os; print('a', flush=True); os.system('echo b'); print('c')",
    "fork": "import os\npid = os.fork()\nif pid == 0:\n    os._exit(3)\nprint(os.waitpid(pid, 0)[1])",
    "pool": "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n"
    "    with m.get_context('fork').Pool(2) as p: print(p.map(f, [1, 2]))",
    "executor": "import concurrent.futures as c\nwith c.ThreadPoolExecutor(2) as e: print(list(e.map(abs, [-1, -2])))",
    "logging": "import logging, sys; logging.basicConfig(stream=sys.stdout, force=True); logging.warning('w')",
    "warning": "import warnings\nwith warnings.catch_warnings(record=True) as seen:\n"
    "    warnings.simplefilter('always'); warnings.warn('w')\nprint(len(seen))",
    "redirect": "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as f: print('x')\nprint(repr(f.getvalue()))",
    "stdout": "import sys; print(sys.stdout.encoding, sys.stdout.isatty(), sys.stdout.fileno())",
    "buffer": "import sys; n = sys.stdout.buffer.write(b'bytes\\n'); sys.stdout.flush()",
    "traceback": "import traceback\ntry: 1 / 0\nexcept Exception: print(traceback.format_exc().splitlines()[-1])",
    "recursion": "def f(): f()\nf()",
    "context": "import contextvars; v = contextvars.ContextVar('v', default=1); t = v.set(2); v.reset(t); print(v.get())",
    "signal": "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)",
    "exec": "exec(compile('6 * 7', '', 'single'))",
    "decimal": "import decimal\nwith decimal.localcontext() as c: c.prec = 3; print(decimal.Decimal(1) / 3)",
    "locale": "import locale; print(locale.getlocale(), locale.getpreferredencoding(False).lower())",
    "temporary": "import tempfile\nwith tempfile.NamedTemporaryFile('w+') as f: print(f.write('t'), f.seek(0), f.read())",
    "sqlite": "import sqlite3; print(sqlite3.connect(':memory:').execute('select 1').fetchone())",
    "import": "import pathlib; n = pathlib.Path('own.py').write_text('x = 8'); import own; print(own.x)",
    "hook for warnings": "import warnings\nold, warnings.showwarning = warnings.showwarning, lambda m, *a, **k: print('mine', m)\n"
    "warnings.simplefilter('always'); warnings.warn('w'); warnings.showwarning = old; warnings.resetwarnings()",
    "hook for threads": "import threading\nthreading.excepthook = lambda args: print('hook', args.exc_type.__name__)\n"
    "t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join(); threading.excepthook = threading.__excepthook__",
    "hook for finalizers": "import sys\nsys.unraisablehook = lambda u: print('hook', u.exc_type.__name__)\nclass A:\n    def __del__(self): 1 / 0\n"
    "a = A(); del a\nsys.unraisablehook = sys.__unraisablehook__",
    "trace": "import sys\nseen = []\ndef trace(frame, event, arg): seen.append(event); return trace\ndef f(): return 1\n"
    "sys.settrace(trace); f(); sys.settrace(None); print(seen)",
    "alarm": "import signal, time\nold = signal.signal(signal.SIGALRM, lambda *a: print('alarm'))\n"
    "signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause(); signal.signal(signal.SIGALRM, old)",
    "subprocess of asyncio": "import asyncio\nasync def f():\n    p = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\n"
    "    return (await p.communicate())[0]\nprint(asyncio.run(f()))",
    "stdin of a child": "import subprocess; print(subprocess.run(['cat'], capture_output=True).stdout)",
    "descriptor 1": "import os, sys; print('a', flush=True); os.write(1, b'b\\n'); print('c')",
    "source of a lambda": "import inspect\nf = lambda x: x + 1\nprint(inspect.getsource(f))",
    "source of an inner class": "import inspect\nclass Outer:\n    class Inner:\n        y = 2\nprint(inspect.getsource(Outer.Inner))",
    "caller": "import inspect\ndef f(): return inspect.currentframe().f_back.f_code.co_name\nprint(f())",
    "future": "from __future__ import annotations\nimport typing\ndef f(x: Later): ...\nclass Later: pass\nprint(typing.get_type_hints(f))",
    "debugger that is off": "import os; os.environ['PYTHONBREAKPOINT'] = '0'; breakpoint(); del os.environ['PYTHONBREAKPOINT']; print('past')",
    "exit with a message": "import sys\ntry: sys.exit('why')\nexcept SystemExit as error: print(error)",
    "group": "raise ExceptionGroup('g', [ValueError(1)])",
    "reload": "import importlib, pathlib\np = pathlib.Path('again.py'); n = p.write_text('x = 1'); import again\nn = p.write_text('x = 22')\n"
    "print(importlib.reload(again).x)",
    "server": "import http.server, threading, urllib.request\nclass H(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self): self.send_response(204); self.end_headers()\n    def log_message(self, *a): pass\n"
    "s = http.server.HTTPServer(('127.0.0.1', 0), H); t = threading.Thread(target=s.handle_request); t.start()\n"
    "print(urllib.request.urlopen(f'http://127.0.0.1:{s.server_port}').status); t.join(); s.server_close()",
    "path": "import os, sys; print(os.path.realpath(sys.path[0]) == os.getcwd())",
}

# Runs each line as a script of its own, in a copy of itself: what each has written, and the name of its error.
RUNNER = """
import json, os, runpy, sys, threading

def run(code):
    with open('script.py', 'w') as file:
        file.write(code)
    out = os.open('out', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    if os.fork() == 0:
        os.dup2(out, 1)
        sys.argv, sys.path[0], name = ['script.py'], os.getcwd(), ''
        try:
            runpy.run_path('script.py', run_name='__main__')
        except SystemExit:
            pass
        except BaseException as error:
            name = type(error).__name__
        threading._shutdown()
        sys.stdout.flush()
        os.write(out, name.encode())
        os._exit(0)
    os.wait()
    return os.pread(out, 1 << 20, 0).decode()

print(json.dumps([run(code) for code in json.load(open('lines'))]))
"""
ENV = {"LANG": "C.UTF-8"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What each line does in python3."""
    directory = tmp_path_factory.mktemp("plain")
    lines = [*DIFFERENT, *SAME.values()]
    (directory / "lines").write_text(json.dumps(lines))
    (directory / "run.py").write_text(RUNNER)
    done = subprocess.run(
        ["/usr/bin/python3", "run.py"],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", **ENV},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(zip(lines, json.loads(done.stdout)))


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory):
    interpreter = Interpreter(tmp_path_factory.mktemp("session"), env=ENV)
    yield interpreter
    interpreter.close()


@pytest.fixture(scope="module")
def fresh(interpreter):
    """A copy of it from before the first line."""
    return interpreter.checkpoint()


@pytest.fixture(params=["session", "script"])
def run(request, interpreter, fresh):
    def run(code):
        reply = interpreter.run(code) if request.param == "session" else fresh.restore().script(code)
        return reply.stdout + (reply.error["name"] if reply.error else "")

    return run


@pytest.mark.parametrize("line", SAME.values(), ids=SAME)
def test_the_same_everywhere(plain, run, line):
    assert run(line) == plain[line]


@pytest.mark.parametrize("line", DIFFERENT)
def test_what_differs_is_on_the_page(plain, run, line):
    assert (plain[line].strip(), run(line).strip()) == DIFFERENT[line]


def test_rows_of_the_page_are_differences():
    assert len(DIFFERENT) == PAGE.count("\n| `") > 0
    assert all(plain != cell for plain, cell in DIFFERENT.values())
