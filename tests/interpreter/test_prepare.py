"""prepare: an interpreter gets its environment and imports modules before it has a session."""

import os

import pytest

from tests.support.wire import PREPARE, PREPARED

from .asking import run_with_lines
from .harness import Interpreter, InterpreterDied
from .listing import namespace

ENVIRONMENT = """
import ctypes, os, posix, subprocess, time
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
array = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, 'environ')
c, i = [], 0
while array and array[i]: c.append(array[i]); i += 1
child = subprocess.run(['/usr/bin/env', '-0'], capture_output=True).stdout.split(b'\\0')
[sorted(os.environ.items()), sorted(posix.environ.items()), sorted(c), sorted(child), time.tzname, time.timezone,
 time.strftime('%H', time.gmtime(0)), time.localtime(0).tm_hour, list(os.environ)]
"""


def prepare(session, **body):
    session.channel.send(PREPARE, 3, body)
    message = session.wait(PREPARED)
    assert message[2] == 3 and set(message[3]) == {"failed"}
    return message[3]["failed"]


def module(session, name, source):
    (session.directory / f"{name}.py").write_text(source)
    return name


def test_the_environment_is_that_of_a_fresh_start(session, tmp_path):
    env = {"PATH": "/usr/bin:/bin", "TZ": "Asia/Tokyo", "EMPTY": "", "WORD": "é = \U0001f41a", "LANG": "C.UTF-8",
           "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""), "HOME": str(tmp_path)}  # fmt: skip
    assert prepare(session, env={"TZ": "America/Lima", "ONCE": "1"}, imports=[]) == []
    assert prepare(session, env=env, imports=["json"]) == []
    fresh = Interpreter(tmp_path, only_env=env)
    try:
        assert session.value(ENVIRONMENT) == fresh.value(ENVIRONMENT)
        assert session.value("time.tzname") == ("JST", "JST")
    finally:
        fresh.close()


def test_without_an_environment_it_stays(session):
    before = Interpreter(session.directory)
    try:
        expected = before.value(ENVIRONMENT)
    finally:
        before.close()
    assert prepare(session, env=None, imports=["json"]) == []
    assert prepare(session) == []
    assert session.value(ENVIRONMENT) == expected


def test_an_empty_environment(session):
    assert prepare(session, env={}) == []
    assert session.value("import os, posix\n[dict(os.environ), posix.environ, os.getenv('PATH')]") == [{}, {}, None]
    assert session.value("os.environ['A'] = 'b'; os.popen('echo $A').read()") == "b\n"


def test_a_copy_may_be_prepared_again(session):
    prepare(session, env={"A": "1"}, imports=["json"])
    frozen = session.checkpoint()
    for value in "23":
        restored = frozen.restore(branched=True)
        assert prepare(restored, env={"A": value}, imports=["csv"]) == []
        assert restored.value("import os, sys\n[dict(os.environ), 'csv' in sys.modules]") == [{"A": value}, True]
    assert prepare(session, env={"A": "4"}) == []
    assert session.value("import os; dict(os.environ)") == {"A": "4"}


@pytest.mark.parametrize("copied", [False, True])
def test_not_after_a_cell(session, copied):
    session.run("1")
    target = session.checkpoint().restore() if copied else session
    with pytest.raises(InterpreterDied):
        prepare(target, env={})


@pytest.mark.parametrize("body", [
    {"env": {"A=B": "1"}}, {"env": {"": "1"}}, {"env": {"A": "\0"}}, {"env": {"A\0": ""}}, {"env": {"A": 1}},
    {"env": {b"A": "1"}}, {"env": []}, {"imports": [1]}, {"imports": {}}, {"imports": ["a\0b"]}, {"other": 1},
])  # fmt: skip
def test_what_is_malformed_ends_it(session, body):
    with pytest.raises(InterpreterDied):
        prepare(session, **body)


BROKEN = {
    "raises": ("raise ValueError('broken')", "raises: ValueError: broken"),
    "exits": ("import sys; sys.exit('bye')", "exits: SystemExit: bye"),
    "interrupts": ("raise KeyboardInterrupt", "interrupts: KeyboardInterrupt: "),
    "speechless": (
        "class E(Exception):\n    def __str__(self): raise SystemError\nraise E",
        "speechless: E: <exception str() failed>",
    ),
    "is_wrong": ("def", "is_wrong: SyntaxError: invalid syntax (is_wrong.py, line 1)"),
    "recurses": ("def f(): f()\nf()", "recurses: RecursionError: maximum recursion depth exceeded"),
}


def test_broken_imports_hurt_nobody(session):
    for name, (source, _) in BROKEN.items():
        module(session, name, source)
    module(session, "fine", "value = 7")
    names = [*BROKEN, "no_such_module", ".relative", "", "fine"]
    failed = prepare(session, imports=names)
    assert failed[: len(BROKEN)] == [note for _, note in BROKEN.values()]
    assert failed[len(BROKEN)] == "no_such_module: ModuleNotFoundError: No module named 'no_such_module'"
    assert len(failed) == len(names) - 1
    assert session.value("import sys\n'fine' in sys.modules and 'raises' not in sys.modules") is True


def test_notes_are_short(session):
    module(session, "long", "raise ValueError('é' * 1000)")
    (note,) = prepare(session, imports=["long"])
    assert len(note.encode()) <= 256 and note.startswith("long: ValueError: éé") and note.endswith("…")


TRACES = """
import sys, os, warnings, ctypes, subprocess
print('printed'); print('warned', file=sys.stderr); os.write(1, b'raw'); os.write(2, b'raw')
ctypes.CDLL(None).printf(b'from C'); os.system('echo child; echo child >&2')
warnings.warn('a warning'); warnings.warn('a warning', DeprecationWarning, 2)
display('shown')
sys.argv = ['other']; sys.argv.append('x')
sys.stdout = sys.stderr = open(os.devnull, 'w')
sys.excepthook = None
1/0
"""

LOOK = """
import sys
print('out'); print('err', file=sys.stderr)
[sorted(k for k in globals() if not k.startswith('__')), sys.argv]
"""


def test_imports_leave_no_trace(session):
    module(session, "noisy", TRACES)
    fresh = Interpreter(session.directory)
    try:
        expected = fresh.value(LOOK)
    finally:
        fresh.close()
    assert prepare(session, imports=["noisy", "decimal", "sqlite3"]) == ["noisy: ZeroDivisionError: division by zero"]
    assert namespace(session) == {"names": [], "more": 0}
    reply = session.run(LOOK)
    assert (reply.stdout, reply.stderr, reply.displays) == ("out\n", "err\n", [])
    assert eval(reply.result) == expected and not reply.spawned
    assert [v["name"] for v in reply.body["changed"]["added"]] == ["sys"]
    assert session.run("x = 1").body["changed"]["added"][0]["name"] == "x"
    error = session.run("import noisy").error
    assert error["name"] == "ZeroDivisionError"


USED = """
uses = 0
def DataFrame(*arguments):
    global uses
    uses += 1
    print('used'); warnings.warn('used'); 1/0
import warnings
"""


def test_first_use_is_not_noticed(session):
    """What is imported is used wherever `imports` is there, and what fails then is no failure."""
    module(session, "pandas", USED)
    assert prepare(session, imports=["pandas"]) == []
    assert prepare(session, env={"A": "1"}, imports=[]) == []
    assert prepare(session, env={"A": "2"}) == []
    assert namespace(session) == {"names": [], "more": 0}
    reply = session.run("import pandas, warnings; pandas.uses")
    assert (reply.result, reply.stdout, reply.stderr, reply.displays) == ("2", "", "", [])
    assert "used" in session.run("warnings.simplefilter('default')\npandas.DataFrame()").stderr


def test_a_prepared_interpreter_asks(session):
    prepare(session, imports=["getpass", "pdb"])
    reply, questions = run_with_lines(session, "import getpass\n[input('a'), getpass.getpass('b')]", "1", "2")
    assert reply.result == "['1', '2']" and [q.kind for q in questions] == ["input", "secret"]


def test_a_fork_that_comes_back_answers_nothing(session):
    module(session, "forks", "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)")
    assert prepare(session, imports=["forks"]) == []
    assert session.value("1 + 1") == 2


FIGURE = """
import matplotlib, matplotlib.pyplot as plt, sys
before = [matplotlib.rcParams._get_backend_or_none(), plt.isinteractive(), plt.get_fignums()]
plt.plot([1, 2])
[before, matplotlib.get_backend(), matplotlib.get_cachedir(), matplotlib.rcParams['figure.figsize'],
 plt.show.__module__, matplotlib.matplotlib_fname()]
"""


@pytest.mark.skipif(not Interpreter.has_matplotlib(), reason="the interpreter has no matplotlib")
@pytest.mark.parametrize("backend", [None, "agg", "svg"])
def test_matplotlib_is_as_a_cell_imports_it(session, backend):
    env = {"PATH": "/usr/bin:/bin", "HOME": str(session.directory), "MPLCONFIGDIR": str(session.directory / "mpl")}
    prepare(session, env={**env, "MPLBACKEND": "Agg"}, imports=["matplotlib.pyplot"])
    if backend:
        env["MPLBACKEND"] = backend
    prepare(session, env=env)
    fresh = Interpreter(session.directory, only_env=env)
    try:
        expected = fresh.run(FIGURE)
        reply = session.run(FIGURE)
    finally:
        fresh.close()
    # Without a backend the default of the distribution holds, which need not work.
    assert bool(reply.displays) == (reply.error is None) and (reply.displays or not backend)
    assert reply.result == expected.result and reply.error == expected.error
    assert [d["data"].keys() for d in reply.displays] == [d["data"].keys() for d in expected.displays]
    assert session.value("plt.get_fignums()") == []


def test_prepared_memory_is_frozen(session):
    prepare(session, imports=["decimal", "json"])
    assert session.value("import gc\ngc.get_freeze_count() > 1000 and gc.isenabled()") is True
