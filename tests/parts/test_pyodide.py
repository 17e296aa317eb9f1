"""Pyodide: Python in WebAssembly, with variables that stay, and a wall inside that of the container."""

import pytest


@pytest.fixture(scope="module")
def session(limpetd):
    """One for all tests: Pyodide takes its time to start."""
    with limpetd.client() as client, client.open() as session:
        yield session


@pytest.fixture(scope="module")
def cells(session):
    return session.context("cells", language="wasm")


def run(cells, code, timeout=120):
    return cells.run(code, timeout=timeout)


def test_variables_stay(cells):
    run(cells, "import sys; x = 41")
    result = run(cells, "print('out'); print('err', file=sys.stderr); x + 1")
    assert (result.result, result.stdout, result.stderr) == ("42", "out\n", "err\n")
    assert (result.kind, result.state) == ("pyodide", "kept")
    assert run(cells, "sys.platform").result == "'emscripten'"
    assert run(cells, "None").result is None


def test_errors(cells):
    run(cells, "x = 1")
    result = run(cells, "def f():\n  raise TypeError('no good')\nf()")
    assert (result.status, result.error.name, result.error.message) == ("error", "TypeError", "no good")
    assert f'  File "<cell {result.execution_count}>", line 2, in f\n    raise TypeError' in result.error.traceback
    assert "pyodide" not in result.error.traceback
    assert run(cells, "let x = = 3").error.name == "SyntaxError"
    assert run(cells, "import sys; sys.exit(3)").error.name == "SystemExit"
    assert run(cells, "x").result == "1"


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "import asyncio; await asyncio.sleep(1000)", "import time; time.sleep(1000)"],
    ids=["loop", "wait", "sleep"],
)
def test_interrupts_keep_the_variables(cells, code):
    run(cells, "x = 41")
    result = run(cells, code, timeout=0.5)
    assert (result.status, result.state) == ("timeout", "kept")
    assert run(cells, "x + 1").result == "42"


def test_displays(cells):
    run(cells, "class A:\n  def _repr_html_(self): return '<b>hi</b>'\n  def _repr_png_(self): return b'\\x89PNG'")
    [shown] = run(cells, "display(A())").displays
    assert shown.data["text/html"] == "<b>hi</b>" and shown.data["image/png"] == b"\x89PNG"
    [value] = run(cells, "A()").displays
    assert value.is_result and value.data["text/html"] == "<b>hi</b>"


def test_it_has_the_files_of_the_session_and_no_others(cells, session):
    assert run(cells, "open('made.txt', 'w').write('hi'); import os; os.getcwd()").result == "'/session'"
    assert session.files.read("made.txt") == b"hi"
    assert run(cells, "open('/etc/passwd')").error.name == "FileNotFoundError"
    assert run(cells, "import js; js.process").error.name == "AttributeError"


def test_not_even_through_what_it_runs_in(cells):
    """Whoever gets hold of JavaScript's functions finds Node with nothing but /session."""
    run(cells, "from pyodide.ffi import to_js; function = to_js({}).constructor.constructor")
    node = "return process.getBuiltinModule('{}').{}"
    for module, call in ("fs", "readFileSync('/etc/passwd', 'utf8')"), ("child_process", "execSync('id')"):
        result = run(cells, f"function({node.format(module, call)!r})()")
        assert "ERR_ACCESS_DENIED" in result.error.message + result.error.traceback or "restricted" in result.error.message, result.error
    assert "made" in run(cells, f"function({node.format('fs', '''writeFileSync('/session/w.txt', 'x')''')!r})(); 'made'").result


def test_its_end_is_told(cells):
    run(cells, "x = 1")
    end = "from pyodide.ffi import to_js; to_js({}).constructor.constructor('return process.exit(3)')()"
    result = run(cells, end)
    assert (result.status, result.state, result.exit_code) == ("exited", "lost", 3)
    assert run(cells, "x").error.name == "NameError"
