"""What a call wrote before it died is in its record, whatever it died of: on both streams, in order, once."""

import functools
import io
import secrets
import signal

import pytest

from .killed import Asking, wait_for

pytestmark = pytest.mark.engine

# Two texts each: what is written, as code with the stream's name and descriptor to fill in, and what arrives.
SHORT = "print('before', file={0})", "before\n"
LONG = "print('x' * 70_000, 'y' * 30_000, file={0})\nprint('end', file={0})", "x" * 70_000 + " " + "y" * 30_000 + "\nend\n"
CUT = "print('äö', file={0})\nsys.{0}.buffer.write('€'.encode()[:2])".replace("file={0}", "file=sys.{0}"), "äö\n\ufffd"
MIXED = (
    "print(1, file={0}, flush=True)\nos.write({1}, b'2\\n')\nprint(3, file={0})\n"
    "subprocess.run('echo 4 >&{1}', shell=True)\nprint(5, file={0}, flush=True)\nos.write({1}, b'6\\n')\nprint(7, file={0})",
    "1\n2\n3\n4\n5\n6\n7\n",
)
TEXTS = {"short": SHORT, "long": LONG, "cut": CUT, "mixed": MIXED}
IMPORTS = "import ctypes, faulthandler, mmap, os, signal, subprocess, sys, threading, time\n"

FOREVER = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\ntime.sleep(600)"  # nothing interrupts it
FILL = "m = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1"

# What ends it, and the status and error that the record then has.
WAYS = {
    "exit": ("os._exit(7)", "exited", "Exited"),
    "exit in a thread": ("threading.Thread(target=os._exit, args=[7]).start()\ntime.sleep(600)", "exited", "Exited"),
    "exec": ("os.execv('/bin/true', ['true'])", "exited", "Exited"),
    "segfault": ("ctypes.string_at(0)", "crashed", "Crashed"),
    "abort": ("os.abort()", "crashed", "Crashed"),
    "fatal error": ("faulthandler._sigfpe()", "crashed", "Crashed"),
    "kill": ("os.kill(os.getpid(), signal.SIGKILL)", "crashed", "Crashed"),
    "killed by a child": (
        "subprocess.run(f'kill -TERM {os.getpid()}', shell=True)\ntime.sleep(600)", "crashed", "Crashed",
    ),  # fmt: skip
    "memory": (FILL, "oom", "OutOfMemory"),
    "timeout": (FOREVER, "timeout", "TimeoutKilled"),
    "interrupt": (FOREVER, "interrupted", "InterruptKilled"),
    "error": ("raise ValueError", "error", "ValueError"),
}
DUMPS = ("segfault", "abort", "fatal error")  # a traceback follows on standard error


def code_of(text, way):
    statements = "".join(text[0].format(name, fd) + "\n" for name, fd in (("stdout", 1), ("stderr", 2)))
    return IMPORTS + statements.replace("file=std", "file=sys.std") + WAYS[way][0]


def interrupted(session, code, expected):
    """When nothing interrupts it any more: before, an interrupt would not have to kill."""
    said = {"stdout": "", "stderr": ""}

    def on(stream, text):
        said[stream] += text

    begun = f"begun-{secrets.token_hex(4)}"
    code = code.replace("time.sleep", f"os.mkdir({begun!r})\ntime.sleep")
    on_stdout, on_stderr = functools.partial(on, "stdout"), functools.partial(on, "stderr")
    running = Asking(session.run, code, on_stdout=on_stdout, on_stderr=on_stderr, timeout=60)
    wait_for(lambda: session.files.exists(begun))
    session.interrupt()
    result = running.result()
    assert said == {"stdout": expected, "stderr": expected}
    return result


def die(session, text, way):
    code = code_of(text, way)
    if way == "interrupt":
        return interrupted(session, code, text[1])
    timeout = 2 if way == "timeout" else 60
    return session.run(code, timeout=timeout, on_error="rollback" if way == "error" else "keep")


def assert_said(result, way, expected):
    _, status, name = WAYS[way]
    assert (result.status, result.error.name) == (status, name), result.error
    assert result.stdout == expected and result.stdout_bytes >= len(expected)
    assert result.stderr == expected or (way in DUMPS and result.stderr.startswith(expected + "Fatal Python error"))


@pytest.fixture
def small(client, name, limpetd, request):
    """A session that goes back to the state before the call."""
    if request.node.callspec.params["way"] == "memory" and not limpetd.isolates:
        pytest.skip("the local engine has no memory limit")
    with client.open(name, memory="256m", checkpoint="always") as session:
        session.run(IMPORTS + "x = 1")
        yield session


@pytest.mark.parametrize("way", WAYS)
def test_what_was_written_before_the_end(small, way):
    texts = [SHORT] if way == "timeout" else TEXTS.values()  # it is killed as by an interrupt, for which nobody waits
    for count, text in enumerate(texts, 2):
        result = die(small, text, way)
        assert_said(result, way, text[1])
        assert result.state == "rolled_back" and result.rolled_back_to.execution_count == 1, result
        assert (result.execution_count, result.epoch, result.truncated) == (count, count, False)
    assert small.run("x").result == "1"


SAY = "import os\nprint('before')\n"


@pytest.mark.docker
def test_without_a_checkpoint(client, name):
    with client.open(name, checkpoint="off") as session:
        result = session.run(SAY + "os._exit(7)")
        assert (result.state, result.stdout, result.exit_code) == ("lost", "before\n", 7)
        assert session.run("print('after')").stdout == "after\n"


def test_on_a_branch_and_after_a_rollback(session):
    checkpoint = session.checkpoint()
    branch = session.branch("a")
    for one in (branch, session, branch):
        assert one.run(SAY + "print('x' * 70_000)\nos._exit(7)").stdout == "before\n" + "x" * 70_000 + "\n"
        assert one.run("print('after')").stdout == "after\n"
    session.rollback(checkpoint)
    assert session.run(SAY + "os.abort()").stdout == "before\n"
    session.reset()
    assert session.run(SAY + "os.abort()").stdout == "before\n"
    assert (session.run("1").stdout, branch.run("1").stdout) == ("", "")


def test_ephemeral(client):
    result = client.run(SAY + "os._exit(7)")
    assert (result.status, result.stdout) == ("exited", "before\n")


def test_over_the_cap(session):
    """The rest of a long text is in its file, to the last byte."""
    lines = "".join("%07d\n" % i for i in range(400_000))
    code = "import os\nfor i in range(400_000): print('%07d' % i)\nos._exit(7)"
    result = session.run(code, timeout=120)
    assert (result.status, result.truncated, result.stdout_bytes) == ("exited", True, len(lines))
    assert lines.startswith(result.stdout)
    whole = io.BytesIO()
    session.get(result.stdout_file, whole)
    assert whole.getvalue().decode() == lines


def test_streamed(session):
    parts = []
    result = session.run("import os\nfor i in range(30_000): print(i)\nos._exit(7)", on_stdout=parts.append)
    assert result.status == "exited"
    assert "".join(parts) == "".join(f"{i}\n" for i in range(30_000))


KILLED_WHILE_WRITING = """
import os, subprocess, sys, threading
def write(stream):
    for i in range(10**9):
        print(i if i % 7 else '%d %s' % (i, 'x' * (i % 9001)), file=stream, flush=i % 3 == 0)
        if i == {begun} and stream is sys.stdout: subprocess.Popen(['kill', '-KILL', str(os.getpid())])
threading.Thread(target=write, args=[sys.stderr], daemon=True).start()
write(sys.stdout)
"""


def test_killed_while_it_writes(session):
    """At any moment of a flush: no gap, and nothing twice."""
    for begun in range(0, 3000, 211):
        result = session.run(KILLED_WHILE_WRITING.format(begun=begun), timeout=60)
        assert (result.status, result.signal) == ("crashed", signal.SIGKILL)
        for text in (result.stdout, result.stderr):
            lines = text.split("\n")
            numbers = [int(line.split()[0]) for line in lines[:-1]]
            assert numbers == list(range(len(numbers)))
            assert all(len(line) > n % 9001 for n, line in enumerate(lines[:-1]) if n % 7 == 0)
