"""What the runtime itself imports late comes from the standard library, whatever a cell has done by then."""

import pytest

from .test_prepare import prepare

FAIL = "def f(n):\n    return 1 + 1 / n\nf(0)"
SHADOWS = "ast contextlib enum inspect re textwrap token tokenize traceback unicodedata warnings".split()

# Python marks the part of the line that failed: by traceback, which nothing but the import in full can do.
MARKED = "    return 1 + 1 / n\n               ~~^~~\n"


def shadow(session):
    for name in SHADOWS:
        (session.directory / f"{name}.py").write_text("whose = 'of the session'\n")


def check_error(session):
    error = session.run(FAIL).error
    assert error["name"] == "ZeroDivisionError"
    assert MARKED in error["traceback"], error["traceback"]


def test_nothing_heavy_is_imported_before_a_cell_needs_it(session):
    loaded = session.run("import sys\nsorted({'ast', 'inspect', 'signal', 'traceback', 'uuid'} & sys.modules.keys())")
    assert loaded.result == "[]"


def test_where_there_is_time_it_is_imported_before(session):
    prepare(session, imports=["json"])
    assert session.run("import sys\n{'ast', 'tokenize', 'unicodedata'} <= sys.modules.keys()").result == "True"
    check_error(session)


def test_modules_beside_the_session_do_not_take_the_place_of_the_library(session):
    shadow(session)
    check_error(session)
    error = session.run("x = (").error
    assert error["name"] == "SyntaxError" and "x = (" in error["traceback"]


def test_modules_of_the_session_stay_what_cells_find(session):
    shadow(session)
    session.run("import inspect, textwrap, traceback")
    check_error(session)
    reply = session.run("import inspect, textwrap, traceback\n[m.whose for m in (inspect, textwrap, traceback)]")
    assert reply.result == str(["of the session"] * 3)


@pytest.mark.parametrize(
    "damage",
    [
        "sys.path.clear(); sys.meta_path.clear(); sys.path_hooks.clear(); sys.path_importer_cache.clear()",
        "sys.path = sys.meta_path = sys.path_hooks = sys.path_importer_cache = None",
        "sys.modules['re'] = sys.modules['tokenize'] = None",
        "import builtins; builtins.__import__ = None",
        "sys.modules.clear()",
    ],
)
def test_an_import_system_that_a_cell_has_broken(session, damage):
    session.run(f"import sys\n{damage}")
    check_error(session)


def test_the_import_system_is_the_cells_own_again(session):
    session.run("import sys\nbefore = sys.meta_path, list(sys.meta_path), list(sys.path)")
    check_error(session)
    same = session.run("before == (sys.meta_path, sys.meta_path, sys.path) and before[0] is sys.meta_path")
    assert same.result == "True"


def test_a_cell_that_broke_traceback_does_not_break_ours(session):
    session.run("import traceback\nfor name in dir(traceback):\n    setattr(traceback, name, None)")
    check_error(session)


def test_without_a_descriptor_left_the_frames_are_told_anyway(session):
    session.run(
        "import os, resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "kept = []\n"
        "def leak():\n"
        "    while True: kept.append(os.open('/dev/null', os.O_RDONLY))"
    )
    error = session.run("leak()").error
    assert error["name"] == "OSError" and "Too many open files" in error["message"]
    assert '  File "<cell 1>", line 5, in leak\n    while True:' in error["traceback"]
    assert '  File "<cell 2>", line 1, in <module>\n    leak()\n' in error["traceback"]
    session.run("[os.close(fd) for fd in kept]")
    check_error(session)


def test_threads_that_import_meanwhile_are_left_alone(session):
    (session.directory / "slow.py").write_text("import time\ntime.sleep(0.2)\nimport mine\n")
    (session.directory / "mine.py").write_text("value = 5\n")
    session.run(
        "import threading, importlib\n"
        "got = []\n"
        "thread = threading.Thread(target=lambda: got.append(importlib.import_module('slow').mine.value))\n"
        "thread.start()"
    )
    check_error(session)
    assert session.run("thread.join()\ngot").result == "[5]"


@pytest.mark.parametrize(
    "source, quiet",
    [
        ("x", False),
        ("x;", True),
        ("x \\\n ;", True),
        ("(x  # why\n);", True),
        ("(x\n# a;\n\n# b\n) ;  # c", True),
        ("x  # ;", False),
        ("(x  # ;\n)", False),
    ],
)
def test_a_semicolon_hides_the_result_however_far_it_is(shared, source, quiet):
    reply = shared.run(
        "from limpet_runtime.cells import compile_cell\n"
        f"head, tail = compile_cell({source!r}, 'a cell', 0)\n"
        "tail is None"
    )
    assert reply.result == str(quiet)
