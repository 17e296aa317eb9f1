"""Running out of memory, thread stacks, and the pages that Python's objects live in."""

import resource

import pytest
from harness import BUILD, Interpreter

SANITIZED = b"__asan_init" in (BUILD / "limpet-interpreter").read_bytes()
pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer has memory of its own")

MIB = 1 << 20


def limit_data(size):
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, (size, size))


@pytest.fixture
def small(tmp_path):
    interpreter = Interpreter(tmp_path, prepare=limit_data(160 * MIB))
    yield interpreter
    interpreter.close()


def test_a_single_large_object(session):
    assert session.run("x = bytearray(10**13)").error["name"] == "MemoryError"
    assert session.value("'x' in globals()") is False


@pytest.mark.parametrize(
    "fill",
    [
        "while True: hoard.append([1])",
        "while True: hoard.append(bytearray(1 << 20))",
        "while True: hoard.append(bytearray(1 << 12))",
        "while True: hoard.append(str(len(hoard)))",
        "while True: hoard = [hoard]",
        "hoard = {}\nwhile True: hoard[len(hoard)] = 1.5",
    ],
)
def test_the_session_survives_its_memory(small, fill):
    for _ in range(4):
        reply = small.run(f"hoard = []\n{fill}")
        assert reply.error["name"] == "MemoryError"
        # All that it holds is still there.
        assert small.value("type(hoard) in (list, dict) and len(hoard) > 0") is True
        assert small.run("print('text')").stdout == "text\n"
    small.run("del hoard")
    assert small.value("import json; json.dumps([1] * 100000)[:3]") == "[1,"


def test_a_full_session_is_checkpointed(small):
    small.run("hoard = []\nwhile True: hoard.append(bytearray(1 << 20))")
    restored = small.checkpoint().restore()
    assert restored.value("len(hoard) > 50") is True
    assert restored.run("while True: hoard.append(bytearray(1 << 20))").error["name"] == "MemoryError"
    assert restored.value("del hoard; 1") == 1


def test_limits_that_a_cell_sets_stay(small):
    small.run("import resource; resource.setrlimit(resource.RLIMIT_DATA, (100 << 20, 160 << 20))")
    small.run("x = bytearray(10**13)")
    assert small.value("resource.getrlimit(resource.RLIMIT_DATA)") == (100 * MIB, 160 * MIB)


@pytest.mark.parametrize("size, stack", [(100 * MIB, MIB), (512 * MIB, 4 * MIB), (64 << 30, 8 * MIB)])
def test_stacks_of_threads(tmp_path, size, stack):
    interpreter = Interpreter(tmp_path, prepare=limit_data(size))
    try:
        assert interpreter.value(STACK_SIZE) == stack
    finally:
        interpreter.close()


STACK_SIZE = """
import ctypes
attributes, size = ctypes.create_string_buffer(256), ctypes.c_size_t()
libc = ctypes.CDLL(None)
libc.pthread_getattr_default_np(attributes)
libc.pthread_attr_getstacksize(attributes, ctypes.byref(size))
size.value"""


def test_stacks_without_a_limit(session):
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if soft != resource.RLIM_INFINITY:
        assert session.value(STACK_SIZE) == soft


def test_a_hundred_threads_fit(tmp_path):
    interpreter = Interpreter(tmp_path, prepare=limit_data(400 * MIB))
    try:
        code = """
import threading
stop = threading.Event()
threads = [threading.Thread(target=stop.wait) for _ in range(100)]
for thread in threads: thread.start()
stop.set()
for thread in threads: thread.join()
"""
        assert interpreter.run(code).error is None
    finally:
        interpreter.close()


# Pages


def field(session, file, name):
    with open(f"/proc/{session.process.pid}/{file}") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) << 10


def huge_pages():
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as modes:
            return "[never]" not in modes.read()
    except OSError:
        return False


def test_a_small_session_stays_small(session):
    session.run("x = [str(i) for i in range(50000)]")
    assert field(session, "smaps_rollup", "AnonHugePages") == 0
    assert field(session, "status", "VmData") < 64 * MIB


def test_many_objects_are_in_huge_pages(session):
    session.run("x = [str(i) for i in range(1500000)]")
    used = field(session, "smaps_rollup", "Rss")
    if huge_pages():
        assert field(session, "smaps_rollup", "AnonHugePages") > 32 * MIB
    assert field(session, "status", "VmData") < used + 32 * MIB
    assert session.value("len(x), x[0], x[-1]") == (1500000, "0", "1499999")


def test_memory_is_given_back(session):
    before = field(session, "smaps_rollup", "Rss")
    for _ in range(3):
        session.run("x = [str(i) for i in range(1000000)]")
        assert field(session, "smaps_rollup", "Rss") > before + 48 * MIB
        session.run("del x")
        assert field(session, "smaps_rollup", "Rss") < before + 16 * MIB
        assert field(session, "status", "VmData") < before + 32 * MIB


def test_huge_pages_after_a_restore(session):
    session.run("x = [str(i) for i in range(1000000)]")
    frozen = session.checkpoint()
    restored = frozen.restore()
    restored.run("del x[::2]; y = [[i] for i in range(500000)]")
    session.run("x.clear()")
    assert restored.value("len(x), len(y), x[1], y[-1]") == (500000, 500000, "3", [499999])
    assert frozen.restore().value("x[0], x[-1], len(x)") == ("0", "999999", 1000000)
