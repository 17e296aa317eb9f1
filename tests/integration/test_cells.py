"""What Python offers a cell, through the whole system."""

import json
import textwrap

import pytest


def ok(session, code, **options):
    result = session.run(textwrap.dedent(code), **options)
    assert result.status == "ok", (result, result.error, result.stderr)
    assert (result.state, result.error) == ("kept", None)
    return result


def test_a_value_and_what_was_printed(session):
    result = ok(session, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    assert (result.result, result.stdout, result.stderr) == ("42", "out\n", "err\n")
    assert (result.stdout_bytes, result.stderr_bytes, result.truncated) == (4, 4, False)
    assert (result.session, result.execution_count, result.epoch) == (session.name, 1, 1)
    assert result.engine == session.engine
    assert 0 < result.duration < 30 and result.usage.peak_memory > 0
    assert json.loads(json.dumps(result.to_dict()))["result"] == "42"


def test_variables_imports_and_functions_stay(session):
    ok(session, "import math\nx = 41\ndef f(n):\n    return n + 1")
    assert ok(session, "f(x)").result == "42"
    assert ok(session, "math.pi").result.startswith("3.14")
    assert ok(session, "x = 5").result is None
    assert ok(session, "None").result is None
    assert ok(session, "").execution_count == 6


def test_an_error_keeps_what_was_done_before_it(session):
    result = session.run("x = 1\ny = 1 / 0\nx = 2")
    assert (result.status, result.state) == ("error", "kept")
    assert (result.error.name, result.error.message) == ("ZeroDivisionError", "division by zero")
    assert "y = 1 / 0" in result.error.traceback and "line 2" in result.error.traceback
    assert ok(session, "x").result == "1"


def test_tracebacks_show_source_of_earlier_cells_and_only_user_frames(session):
    ok(session, "def f():\n    raise ValueError('from f')")
    traceback = session.run("f()").error.traceback
    assert "raise ValueError('from f')" in traceback
    assert traceback.count("File ") == 2


@pytest.mark.parametrize(
    "code, name",
    [
        ("1 +", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("undefined", "NameError"),
        ("raise type('Odd', (BaseException,), {})('x')", "Odd"),
        ("class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E", "E"),
        ("def f(): f()\nf()", "RecursionError"),
    ],
)
def test_errors_have_their_name_and_keep_the_session(session, code, name):
    ok(session, "kept = 1")
    result = session.run(code)
    assert (result.status, result.state, result.error.name) == ("error", "kept", name)
    assert ok(session, "kept").result == "1"


def test_what_holds_most_is_told_with_a_memory_error(session):
    assert ok(session, "big = bytearray(1 << 20)").memory is None
    result = session.run("raise MemoryError")
    (held,) = result.memory
    assert (held.name, held.type) == ("big", "bytearray") and 1 << 20 <= held.bytes < 2 << 20
    assert result.to_dict()["memory"] == [{"name": "big", "type": "bytearray", "bytes": held.bytes}]


def test_top_level_await(session):
    code = """
    import asyncio
    async def f():
        await asyncio.sleep(0)
        return 42
    await f()
    """
    assert ok(session, code).result == "42"
    assert ok(session, "[await f() for _ in range(2)]").result == "[42, 42]"


def test_main_is_a_module_like_any_other(session):
    code = """
    import dataclasses, inspect, pickle
    @dataclasses.dataclass
    class Point:
        x: int
    def f():
        return 'source'
    """
    ok(session, code)
    assert ok(session, "pickle.loads(pickle.dumps(Point(3)))").result == "Point(x=3)"
    assert "return 'source'" in ok(session, "inspect.getsource(f)").result
    assert ok(session, "__name__").result == "'__main__'"


@pytest.mark.parametrize(
    "code",
    [
        "class R:\n    def __repr__(self): raise RuntimeError\nR()",
        "class R:\n    def __repr__(self): return 5\nR()",
        "import sys, io\nsys.stdout = io.StringIO()\nsys.stderr = None",
        "import sys\nsys.stdout.close()",
        "import os\nos.close(1)\nos.close(2)",
        "import builtins\ndel builtins.repr, builtins.print, builtins.compile, builtins.exec",
        "import sys\nsys.modules.clear()",
        "import os\nos.chdir('/')",
        "import sys\nsys.displayhook = sys.excepthook = None",
        "globals().clear()",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
        "import gc\ngc.disable()\nx = []\nx.append(x)",
    ],
)
def test_nothing_hurts_the_next_call(session, code):
    session.run(code)
    assert session.run("6 * 7").result == "42"
    result = session.run("__import__('os').write(1, b'written')")
    assert (result.status, result.stdout) in (("ok", "written"), ("error", ""))


@pytest.mark.parametrize("code", ["sys.stdout = None", "sys.stdout.close()"])
def test_print_works_again_in_the_next_call(session, code):
    session.run(f"import sys\n{code}")
    assert ok(session, "print('again')").stdout == "again\n"


def test_a_repr_that_loops_ends_at_the_deadline(session):
    result = session.run("class R:\n    def __repr__(self):\n        while True: pass\nR()", timeout=1)
    assert (result.status, result.state) == ("timeout", "kept")
    assert ok(session, "1 + 1").result == "2"


def test_printing_keeps_its_order_with_children(session):
    code = """
    import os, subprocess, sys
    print('a'); subprocess.run(['echo', 'b']); print('c', end=''); os.system('echo d'); sys.stdout.write('e')
    """
    assert ok(session, code).stdout.startswith("a\nb\ncd\ne")


def test_what_cannot_be_decoded_is_replaced(session):
    result = ok(session, "import os, sys\nos.write(1, b'a\\xffb')\nprint('\\udcff', 'ä🐚')\nNone")
    assert result.stdout.startswith("a�b") and result.stdout.endswith("ä🐚\n")


def test_a_late_writer_is_not_heard_in_the_next_call(session):
    ok(session, "import subprocess\np = subprocess.Popen(['sh', '-c', 'sleep 0.3; echo late'])")
    assert ok(session, "import time\ntime.sleep(1)").stdout == ""


def test_output_comes_while_the_cell_runs(session):
    """The cell ends because its output arrived."""
    seen = []

    def on_stdout(text):
        seen.append(text)
        session.interrupt()

    result = session.run("import time\nprint('started')\ntime.sleep(60)", on_stdout=on_stdout, timeout=60)
    assert (result.status, result.stdout, "".join(seen)) == ("interrupted", "started\n", "started\n")


def test_streamed_output_is_whole(session):
    out, err = [], []
    code = "import sys\nfor i in range(20000):\n    print('ä', i)\n    print(i, file=sys.stderr)"
    result = ok(session, code, on_stdout=out.append, on_stderr=err.append)
    assert "".join(out) == result.stdout == "".join(f"ä {i}\n" for i in range(20000))
    assert "".join(err) == result.stderr == "".join(f"{i}\n" for i in range(20000))


def test_a_pipe_that_was_widened_is_usual_again_in_the_next_call(session):
    code = "import fcntl, sys\nfor _ in range(1000): sys.stdout.write('x' * 65536)"
    assert ok(session, code, on_stdout=lambda text: None).stdout_bytes == 1000 * 65536
    assert ok(session, "fcntl.fcntl(1, 1032)").result == "65536"  # F_GETPIPE_SZ


def test_displays(session):
    shown = []
    code = "from IPython.display import display, HTML\ndisplay(HTML('<b>x</b>'))\nprint('y')"
    result = ok(session, code, on_display=shown.append)
    assert [entry.data["text/html"] for entry in result.displays] == ["<b>x</b>"]
    assert not result.displays[0].is_result and shown == result.displays
    assert ok(session, "display({'a': 1})").displays[0].data["text/plain"] == "{'a': 1}"


def test_a_rich_value(session):
    code = """
    class R:
        def _repr_html_(self): return '<i>r</i>'
        def _repr_png_(self): return b'\\x89PNG'
        def __repr__(self): return 'R'
    R()
    """
    result = ok(session, code)
    assert result.result == "R" and [entry.is_result for entry in result.displays] == [True]
    data = result.displays[0].data
    assert data["text/html"] == "<i>r</i>" and data["image/png"] == b"\x89PNG"


@pytest.mark.engine
def test_a_figure(session, limpetd):
    if session.run("import matplotlib").status != "ok":
        if limpetd.isolates:
            pytest.fail("the image has no matplotlib")
        pytest.skip("this machine's Python has no matplotlib")
    result = ok(session, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone", timeout=60)
    assert result.displays[-1].data["image/png"].startswith(b"\x89PNG")
    assert ok(session, "1").displays == []


def test_input_ends_at_once(session):
    assert session.run("input('name? ')").error.name == "EOFError"
