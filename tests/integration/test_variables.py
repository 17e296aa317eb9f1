"""The table of docs/sessions.md, "What happens to my variables": every cell of it is what the real thing answers."""

import os
import threading

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.engine

HEADING = "## What happens to my variables"
MODES = ["auto", "always", "off"]

IGNORES = "import time\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass"
DEEP = """
import threading
threading.stack_size(65536)
nest = []
for _ in range(900): nest = [nest]
thread = threading.Thread(target=repr, args=(nest,))
thread.start()
thread.join()
"""
FILL = "import mmap; m = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1"
ALONE = """
import os, signal
def frozen():
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/stat') as file: parent = int(file.read().rpartition(')')[2].split()[1])
        except OSError: continue
        if parent == os.getppid() and int(pid) != os.getpid(): yield int(pid)
for pid in frozen(): os.kill(pid, signal.SIGKILL)
while list(frozen()): pass
os._exit(1)
"""

# What the first column says: a list of (code, options of run, status).
EVENTS = {
    "a Python error, `sys.exit()`": [
        ("1 / 0", {}, "error"),
        ("import sys; sys.exit(3)", {}, "error"),
    ],
    "a timeout that Python can act on: loops, sleeps, locks": [
        ("while True: pass", {"timeout": 0.3}, "timeout"),
        ("import time; time.sleep(60)", {"timeout": 0.3}, "timeout"),
        ("import threading; threading.Event().wait()", {"timeout": 0.3}, "timeout"),
    ],
    "`MemoryError`": [("y = bytearray(1 << 40)", {}, "error")],
    "a timeout that Python cannot act on: `sum(range(10**12))`, `except KeyboardInterrupt`": [
        ("sum(range(10**12))", {"timeout": 0.3}, "timeout"),
        (IGNORES, {"timeout": 0.3}, "timeout"),
    ],
    "a segfault, an abort, a C stack that overflows": [
        ("import ctypes; ctypes.string_at(0)", {}, "crashed"),
        ("import os; os.abort()", {}, "crashed"),
        (DEEP, {}, "crashed"),
    ],
    "`os._exit()`, `exec`": [
        ("import os; os._exit(3)", {}, "exited"),
        ("import os; os.execv('/bin/true', ['true'])", {}, "exited"),
    ],
    "the kernel kills it for memory": [(FILL, {"timeout": 60}, "oom")],
    "a call with `on_error=\"rollback\"` fails": [
        ("x = 2; 1 / 0", {"on_error": "rollback"}, "error"),
        ("x = 2\nwhile True: pass", {"on_error": "rollback", "timeout": 0.3}, "timeout"),
        ("x = 2; import os; os._exit(3)", {"on_error": "rollback"}, "exited"),
    ],
    "the code kills its own checkpoints, then itself": [(ALONE, {}, "exited")],
}

RESULTS = {"kept": "kept", "rolled back": "rolled_back", "lost": "lost"}


def table():
    """The rows of the page: first cell, then a word for each mode."""
    with open(os.path.join(ROOT, "docs", "sessions.md"), encoding="utf-8") as file:
        section = file.read().split(HEADING, 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split("|") for line in section.splitlines() if line.startswith("|")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows[2:]}


TABLE = table()
CELLS = [
    (event, mode, code, options, status)
    for event, cases in EVENTS.items()
    for code, options, status in cases
    for mode in MODES
    if mode == "auto" or not code.startswith("sum(")  # which computes for two seconds
]


def test_the_table_has_a_row_for_each_event():
    assert set(TABLE) == set(EVENTS) | {"`limpetd` is killed and started again"}


def protected(session):
    """Waits until going back would mean going back to this moment."""
    while True:
        kept = session.checkpoints()
        if any(c.automatic and c.execution_count == session.count for c in kept):
            return


def prepare(client, name, mode):
    session = client.open(name, checkpoint=mode, memory="256m")
    session.count = session.run("x = 1").execution_count
    if mode == "auto":
        protected(session)
    return session


@pytest.mark.parametrize(
    ("event", "mode", "code", "options", "status"),
    CELLS,
    ids=[f"{cell[1]}-{cell[4]}-{i}" for i, cell in enumerate(CELLS)],
)
@pytest.mark.proves("sessions: a Python error, `sys.exit()`")
@pytest.mark.proves("sessions: a timeout that Python can act on: loops, sleeps, locks")
@pytest.mark.proves("sessions: `MemoryError`")
@pytest.mark.proves("sessions: a timeout that Python cannot act on: `sum(range(10**12))`, `except KeyboardInterrupt`")
@pytest.mark.proves("sessions: a segfault, an abort, a C stack that overflows")
@pytest.mark.proves("sessions: `os._exit()`, `exec`")
@pytest.mark.proves("sessions: the kernel kills it for memory")
@pytest.mark.proves('sessions: a call with `on_error="rollback"` fails')
@pytest.mark.proves("sessions: the code kills its own checkpoints, then itself")
def test_a_cell_of_the_table(client, limpetd, name, event, mode, code, options, status):
    if status == "oom" and not limpetd.isolates:
        pytest.skip("the local engine has no memory limit")
    promised = RESULTS[TABLE[event][MODES.index(mode)]]
    session = prepare(client, name, mode)
    try:
        result = session.run(code, **options)
        assert (result.status, result.state) == (status, promised), (result, result.error)
        after = session.run("globals().get('x')")
        expected = None if promised == "lost" else "1"
        assert (after.result, after.state) == (expected, "kept")
        assert result.epoch == after.epoch == (1 if promised == "kept" else 2)
        if promised == "rolled_back":
            assert result.rolled_back_to.execution_count == session.count
    finally:
        session.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.proves("sessions: `limpetd` is killed and started again")
def test_the_controller_is_killed(own_limpetd, name, mode):
    promised = RESULTS[TABLE["`limpetd` is killed and started again"][MODES.index(mode)]]
    own_limpetd.start()
    with own_limpetd.client() as client:
        session = prepare(client, name, mode)
        began, results = threading.Event(), []
        code = "print('on', flush=True); import time; time.sleep(0.5); x += 1; x"
        thread = threading.Thread(
            target=lambda: results.append(session.run(code, on_stdout=lambda text: began.set()))
        )
        thread.start()
        assert began.wait(30)
        own_limpetd.kill()
        own_limpetd.start()
        thread.join(60)
        assert [(r.status, r.state, r.result, r.epoch) for r in results] == [("ok", promised, "2", 1)]
        assert session.run("x").result == "2"
        session.close()


def test_right_after_another_call_the_reply_names_the_call_it_went_back_to(client, name):
    with client.open(name) as session:
        for i in range(50):
            session.run(f"x = {i}")
        result = session.run("import os; os._exit(1)")
        assert (result.state, result.epoch) == ("rolled_back", 2)
        count = result.rolled_back_to.execution_count
        assert session.run("globals().get('x')").result == (str(count - 1) if count else None)
