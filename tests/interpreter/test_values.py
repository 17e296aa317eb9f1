"""What a cell's last expression becomes, and what stays alive between cells."""

import re

import pytest

from .harness import Interpreter

LIMIT_RESULT = 1 << 20


def test_ready_names_both_versions(session):
    assert re.fullmatch(r"limpet-interpreter/\S+ python/3\.\d+\.\d+\S*", session.peer)


def test_executed_has_exactly_its_fields(shared):
    body = shared.run("1").body
    assert set(body) == {"result", "changed", "error", "spawned", "cpu", "peak_memory"}
    assert body["cpu"] >= 0 and body["peak_memory"] > 1 << 20


def test_cpu_counts_the_cell_and_its_children(session):
    busy = "import time\nend = time.process_time() + 0.1\nwhile time.process_time() < end: pass\n"
    spent = session.run(busy).body["cpu"]
    assert spent > 0.05
    assert session.run("pass").body["cpu"] < spent, "of this cell alone"
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])"
    assert session.run(child).body["cpu"] > 0.05


def test_variables_live_on(session):
    assert session.run("x = 41").result is None
    assert session.run("x + 1").result == "42"


def test_assignments_before_an_error_survive(session):
    assert session.run("a = 1\nb = 2\n1/0\nc = 3").error["name"] == "ZeroDivisionError"
    assert session.run("(a, b, 'c' in globals())").result == "(1, 2, False)"


@pytest.mark.parametrize(
    "code, result",
    [
        ("", None),
        ("\n\n# nothing\n", None),
        ("None", None),
        ("1", "1"),
        ("'é🐚'", "'é🐚'"),
        ("1;", None),
        ("1;  # quiet", None),
        ("1  # ; not quiet", "1"),
        ("x = 1; x", "1"),
        ("x = 1; x;", None),
        ("import os; os.sep", "'/'"),
        ("if True:\n    5", None),
        ("x = 3\nx\n\n# end\n", "3"),
        ("\r\nx = 4\r\nx\r\n", "4"),
        ("x = 5\rx", "5"),
        ("\ufeff6", "6"),
        ("# -*- coding: latin-1 -*-\n'ä'", "'ä'"),
        ("'''\na\r\nb'''", r"'\na\nb'"),
        ("(lambda a=1: a)()", "1"),
        ("lambda a=1: a;", None),
    ],
)
def test_last_expression(shared, code, result):
    reply = shared.run(code)
    assert reply.error is None
    assert reply.result == result


def test_underscore_is_the_last_value(session):
    session.run("20 + 1")
    assert session.run("_ * 2").result == "42"
    session.run("x = 1")
    assert session.run("_").result == "42"


def test_underscore_of_the_user_is_left_alone(session):
    session.run("_ = 'mine'")
    session.run("5")
    assert session.run("_").result == "'mine'"


def test_underscore_alone_keeps_its_value(session):
    session.run("import weakref\nclass C: pass\nc = C(); gone = weakref.ref(c)")
    session.run("c")
    assert session.run("del c, _; gone() is None").result == "True"
    assert session.run("[3]").result == "[3]" and session.run("_").result == "[3]"


def test_long_repr_is_cut_and_says_so(session):
    result = session.run("'x' * 3_000_000").result
    assert len(result.encode()) <= LIMIT_RESULT
    assert "3000002 bytes in all, cut to" in result[-100:]


def test_cut_does_not_split_characters(session):
    result = session.run("'🐚' * 1_000_000").result
    assert len(result.encode()) <= LIMIT_RESULT
    assert "\ufffd" not in result


def test_repr_that_raises(session):
    session.run("class A:\n    def __repr__(self):\n        raise ValueError('no')")
    reply = session.run("A()")
    assert reply.error is None
    assert reply.result == "<A object; repr() raised ValueError: no>"


def test_repr_whose_exception_has_no_text(session):
    session.run(
        "class E(Exception):\n    def __str__(self): raise E()\nclass A:\n    def __repr__(self): raise E()"
    )
    assert session.run("A()").result == "<A object; repr() raised E>"


def test_repr_that_is_interrupted_is_the_cells_error(session):
    session.run(
        "class A:\n    def __repr__(self):\n        print('in repr', flush=True)\n        while True: pass"
    )
    session.start("A()")
    session.wait_output("in repr")
    session.interrupt()
    reply = session.finish()
    assert reply.result is None
    assert reply.error["name"] == "KeyboardInterrupt"
    assert session.run("1").result == "1"


def test_repr_with_lone_surrogates(shared):
    assert shared.run("class S:\n    def __repr__(self): return 'a\\udc80'\nS()").result == "a\\udc80"


def test_main_is_a_real_module(session):
    code = """
import sys, pickle, dataclasses, typing
@dataclasses.dataclass
class Point:
    x: 'int'
    y: int = 2
def double(v): return v * 2
assert sys.modules['__main__'].__dict__ is globals()
assert __name__ == '__main__' and Point.__module__ == '__main__'
assert typing.get_type_hints(Point) == {'x': int, 'y': int}
[pickle.loads(pickle.dumps(Point(1))), pickle.loads(pickle.dumps(double))(4)]
"""
    assert session.run(code).result == "[Point(x=1, y=2), 8]"
    assert session.run("pickle.loads(pickle.dumps(Point(7)))").result == "Point(x=7, y=2)"


def test_modules_of_the_session_import_and_ours_come_last(session):
    (session.directory / "mine.py").write_text("value = 'mine'")
    assert session.run("import mine; mine.value").result == "'mine'"
    assert session.run("import sys; sys.path[0]").result == repr(str(session.directory))
    assert (
        session.run("import limpet_tools; limpet_tools.__file__.startswith(sys.path[-1])").result
        == "True"
    )


def test_future_imports_hold_for_later_cells(session):
    session.run("from __future__ import annotations")
    assert (
        session.run("def f(x: undefined_name): pass\nf.__annotations__").result == "{'x': 'undefined_name'}"
    )


def test_source_is_found_by_inspect(session):
    session.run("x = 0\n\ndef f(a):\n    return a + 1\n")
    assert session.run("import inspect\ninspect.getsource(f)").result == repr("def f(a):\n    return a + 1\n")
    session.run("1/0")
    assert session.run("inspect.getsource(f)").result == repr("def f(a):\n    return a + 1\n")


def test_only_the_newest_sources_are_kept(session):
    session.run("def f(): return 1\nimport linecache, inspect")
    for _ in range(1001):
        session.run("0")
    assert session.run("sum(k.startswith('<cell') for k in linecache.cache)").result == "1000"
    assert session.run("inspect.getsource(f)").error["name"] == "OSError"
    assert session.run("f()").result == "1"


def test_large_sources_are_bounded_by_bytes(session):
    for _ in range(12):
        session.run("s = '" + "x" * 4_000_000 + "'")
    count = int(session.run("import linecache\nsum(k.startswith('<cell') for k in linecache.cache)").result)
    assert 7 <= count <= 9


def test_environment_is_the_real_one(tmp_path):
    interpreter = Interpreter(tmp_path, env={"LIMPET_TEST": "ü"})
    assert interpreter.run("import os; os.environ['LIMPET_TEST']").result == "'ü'"
    assert interpreter.run("import sys; sys.getfilesystemencoding()").result == "'utf-8'"
    interpreter.close()


# Read when Python starts; the value of each is what a cell and a python3 beside it say the same of.
AT_START = [
    ({"PYTHONPATH": "/nowhere:/else"}, "[p for p in sys.path if p in ('/nowhere', '/else')]"),
    ({"PYTHONHASHSEED": "7"}, "hash('a')"),
    ({"PYTHONWARNINGS": "error"}, "sys.warnoptions"),
    ({"PYTHONOPTIMIZE": "1"}, "__debug__"),
    ({"PYTHONTRACEMALLOC": "3"}, "tracemalloc.get_traceback_limit()"),
    ({"LC_ALL": "C.UTF-8"}, "locale.getlocale()"),
    ({"LC_ALL": "C"}, "locale.setlocale(locale.LC_CTYPE)"),
    ({}, "(sys.flags.isolated, sys.flags.ignore_environment, sys.flags.safe_path, subprocess._args_from_interpreter_flags())"),
]


@pytest.mark.parametrize("env, value", AT_START)
def test_the_environment_counts_as_in_python3(tmp_path, env, value):
    always = {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", "PYTHONFAULTHANDLER": "1"}
    imports = "import locale, subprocess, sys, tracemalloc, warnings\n"
    beside = ["python3", "-c", f"{imports}print(repr({value}))"]
    interpreter = Interpreter(tmp_path, env={**always, **env})
    try:
        plain = interpreter.value(f"{imports}subprocess.run({beside}, capture_output=True, text=True).stdout")
        assert interpreter.run(value).result == plain.strip()
    finally:
        interpreter.close()


def test_modules_of_the_environment_are_not_ours(tmp_path):
    """A module that hides one of the library's does so for cells, and not for what describes their errors."""
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "traceback.py").write_text("hidden = True")
    interpreter = Interpreter(tmp_path, env={"PYTHONPATH": str(tmp_path / "named")})
    try:
        assert interpreter.run("import traceback; traceback.hidden").result == "True"
        assert "1/0" in interpreter.run("1/0").error["traceback"]
    finally:
        interpreter.close()


def test_input_is_at_its_end(session):
    for _ in range(2):
        assert session.run("input('name? ')").error["name"] == "EOFError"
        assert session.run("import sys; sys.stdin.read()").result == "''"
        session.run("sys.stdin.close()")


def test_no_descriptor_of_ours_is_inherited(session):
    session.run("import subprocess, os")
    reply = session.run(
        "subprocess.run(['ls', '/proc/self/fd'], capture_output=True, close_fds=False).stdout.split()"
    )
    assert max(map(int, eval(reply.result))) < 900
    assert session.run("os.open('/dev/null', 0)").result == "3"


def test_a_displayhook_is_called_in_place_of_the_usual_one(session):
    session.run("import sys; usual = sys.displayhook; sys.displayhook = lambda value: print('shown', value)")
    reply = session.run("6 * 7")
    assert (reply.stdout, reply.result) == ("shown 42\n", None)
    session.run("sys.displayhook = lambda value: usual(value + 1)")
    assert session.run("6 * 7").result == "43"
    session.run("sys.displayhook = lambda value: None + 1")
    reply = session.run("6 * 7")
    assert reply.result == "42" and reply.stderr.startswith("Error in sys.displayhook:\nTraceback")
    session.run("sys.displayhook = sys.__displayhook__")
    reply = session.run("exec(compile('8', '', 'single')); 9")
    assert (reply.stdout, reply.result) == ("8\n", "9")
