"""Running out of memory, and the pages that Python's objects live in."""

import errno

import pytest

from .harness import BUILD, Interpreter

SANITIZED = b"__asan_init" in (BUILD / "limpet-interpreter").read_bytes()
pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer has memory of its own")

MIB = 1 << 20


@pytest.fixture
def small(tmp_path):
    interpreter = Interpreter(tmp_path, memory=160 * MIB)
    yield interpreter
    interpreter.close()


def test_a_single_large_object(session):
    assert session.run("x = bytearray(10**13)").error["name"] == "MemoryError"
    assert session.value("'x' in globals()") is False


@pytest.mark.parametrize(
    "fill",
    [
        pytest.param("while True: hoard.append([1])", marks=pytest.mark.long),
        "while True: hoard.append(bytearray(1 << 20))",
        pytest.param("while True: hoard.append(bytearray(1 << 12))", marks=pytest.mark.long),
        "while True: hoard.append(str(len(hoard)))",
        "while True: hoard = [hoard]",
        pytest.param("hoard = {}\nwhile True: hoard[len(hoard)] = 1.5", marks=pytest.mark.long),
    ],
)
def test_the_session_survives_its_memory(small, fill):
    for _ in range(2):
        reply = small.run(f"hoard = []\n{fill}")
        assert reply.error["name"] == "MemoryError"
        # All that it holds is still there.
        assert small.value("type(hoard) in (list, dict) and len(hoard) > 0") is True
        assert small.run("print('text')").stdout == "text\n"
    small.run("del hoard")
    assert small.value("import json; json.dumps([1] * 100000)[:3]") == "[1,"


def test_a_recursion_that_takes_all_memory(small):
    small.run("import sys; sys.setrecursionlimit(10**9)\ndef f(): f()")
    error = small.run("f()").error
    assert error["name"] == "MemoryError" and "1000000000 deep" in error["message"]
    assert "in f\n" in error["traceback"] and small.value("len(bytearray(1 << 25))") == 1 << 25


def test_a_full_session_is_checkpointed(small):
    small.run("hoard = []\nwhile True: hoard.append(bytearray(1 << 20))")
    restored = small.checkpoint().restore()
    assert restored.value("len(hoard) > 50") is True
    assert restored.run("while True: hoard.append(bytearray(1 << 20))").error["name"] == "MemoryError"
    assert restored.value("del hoard; 1") == 1


def test_what_is_reserved_is_not_held(small):
    small.run("import mmap; reserved = mmap.mmap(-1, 1 << 34)")
    assert small.value("len(bytearray(64 << 20))") == 64 * MIB


def test_a_hundred_threads_fit(small):
    code = """
import threading
stop = threading.Event()
threads = [threading.Thread(target=stop.wait) for _ in range(100)]
for thread in threads: thread.start()
stop.set()
for thread in threads: thread.join()
"""
    assert small.run(code).error is None


@pytest.mark.parametrize("memory, least", [(128, 80), (1024, 885)])
def test_how_much_of_it_cells_can_have(tmp_path, memory, least):
    interpreter = Interpreter(tmp_path, memory=memory * MIB)
    try:
        assert interpreter.value(f"len(bytearray({least} << 20)) >> 20") == least
        assert interpreter.run(f"bytearray({memory - 40} << 20)").error["name"] == "MemoryError"
    finally:
        interpreter.close()


@pytest.mark.parametrize("allocate", ["calloc(1, {})", "malloc({})", "aligned_alloc(64, {})", "realloc(None, {})"])
def test_libraries_are_told_as_python_is(small, allocate):
    small.run("""
import ctypes
c = ctypes.CDLL(None, use_errno=True)
for function in c.malloc, c.calloc, c.aligned_alloc, c.realloc:
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_size_t] * (1 if function is c.malloc else 2)
c.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
""")
    assert small.value(f"c.{allocate.format(1 << 20)} is not None") is True
    assert small.value(f"c.{allocate.format(200 << 20)}, ctypes.get_errno()") == (None, errno.ENOMEM)


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


HOLDS = """
ran = []
class Own:
    def __getattribute__(self, name): ran.append(name)
    __len__ = __sizeof__ = __iter__ = __hash__ = lambda self: ran.append(self) or 1
    def __init__(self, data): object.__setattr__(self, 'data', data)
own = Own(bytearray(30 << 20))
texts = {n: 'x' * 3000 + str(n) for n in range(2000)}
class Many(list): pass
many = Many([bytearray(2 << 20) for _ in range(2)])
same, few = own, [1, 2]
del ran[:]
"""


def test_names_that_hold_most_are_told_where_memory_ends(small):
    assert "memory" not in small.run(HOLDS).body
    told = small.run("bytearray(1 << 30)").body["memory"]
    assert [row["type"] for row in told[:2]] == ["__main__.Own"] * 2 and {row["name"] for row in told[:2]} == {"own", "same"}
    assert [(row["name"], row["type"]) for row in told[2:4]] == [("texts", "dict"), ("many", "__main__.Many")]
    assert len(told) == 5 and all(abs(row["bytes"] / wanted - 1) < 0.2 for row, wanted in zip(told, (30 * MIB, 30 * MIB, 6e6, 4 * MIB)))
    assert small.value("ran") == []


def test_names_that_hold_most_are_told_before_memory_ends(small):
    told = small.run("hoard = []\nwhile len(hoard) < 104: hoard.append(bytearray(1 << 20))").body["memory"]
    assert told[0]["name"] == "hoard" and abs(told[0]["bytes"] / (104 * MIB) - 1) < 0.2
    copy = small.checkpoint().restore(memory=True)
    assert copy.ready["memory"] == told
    assert copy.run("1").body["memory"][0]["name"] == "hoard"
    assert "memory" not in small.run("hoard.clear()").body
