"""Standard output and standard error: what arrives, when, in which order, and from whom."""

import array
import fcntl
import os
import termios
import time

import pytest

from .harness import DEADLINE


def test_streams_are_separate(session):
    reply = session.run("import sys\nprint('o')\nprint('e', file=sys.stderr)")
    assert (reply.stdout, reply.stderr) == ("o\n", "e\n")


def test_everything_has_arrived_with_the_reply(session):
    for i in range(50):
        assert session.run(f"print('x' * {i * 997})").stdout == "x" * (i * 997) + "\n"


def test_many_megabytes(session):
    reply = session.run("for i in range(20_000): print('a' * 999)")
    assert len(reply.stdout) == 20_000_000
    reply = session.run("import sys\nsys.stdout.write('é' * 5_000_000)")
    assert reply.stdout == "é" * 5_000_000 and reply.result == "5000000"


def test_output_streams_while_the_cell_runs(session):
    session.start("import time\nprint('early')\ntime.sleep(60)")
    session.wait_output("early")
    session.interrupt_wait()
    assert session.finish().error["name"] == "KeyboardInterrupt"


def test_flush_is_at_once(session):
    session.start("print('a', flush=True)\nwhile True: pass")
    session.wait_output("a")
    session.interrupt()
    session.finish()


def test_streaming_again_after_a_pause_and_a_fork(session):
    for _ in range(2):
        session.start(
            "import os, time\nif os.fork() == 0: os._exit(0)\nos.wait()\nprint('go')\ntime.sleep(60)"
        )
        session.wait_output("go")
        session.interrupt_wait()
        session.finish()


def test_output_has_no_thread(session):
    assert session.run("import os\nprint('x')\nlen(os.listdir('/proc/self/task'))").result == "1"


def test_a_slow_reader_can_be_interrupted(session):
    """The pipe is full; only the interrupt gets the cell out of its print."""
    session.start("print('x' * 10_000_000)")
    waiting = array.array("i", [0])
    while waiting[0] < 65536:
        time.sleep(0.01)
        fcntl.ioctl(session.pipes[1], termios.FIONREAD, waiting)
    session.interrupt()
    reply = session.finish()
    assert reply.error["name"] == "KeyboardInterrupt"
    assert 0 < len(reply.stdout) < 10_000_000
    assert session.run("print('next')").stdout == "next\n"


def test_lone_surrogates_never_raise(session):
    reply = session.run("import sys\nprint('a\\udc80b')\nprint('\\ud800', file=sys.stderr)")
    assert reply.error is None
    assert (reply.stdout, reply.stderr) == ("a\\udc80b\n", "\\ud800\n")


def test_the_stream_object(session):
    code = """
import io, sys
for number, stream in enumerate([sys.stdout, sys.stderr], 1):
    assert isinstance(stream, io.TextIOBase) and isinstance(stream.buffer, io.BufferedIOBase)
    assert stream.fileno() == number and not stream.isatty() and stream.writable()
    assert not stream.readable() and not stream.seekable() and not stream.closed
    assert stream.encoding == 'utf-8' and stream.mode == 'w' and stream.name.startswith('<std')
    assert stream.errors == 'backslashreplace' and stream.line_buffering is False and stream.newlines is None
    stream.reconfigure(errors='replace', write_through=False)
    assert stream.errors == 'replace' and stream.write_through and isinstance(stream, io.TextIOWrapper)
    stream.close(); stream.buffer.close()
    with stream: pass
    assert not stream.closed
    assert stream.write('') == 0 and stream.write('äb\\n') == 3
    stream.writelines(['c', 'd\\n'])
    assert stream.buffer.write(b'raw\\n') == 4 and stream.buffer.write(memoryview(b'')) == 0
    for wrong in [lambda: stream.write(b'x'), lambda: stream.buffer.write('x'), lambda: stream.write(None)]:
        try: wrong()
        except TypeError: pass
        else: assert False
    for refused in [stream.read, stream.readline, stream.tell, lambda: stream.seek(0), lambda: next(stream)]:
        try: refused()
        except OSError: pass
        else: assert False
    stream.mark = 1
assert sys.__stdout__ is sys.stdout
type(sys.stdout.buffer)().write(b'made by hand\\n')
"""
    reply = session.run(code)
    assert reply.error is None, reply.error["traceback"]
    assert reply.stdout == "äb\ncd\nraw\nmade by hand\n" and reply.stderr == "äb\ncd\nraw\n"


def test_text_wrappers_around_the_buffer(session):
    code = (
        "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('wrapped')"
    )
    for _ in range(3):
        assert session.run(code).stdout == "wrapped\n"
    assert (
        session.run(
            "import codecs\nsys.stdout = codecs.getwriter('utf-8')(sys.stdout.detach())\nprint('é')"
        ).stdout
        == "é\n"
    )
    assert session.run("print('plain')").stdout == "plain\n"


def test_redirect_stdout(session):
    code = (
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()) as s: print('in')\n"
        "print('out')\n"
        "s.getvalue()"
    )
    reply = session.run(code)
    assert (reply.stdout, reply.result) == ("out\n", r"'in\n'")


def test_c_level_output_arrives(session):
    assert session.run("import ctypes\nctypes.CDLL(None).printf(b'from C')\nNone").stdout == "from C"


@pytest.mark.parametrize(
    "child",
    [
        "os.system('echo child')",
        "subprocess.run(['echo', 'child'])",
        "subprocess.run('echo child', shell=True, preexec_fn=lambda: None)",
        "os.waitpid(os.posix_spawnp('echo', ['echo', 'child'], os.environ), 0)",
        "os.waitpid(os.posix_spawn('/bin/echo', ['echo', 'child'], os.environ), 0)",
        "del sys.modules['posix']; import posix; posix.system('echo child')",
        "[os.system(command) for command in ['true'] * 20 + ['echo child']]",
        "os.spawnlp(os.P_WAIT, 'echo', 'echo', 'child')",
        "os.fork() and os.wait() or os.execlp('echo', 'echo', 'child')",
        "os.fork() and os.wait() or (print('child'), sys.stdout.flush(), os._exit(0))",
    ],
)
def test_order_of_print_and_children(session, child):
    reply = session.run(f"import os, subprocess, sys\nprint('one')\n{child};\nprint('two')")
    assert reply.stdout == "one\nchild\ntwo\n"
    assert reply.spawned is True
    assert session.run("print('none')").spawned is False


def test_order_of_print_and_what_takes_the_place_of_a_child(session):
    code = (
        "import os, pty, sys\n"
        "print('one')\n"
        "pid, end = os.forkpty()\n"
        "if pid == 0: os.execv('/bin/echo', ['echo', 'child'])\n"
        "print(os.read(end, 5).decode())\n"
        "os.waitpid(pid, 0)\n"
        "print('two')\n"
        "if os.fork() == 0:\n"
        "    print('three')\n"
        "    os.execve('/bin/echo', ['echo', 'four'], os.environ)\n"
        "os.wait()\n"
        "print('five')"
    )
    assert session.run(code).stdout == "one\nchild\ntwo\nthree\nfour\nfive\n"


def test_a_process_of_multiprocessing_prints_after_its_parent(session):
    code = (
        "import os, multiprocessing.util as util\n"
        "print('one')\n"
        "os.waitpid(util.spawnv_passfds(b'/bin/sh', ['sh', '-c', 'echo child >&2'], [2]), 0)\n"
    )
    reply = session.run(code)
    assert (reply.stdout, reply.stderr, reply.spawned) == ("one\n", "child\n", True)


def test_what_starts_processes_is_what_it_is_elsewhere(session):
    code = (
        "import inspect, os, pickle, posix\n"
        "repr(os.fork), os.fork is posix.fork, pickle.loads(pickle.dumps(os.system)) is os.system, "
        "str(inspect.signature(os.system))"
    )
    assert session.run(code).result == "('<built-in function fork>', True, True, '(command)')"


def test_order_within_stderr(session):
    code = (
        "import os, sys\n"
        "print('one', file=sys.stderr)\n"
        "os.system('echo child >&2')\n"
        "print('two', file=sys.stderr)"
    )
    assert session.run(code).stderr == "one\nchild\ntwo\n"


THREAD = """
import threading, sys
go, done = threading.Event(), threading.Event()
def late():
    go.wait()
    print('late'); print('late', file=sys.stderr); display('late'); sys.stdout.flush()
    done.set()
threading.Thread(target=late, daemon=True).start()
"""


def test_threads_of_the_cell_write(session):
    code = "import threading\nt = threading.Thread(target=print, args=('in thread',))\nt.start(); t.join()"
    assert session.run(code).stdout == "in thread\n"


def test_threads_of_earlier_cells_write_while_a_cell_runs(session):
    session.run(THREAD)
    reply = session.run("go.set(); done.wait(); print('mine')")
    assert (reply.stdout, reply.stderr) == ("late\nmine\n", "late\n")
    assert [shown["data"] for shown in reply.displays] == [{"text/plain": "'late'"}]


EARLIER = """
import asyncio, concurrent.futures, logging
pool = concurrent.futures.ThreadPoolExecutor(1)
pool.submit(int).result()
async def there(f, *arguments): return await asyncio.to_thread(f, *arguments)
await there(int)
logging.basicConfig(format='%(message)s')
"""


@pytest.mark.parametrize(
    "code, stdout, stderr",
    [
        ("pool.submit(print, 'x').result()", "x\n", ""),
        ("await there(print, 'x')", "x\n", ""),
        ("pool.submit(logging.warning, 'x').result()", "", "x\n"),
    ],
)
def test_pools_of_earlier_cells_write(session, code, stdout, stderr):
    assert session.run(EARLIER).error is None
    reply = session.run(code)
    assert (reply.stdout, reply.stderr, reply.error) == (stdout, stderr, None)


def test_threads_between_cells_write_too(session):
    """Nobody tells the supervisor of it but the pipe; a display is told in its text, and a question refused."""
    session.run(
        THREAD + "import os, time\n"
        "asked = []\ndef ask():\n    done.wait()\n    try: input('who?')\n"
        "    except RuntimeError as error: asked.append(str(error))\n    print('asked')\n"
        "threading.Thread(target=ask).start()\n"
        "def tell():\n    while not os.path.exists('told'): time.sleep(0.005)\n    go.set()\n"
        "threading.Thread(target=tell).start()"
    )
    (session.directory / "told").touch()
    session.wait_output("asked")
    session.wait_output("late", stream=2)
    assert (session.output[1], session.output[2]) == (b"late\n'late'\nasked\n", b"late\n")
    assert session.messages == []
    session.output = {1: bytearray(), 2: bytearray()}
    reply = session.run("print('clean'); asked")
    assert reply.stdout == "clean\n" and "between two calls" in reply.result


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_threads_run_while_idle(session):
    session.run(
        "import threading\nticks = open('ticks', 'w', buffering=1)\nstop = threading.Event()\n"
        "def tick():\n    while not stop.wait(0.005): ticks.write('\\n')\nthreading.Thread(target=tick).start()"
    )
    written = (session.directory / "ticks").stat
    before = written().st_size
    until(lambda: written().st_size > before + 5)
    session.run("stop.set()")


@pytest.mark.parametrize(
    "how",
    [
        "import os; os.set_blocking(1, False)",
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import os; os.set_blocking(1, False)'])",
        "import asyncio\nloop = asyncio.get_running_loop()\n"
        "await loop.connect_write_pipe(asyncio.BaseProtocol, open(os.dup(1), 'wb'))",
    ],
    ids=["cell", "child", "asyncio"],
)
def test_output_that_does_not_wait_arrives(session, how):
    reply = session.run(f"import os\n{how}\nfor _ in range(30): print('x' * 100_000)\nprint('end')")
    assert reply.error is None and reply.stdout == ("x" * 100_000 + "\n") * 30 + "end\n"


def test_new_pipes_come_with_a_cell(session):
    session.run("import subprocess\nchild = subprocess.Popen(['sh', '-c', 'sleep 0.3; echo late'])")
    ends = [session.new_pipe(1), session.new_pipe(2)]
    session.start(
        "import os, sys\nprint('new')\nos.system('echo child')\nprint('e', file=sys.stderr)\nchild.wait()",
        ends,
    )
    for end in ends:
        os.close(end)
    reply = session.finish()
    assert (reply.stdout, reply.stderr) == ("new\nchild\n", "e\n")
    assert session.run("print('still')").stdout == "still\n"


def test_a_reader_that_is_gone_does_not_hurt(session):
    for number in (1, 2):
        session.selector.unregister(session.pipes[number])
        os.close(session.pipes.pop(number))
    assert session.run("print('x' * 100_000)\n5").result == "5"


def test_a_thread_whose_cell_ends_while_it_writes(session):
    """All of its text arrives, whichever cell runs; a display never comes behind the reply."""
    code = """
import threading
def spam():
    for _ in range(20):
        print('s' * 200_000)
        display('d' * 50_000)
threads = [threading.Thread(target=spam) for _ in range(4)]
for thread in threads: thread.start()
"""
    for _ in range(3):
        replies = [session.run(code), session.run("for thread in threads: thread.join()")]
        text = "".join(reply.stdout for reply in replies)
        assert text.count("s") == 4 * 20 * 200_000
        assert sum(len(reply.displays) for reply in replies) + text.count("'d") == 4 * 20
