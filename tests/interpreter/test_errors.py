"""Exceptions as name, message and traceback."""

import ctypes
import os

import pytest

from .harness import Interpreter

LIMIT_TRACEBACK = 256 << 10
CLONE_NEWNET = 0x40000000


def error(session, code):
    reply = session.run(code)
    assert reply.error is not None and set(reply.error) == {"name", "message", "traceback"}
    assert reply.result is None
    assert session.run("1").result == "1"
    return reply.error


def test_traceback_has_user_frames_with_source(session):
    session.run("def f(n):\n    return 1 / n\n")
    e = error(session, "y = 2\nf(0)")
    assert e["name"] == "ZeroDivisionError"
    assert e["message"] == "division by zero"
    lines = e["traceback"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == '  File "<cell 2>", line 2, in <module>'
    assert lines[2] == "    f(0)"
    assert '  File "<cell 1>", line 2, in f' in lines and "    return 1 / n" in lines
    assert "limpet" not in e["traceback"]


def test_library_frames_stay(session):
    text = error(session, "import json\njson.loads('{')")["traceback"]
    assert "json/decoder.py" in text


def test_causes_and_contexts(session):
    code = """
def g():
    try:
        1/0
    except ZeroDivisionError as e:
        raise KeyError('k') from e
try:
    g()
except KeyError:
    {}['other']
"""
    text = error(session, code)["traceback"]
    assert "direct cause" in text and "During handling" in text
    assert text.count("<cell 1>") == 4
    assert "limpet_runtime" not in text


def test_exception_groups(session):
    text = error(
        session, "raise ExceptionGroup('many', [ValueError('a'), ExceptionGroup('in', [TypeError('b')])])"
    )["traceback"]
    assert "ExceptionGroup: many (2 sub-exceptions)" in text and "TypeError: b" in text


def test_notes(session):
    text = error(session, "e = ValueError('a')\ne.add_note('look here')\nraise e")["traceback"]
    assert text.endswith("ValueError: a\nlook here\n")


def test_a_missing_package_says_how_to_add_it(session):
    text = error(session, "import duckdb_of_the_future")["traceback"]
    assert text.endswith("it can be added: session.install(['duckdb_of_the_future']) for this session.\n")
    part = "raise ModuleNotFoundError(\"No module named 'pptx'\", name='pptx')"
    wrapped = f"try:\n    {part}\nexcept ImportError as e:\n    raise ImportError('Missing optional dependency') from e"
    for code in (part, wrapped):
        text = error(session, code)["traceback"]
        assert "session.install(['python-pptx'])" in text and "limpet image build --with data" in text
    for code in ("import limpet_nothing", "import json.nothing", "raise ImportError('x')", "from os import nothing"):
        assert "install" not in error(session, code)["traceback"], code


def test_syntax_error_with_caret(session):
    e = error(session, "x = 1\ny = (1,,2)\n")
    assert e["name"] == "SyntaxError"
    assert '  File "<cell 1>", line 2\n    y = (1,,2)\n           ^\n' in e["traceback"]


def test_syntax_error_found_after_parsing_has_its_line(session):
    text = error(session, "x = 1\nreturn x")["traceback"]
    assert '  File "<cell 1>", line 2\n    return x\n    ^' in text


def test_nothing_of_a_cell_with_a_syntax_error_runs(session):
    error(session, "touched = 1\nif\n5")
    assert session.run("'touched' in globals()").result == "False"


def test_null_bytes(session):
    assert error(session, "x = 1\0")["name"] == "SyntaxError"


@pytest.mark.parametrize("code", ["import sys\nsys.exit(3)", "exit(3)", "quit(3)", "raise SystemExit(3)"])
def test_exit_is_an_error_and_the_session_goes_on(session, code):
    session.run("kept = 5")
    e = error(session, code)
    assert (e["name"], e["message"]) == ("SystemExit", "3")
    assert session.run("kept").result == "5"


def test_keyboard_interrupt(session):
    session.start("print('on', flush=True)\nwhile True: pass")
    session.wait_output("on")
    session.interrupt()
    reply = session.finish()
    assert reply.error["name"] == "KeyboardInterrupt"
    assert "<cell 1>" in reply.error["traceback"]


@pytest.mark.parametrize(
    "wait", ["time.sleep(60)", "threading.Event().wait()", "subprocess.run(['sleep', '60'])"]
)
def test_interrupt_reaches_waits(session, wait):
    session.start(f"import time, threading, subprocess\nprint('on', flush=True)\n{wait}")
    session.wait_output("on")
    session.interrupt_wait()
    assert session.finish().error["name"] == "KeyboardInterrupt"


def test_interrupt_does_not_escape_a_loop_of_one_line(session):
    """CPython may raise it outside of a try statement that encloses such a loop."""
    for _ in range(5):
        session.start("print('on', flush=True)\ntry:\n    while True: pass\nexcept KeyboardInterrupt: pass")
        session.wait_output("on")
        session.interrupt()
        reply = session.finish()
        assert reply.error is None or reply.error["name"] == "KeyboardInterrupt"


def test_recursion(session):
    e = error(session, "def f(): f()\nf()")
    assert e["name"] == "RecursionError"
    assert len(e["traceback"]) < 20_000


def test_deep_recursion_is_bounded(session):
    code = "import sys\nsys.setrecursionlimit(50_000)\n"
    code += "def f(n):\n    return 1 / n if n == 0 else f(n - 1)\nf(20_000)"
    e = error(session, code)
    assert e["name"] == "ZeroDivisionError"
    assert len(e["traceback"].encode()) <= LIMIT_TRACEBACK


def test_long_messages_are_cut_in_the_middle(session):
    e = error(session, "raise ValueError('a' * 10**6 + 'z')")
    assert len(e["traceback"].encode()) <= LIMIT_TRACEBACK
    assert e["traceback"].startswith("Traceback") and e["traceback"].endswith("z\n")
    assert len(e["message"].encode()) <= LIMIT_TRACEBACK


def test_memory_error(session):
    assert error(session, "x = bytearray(1 << 60)")["name"] == "MemoryError"


MISBEHAVING = {
    "str raises": "class E(Exception):\n    def __str__(self): raise ValueError",
    "str raises itself": "class E(Exception):\n    def __str__(self): raise self",
    "str returns no text": "class E(Exception):\n    def __str__(self): return 5",
    "str exits": "class E(Exception):\n    def __str__(self): raise SystemExit",
    "str recurses": "class E(Exception):\n    def __str__(self): return str(self)",
    "class property raises": "class E(Exception):\n    __class__ = property(lambda self: 1 / 0)",
    "getattribute raises": "class E(Exception):\n    def __getattribute__(self, n): raise RuntimeError",
    "metaclass": (
        "class M(type):\n"
        "    __name__ = property(lambda c: 1 / 0)\n"
        "    __module__ = 5\n"
        "class E(Exception, metaclass=M): pass"
    ),
    "module is no text": "class E(Exception): pass\nE.__module__ = 5",
    "name with surrogates": "E = type('E', (Exception,), {})\nE.__qualname__ = 'E\\udc80'",
    "base exception": "class E(BaseException): pass",
    "notes": "class E(Exception):\n    __notes__ = 5",
    "traceback": "class E(Exception):\n    __traceback__ = property(lambda s: 1 / 0)",
    "cause": "class E(Exception):\n    @property\n    def __cause__(self): return self",
    "suppress": "class E(Exception):\n    @property\n    def __suppress_context__(self): 1/0",
    "syntax error": "class E(SyntaxError):\n    lineno = 'a'\n    text = 5\n    filename = []",
    "equal to all": (
        "class E(Exception):\n"
        "    __eq__ = lambda s, o: 1 / 0\n"
        "    __hash__ = None\n"
        "    __bool__ = lambda s: 1 / 0"
    ),
}


@pytest.mark.parametrize("case", MISBEHAVING)
def test_misbehaving_exceptions_are_answered(session, case):
    session.run(MISBEHAVING[case])
    e = error(session, "raise E()")
    assert "E" in e["name"] or case == "metaclass"


def test_context_cycle(session):
    code = "a = ValueError('a')\nb = KeyError('b')\na.__context__ = b\nb.__context__ = a\nraise a"
    assert error(session, code)["name"] in ("ValueError", "KeyError")


def test_str_that_never_ends_is_interrupted(session):
    session.run(
        (
            "class E(Exception):\n"
            "    def __str__(self):\n"
            "        print('in str', flush=True)\n"
            "        while True: pass"
        )
    )
    session.start("raise E()")
    for _ in range(2):  # once for the description, once more for the shorter one
        session.wait_output("in str")
        session.output[1].clear()
        session.interrupt()
    assert session.finish().error["name"] == "E"
    assert session.run("1").result == "1"


def test_warnings_show_the_source_line(session):
    stderr = session.run("import warnings\nwarnings.warn('careful')").stderr
    assert "<cell 1>:2: UserWarning: careful" in stderr and "warnings.warn('careful')" in stderr


def test_a_warning_is_shown_in_each_cell(session):
    session.run("import warnings")
    for _ in range(2):
        assert "again" in session.run("warnings.warn('again')").stderr
    assert session.run("for _ in range(3): warnings.warn('often')").stderr.count("UserWarning: often") == 1


FAILS = "def f(n):\n    return 1 / n\nf(0)"


def test_the_last_exception_is_there_in_the_next_cell(session):
    error = session.run(FAILS).error
    reply = session.run("import traceback; traceback.print_last()")
    assert reply.stderr.rstrip() == error["traceback"].rstrip()
    assert session.run("import sys; sys.last_traceback.tb_next.tb_frame.f_locals").result == "{'n': 0}"
    copy = session.checkpoint().restore()
    assert copy.run("import sys; sys.last_type.__name__, sys.last_value is sys.last_exc").result == "('ZeroDivisionError', True)"


def test_the_last_exception_of_a_cell_that_awaits_begins_in_the_cell(session):
    session.run("import asyncio\nawait asyncio.sleep(0)\n1 / 0")
    assert session.run("import sys; sys.last_traceback.tb_frame.f_code.co_filename").result == "'<cell 1>'"


def test_what_there_was_no_memory_for_is_not_kept(session):
    session.run("import weakref\nclass Big: pass\ndef f():\n    global seen\n    big = Big()\n    seen = weakref.ref(big)\n    raise MemoryError\nf()")
    assert session.run("import sys; seen() is None, sys.last_traceback is not None").result == "(True, True)"


def test_an_excepthook_is_called(session):
    session.run("import sys; sys.excepthook = lambda kind, error, tb: print(kind.__name__, error, tb.tb_lineno)")
    reply = session.run("\n1 / 0")
    assert reply.stdout == "ZeroDivisionError division by zero 2\n" and reply.error["name"] == "ZeroDivisionError"
    session.run("sys.excepthook = lambda *how: None + 1")
    reply = session.run("1 / 0")
    assert reply.stderr.startswith("Error in sys.excepthook:\nTraceback") and reply.error["name"] == "ZeroDivisionError"


def test_the_last_line_of_a_cell_is_marked_where_it_failed(session):
    assert "    {}['key']\n    ~~^^^^^^^\n" in session.run("{}['key']").error["traceback"]


@pytest.mark.parametrize("code", ["!ls", "%timeit 1", "x = 1\n  \n%matplotlib inline"])
def test_a_command_of_ipython_is_told_from_python(session, code):
    failed = error(session, code)
    assert failed["name"] == "SyntaxError" and "Commands of IPython are for notebooks" in failed["traceback"]


def test_memory_that_is_not_there_is_told(session):
    assert "larger memory=" in error(session, "bytearray(1 << 60)")["traceback"]


@pytest.mark.parametrize("code", ["raise OSError(errno.ENETUNREACH, 'unreachable')", "import socket; raise socket.gaierror"])
def test_no_network_is_told(tmp_path, code):
    if os.geteuid() != 0:
        pytest.skip("a network of its own takes root")
    interpreter = Interpreter(tmp_path, prepare=lambda: ctypes.CDLL(None).unshare(CLONE_NEWNET))
    try:
        assert "This session has no network" in interpreter.run(f"import errno; {code}").error["traceback"]
    finally:
        interpreter.close()
