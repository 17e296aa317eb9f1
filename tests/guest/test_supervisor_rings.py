"""The memory that an interpreter prints into: what is there comes once and in order, and whatever a hostile one
puts there harms nobody but itself."""

import hashlib
import os
import pathlib
import platform
import signal

import pytest

from tests.support.wire import OUTPUT

from .guest_harness import MIB, REAL, assert_works, needs_plain, needs_real, wait_for

pytestmark = pytest.mark.sanitize

WRITE = {"x86_64": 1, "aarch64": 64}.get(platform.machine())

# As the real one does: print to a ring, and mark its place in the pipe.
PRINTING = """
import struct
SIZE, HEADER = 65536, 40
SPACE = SIZE - HEADER
def get(stream, field): return struct.unpack_from("=Q", rings, (stream - 1) * SIZE + 8 * field)[0]
def put(stream, field, value): struct.pack_into("=Q", rings, (stream - 1) * SIZE + 8 * field, value % 2**64)
def say(stream, data):
    head, start, tail = (get(stream, field) for field in range(3))
    if head == tail: start = head; put(stream, 1, start)
    for i, byte in enumerate(data): rings[(stream - 1) * SIZE + HEADER + (head + i - start) % SPACE] = byte
    put(stream, 0, head + len(data))
def mark(stream, position=None):
    nonce = rings[(stream - 1) * SIZE + 24:(stream - 1) * SIZE + 40]
    return nonce + struct.pack("=Q", (get(stream, 0) if position is None else position) % 2**64)
"""


def ends(guest, code, **options):
    record = guest.controller.run(PRINTING + code + "\nos._exit(7)", **options)
    assert (record["status"], record["exit_code"]) == ("exited", 7)
    return record


def test_what_no_mark_tells_of_comes_last(fake):
    record = ends(fake, "say(1, b'two'); say(2, b'apart'); os.write(1, b'one ')")
    assert (record["stdout"], record["stderr"]) == ("one two", "apart")


def test_a_mark_is_a_place(fake):
    record = ends(
        fake,
        "say(1, b'1'); os.write(1, mark(1) + b'2'); say(1, b'3'); position = get(1, 0); say(1, b'5')\n"
        "os.write(1, mark(1, position) + b'4' + mark(1, position) + mark(1, 1))",
    )
    assert (record["stdout"], record["stdout_bytes"]) == ("12345", 5)


def test_a_mark_that_comes_in_two_parts(fake):
    """Half a mark is text like any other when its other half does not come."""
    record = ends(fake, "say(1, b'x'); os.write(1, mark(1)[:7]); time.sleep(0.2); os.write(1, mark(1)[7:] + b'y')")
    assert record["stdout"] == "xy"
    assert ends(fake, "os.write(1, b'a' + mark(1)[:1])")["stdout"] == "a\ufffd"


def test_what_no_mark_tells_of_is_followed(fake):
    code = (
        "os.write(1, b'1'); say(1, b'2'); say(2, b'apart')\n"
        "while get(1, 2) != get(1, 0) or get(2, 2) != get(2, 0): time.sleep(0.001)\n"
        "say(1, b'3'); os.write(1, mark(1) + b'4')"
    )
    record = ends(fake, code, stream=True)
    data = {1: b"", 2: b""}
    for kind, body in fake.controller.events:
        if kind == OUTPUT:
            data[body["stream"]] += body["data"]
    assert (record["stdout"], data) == ("1234", {1: b"1234", 2: b"apart"})


def test_text_is_in_its_own_call(fake):
    """What comes to be there between two calls belongs to neither."""
    fake.controller.run(
        PRINTING + "import threading\n"
        "def late():\n    while running: time.sleep(0.001)\n    time.sleep(0.2); say(1, b'late'); open('done', 'w').close()\n"
        "threading.Thread(target=late).start()"
    )
    while not (fake.directory / "done").exists():
        pass
    assert fake.controller.run("print('mine')")["stdout"] == "mine\n"


NONSENSE = {
    "far ahead": "put(1, 0, 2**63); put(2, 0, 2**64 - 1)",
    "behind": "say(1, b'abc'); os.write(1, mark(1)); time.sleep(0.1); put(1, 0, 1); put(1, 1, 2**64 - 5)",
    "one too many": "put(1, 0, SPACE + 1)",
    "not begun": "put(1, 1, 2**64 - 1); put(1, 0, SPACE)",
    "the reader's": "put(1, 2, 12345); say(1, b'x' * 99)",
    "marks from nowhere": "os.write(1, b''.join(mark(1, i * 2**59 + i) for i in range(2000)))",
    "marks of the other": "say(1, b'x'); os.write(1, mark(2))",
    "other marks": "rings[24:40] = bytes(16); os.write(1, mark(1) + bytes(1000)); say(1, b'x')",
    "all of it": "rings[:] = b'\\xff' * len(rings)",
    "gone": "import mmap; rings.madvise(9)",
    "cut": "\ntry: rings.resize(4096)\nexcept PermissionError: pass\nelse: raise SystemExit",
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense(fake, what):
    record = ends(fake, NONSENSE[what])
    assert record["stdout_bytes"] <= 65536 + 2000 * 24 and record["stderr_bytes"] <= 65536
    assert_works(fake, 2)


MOVING = """
import random, threading
def move():
    while True:
        for field in range(2): put(1, field, random.choice([0, 1, SPACE, get(1, 2), get(1, 2) + SPACE, 2**63]))
threading.Thread(target=move, daemon=True).start()
end = time.monotonic() + 2
while time.monotonic() < end: os.write(1, b'.' + mark(1, random.getrandbits(64)) + mark(1, get(1, 2) + 9))
"""


def test_a_moving_ring(fake):
    """The supervisor answers meanwhile, and ends the call at its deadline."""
    fake.controller.start(PRINTING + MOVING + "while True:\n  try: time.sleep(9)\n  except BaseException: pass", timeout=4)
    record = fake.controller.record()
    assert (record["status"], record["error"]["name"]) == ("timeout", "TimeoutKilled")
    assert_works(fake, 2)


def test_pieces_of_a_stream_are_small(fake):
    code = (
        "for i in range(20):\n"
        "    while get(1, 2) != get(1, 0): time.sleep(0.001)\n"
        "    os.write(1, b'p' * 60000); say(1, b'%09d\\n' % i * 6500); os.write(1, mark(1))\n"
    )
    record = ends(fake, code, stream=True)
    data = [body["data"] for kind, body in fake.controller.events if kind == OUTPUT]
    expected = b"".join(b"p" * 60000 + b"%09d\n" % i * 6500 for i in range(20))
    assert b"".join(data) == expected and all(len(part) <= 65536 for part in data)
    assert record["stdout_bytes"] == len(expected)


# The real interpreter


def waits_in_a_write(pid):
    """Whether its main thread is in the system call, into one of its pipes."""
    try:
        call = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()
    except OSError:
        return False
    return call[0] == str(WRITE)


@pytest.fixture
def real(make_guest):
    guest = make_guest(REAL)
    guest.controller.welcome(env={"ASAN_OPTIONS": "handle_segv=0:handle_abort=0"})
    return guest


@needs_real
def test_killed_while_nobody_takes_it(real):
    """The writer waits in the middle of a text when it is killed: what is told is the beginning, without a gap."""
    real.controller.start("for i in range(10**9): print('%d %s' % (i, 'x' * (i % 5000)))", stream=True)
    for _ in range(58):
        assert real.controller.receive()[0] == OUTPUT
    (interpreter,) = real.children()
    wait_for(lambda: waits_in_a_write(interpreter), "the writer does not wait")
    os.kill(interpreter, signal.SIGKILL)
    body = real.controller.record()
    assert body["status"] == "crashed"
    with open(real.directory / ".limpet" / "1.stdout", "rb") as file:
        text = file.read()
    expected = b"".join(b"%d %s\n" % (i, b"x" * (i % 5000)) for i in range(len(text) // 1000))
    assert body["stdout_bytes"] == len(text) > MIB
    assert hashlib.sha256(text).digest() == hashlib.sha256(expected[: len(text)]).digest()


@needs_real
def test_a_child_has_a_ring_of_its_own(real):
    code = (
        "import os, sys\nprint('parent')\n"
        "if os.fork() == 0:\n    print('child', flush=True); print('its last line'); os._exit(0)\n"
        "os.wait(); print('parent again'); os._exit(7)"
    )
    assert real.controller.run(code)["stdout"] == "parent\nchild\nits last line\nparent again\n"


@needs_real
def test_a_child_that_goes_on_prints_all(real):
    code = (
        "import multiprocessing\n"
        "def work(n): [print('%d %05d' % (n, i)) for i in range(20000)]\n"
        "if True:\n"
        "    all = [multiprocessing.get_context('fork').Process(target=work, args=[n]) for n in range(3)]\n"
        "    [p.start() for p in all]; [p.join() for p in all]"
    )
    record = real.controller.run(code, timeout=60)
    assert record["stdout_bytes"] == 3 * 20000 * 8, record


@needs_real
@needs_plain
def test_what_faulthandler_says_comes_last(real):
    record = real.controller.run("import sys, os\nprint('before', file=sys.stderr)\nos.abort()")
    assert record["stderr"].startswith("before\nFatal Python error: Aborted\n"), record["stderr"]
    assert 'File "<cell 1>", line 3' in record["stderr"]
    assert record["signal"] == 6


@needs_real
def test_a_thread_whose_cell_ends_while_it_prints(real):
    """Every byte is that of a call, or of the time between two, and counted once."""
    code = (
        "import threading\n"
        "def spam():\n    for i in range(99): print('s' * 200_000); print('t')\n"
        "threads = [threading.Thread(target=spam) for _ in range(4)]\n"
        "for thread in threads: thread.start()"
    )
    run = real.controller.run
    records = [run(code), run("1"), run("1"), run("for thread in threads: thread.join()")]
    written = [record["stdout_bytes"] for record in records]
    for record in records:
        between = record.get("between", {"stdout": "", "dropped": 0})
        written.append(len(between["stdout"]) + between["dropped"])
        assert set(record["stdout"] + between["stdout"]) <= set("st\n")
    assert sum(written) == 4 * 99 * 200_003
