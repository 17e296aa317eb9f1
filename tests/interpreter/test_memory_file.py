"""A frozen copy goes on in another process, out of a file with its memory."""

import os
import random
import struct
import subprocess

import pytest

from .harness import LOADER, ROOTFS, CheckpointFailed, Frozen, Interpreter

pytestmark = pytest.mark.skipif(not LOADER.exists() or ROOTFS is not None, reason="there is no loader here")


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "saved"
    path.mkdir()
    return path


@pytest.fixture
def move(place, tmp_path):
    """Writes it down, ends it, and makes another one of the file."""
    made = []

    def move(session, expect=None):
        frozen = session.checkpoint()
        assert frozen.save(place) is None
        assert frozen.drop() == 0
        session.close()
        made.append(Frozen.of_file(place / "memory", tmp_path, session.count))
        restored = made[-1].restore()
        assert restored.not_restored == (expect or [])
        return restored

    yield move
    for frozen in made:
        frozen.close()


@pytest.fixture
def session(tmp_path):
    return Interpreter(tmp_path)


ALL = """
import concurrent.futures, ctypes, mmap, multiprocessing, os, random, resource, signal, sqlite3, sys, tempfile, threading, time
os.mkdir("below"); os.chdir("below"); os.umask(0o27)
def counting():
    for n in range(100): yield n
numbers = counting(); next(numbers)
database = sqlite3.connect(":memory:"); database.execute("create table t as select 41 as x")
lock = threading.Lock(); lock.acquire()
file = open("file", "w+"); file.write("0123456789"); file.flush(); file.seek(4)
nameless = tempfile.TemporaryFile(); nameless.write(b"nameless"); nameless.seek(4)
inside, outside = os.pipe(); os.write(outside, b"in the pipe")
mapped = mmap.mmap(file.fileno(), 10); shared = mmap.mmap(-1, 10000); shared[9999] = 7
among = multiprocessing.Lock(); among.acquire()
add = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + 1)
came = []; signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
cycle = []; cycle.append(cycle)
reserved = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000); reserved[5 << 30] = 5
sys.setrecursionlimit(20000)
drawn = random.getstate()
"""

GOES_ON = """
mapped[4] = 99; os.kill(os.getpid(), signal.SIGUSR1)
deep = []
for _ in range(15000): deep = [deep]
assert next(numbers) == 1 and database.execute("select x from t").fetchone() == (41,) and lock.locked()
assert (file.tell(), file.read()) == (4, "c56789"), file.read()
assert (nameless.read(), os.read(inside, 100)) == (b"less", b"in the pipe")
assert shared[9999] == 7 and reserved[5 << 30] == 5 and not among.acquire(block=False) and add(4) == 5
assert came == [1] and cycle[0] is cycle and random.getstate() == drawn and len(repr(deep)) == 30002
assert os.getcwd().endswith("/below") and os.umask(0o22) == 0o27 and resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
maps = open("/proc/self/maps").read(); assert "[heap]" in maps and "[stack]" in maps and "loader" not in maps
assert len([bytes(50000) for _ in range(1000)]) == 1000
import subprocess; assert subprocess.run(["echo", "on"], capture_output=True).stdout == b"on\\n"
"""


def test_everything_goes_on(session, move):
    assert session.run(ALL).error is None
    moved = move(session)
    assert (error := moved.run(GOES_ON).error) is None, error["traceback"]


def test_contents_that_are_mapped_are_shared_until_they_change(session, place, tmp_path):
    assert session.run(ALL).error is None
    frozen = session.checkpoint()
    assert frozen.save(place) is None
    session.close()
    copies = [Frozen.of_file(place / "memory", tmp_path, session.count, shared=True) for _ in range(2)]
    (place / "memory").unlink()
    for copy in copies:
        assert (error := copy.restore().run(GOES_ON.replace("file.tell(), file.read()", "4, 'c56789'"))).error is None, error.error["traceback"]
    private = sum(int(line.split()[1]) for line in open(f"/proc/{copies[1].process.pid}/smaps_rollup") if line.startswith("Private_Dirty:"))
    assert copies[1].save(place) is None
    again = Frozen.of_file(place / "memory", tmp_path, session.count)
    assert again.restore().value("next(numbers)") == 1 and private < os.path.getsize(place / "memory") >> 13
    for copy in (*copies, again):
        copy.close()


LARGE = "data = bytearray(range(256)) * (80 << 12)\nguard = mmap.mmap(-1, 1 << 20); guard[9] = 9"
IS_LARGE = """
assert data[256 * 1000 : 256 * 1001] == bytes(range(256)) and data.count(7) == 80 << 12 and guard[9] == 9
data[256 * turn + 7] = 7; assert next(numbers) == turn
"""


def test_a_large_file_is_mapped(session, place, tmp_path):
    """As often as it moves, whether it still has its name or not, and without being changed."""
    assert session.run(ALL + LARGE).error is None
    other = tmp_path / "other"
    other.mkdir()
    for turn, (to, before) in enumerate(((place, other), (other, place), (place, other)), 1):
        frozen = session.checkpoint()
        assert frozen.save(to) is None
        session.close()
        (before / "memory").unlink(missing_ok=True)
        moved = Frozen.of_file(to / "memory", tmp_path, session.count)
        session = moved.restore()
        assert f" {to}/memory\n" in session.value("open('/proc/self/maps').read()")
        assert (error := session.run(f"turn = {turn}\n{IS_LARGE}").error) is None, error["traceback"]
    moved.close()


def in_memory(path, damaged=False):
    """The descriptor of an image, as the file service gives it."""
    content = bytearray(path.read_bytes())
    if damaged:
        content[len(content) // 2] ^= 1
    image = os.memfd_create("limpet-memory")
    assert os.write(image, content) == len(content)
    return image


def test_what_is_in_an_image_is_not_written_again(session, place, tmp_path):
    """Nor anything of it read where that image is not there, or the machine has failed before it was whole."""
    assert session.run(ALL + LARGE).error is None
    frozen = session.checkpoint()
    assert frozen.save(place) is None
    session.close()
    mangle(place / "memory", boot=1)
    image, damaged = in_memory(place / "memory"), in_memory(place / "memory", damaged=True)
    session = Frozen.of_file(f"/proc/self/fd/{image}", tmp_path, session.count, shared=True).restore()
    for turn in (1, 2):
        assert (error := session.run(f"turn = {turn}\n{IS_LARGE}\nguard[:] = bytes(1 << 20); guard[9] = 9").error) is None, error["traceback"]
        frozen = session.checkpoint()
        assert frozen.save(place, shares=True) is None
        session.close()
        assert os.path.getsize(place / "memory") < os.fstat(image).st_size / 4
        moved = Frozen.of_file(place / "memory", tmp_path, session.count, image=image)
        session = moved.restore()
    assert session.value("turn, guard[9]") == (2, 9)
    moved.close()
    for wrong, why in ((None, "is gone"), (os.memfd_create("other"), "is gone"), (damaged, "not written to the disk")):
        with pytest.raises(CheckpointFailed, match=why):
            Frozen.of_file(place / "memory", tmp_path, image=wrong)
    assert Frozen.of_file(place / "memory", tmp_path, session.count, image=image).restore().value("turn") == 2


THREADS = """
import concurrent.futures, queue, threading, time
ticks, items = 0, queue.Queue()
def tick():
    global ticks
    while True:
        time.sleep(0.001)
        ticks += 1
threading.Thread(target=tick, daemon=True).start()
pool = concurrent.futures.ThreadPoolExecutor(2)
waiting = pool.submit(items.get)
"""


def test_threads_go_on_again_and_again(session, move):
    assert session.run(THREADS).error is None
    for turn in range(3):
        session = move(session)
        assert session.run("before = ticks\nwhile ticks == before: time.sleep(0.001)").error is None
        assert session.value(f"items.put({turn}); waiting.result()") == turn
        assert session.value("waiting = pool.submit(items.get); threading.active_count()") >= 3


def test_it_is_a_checkpoint_like_others(session, place, tmp_path):
    session.run("n = 1")
    frozen = session.checkpoint()
    assert frozen.save(place) is None
    assert frozen.restore().value("n") == 1, "it goes on as one"
    session.close()
    moved = Frozen.of_file(place / "memory", tmp_path)
    assert [moved.restore(branched).value("n += 1; n") for branched in (False, True, True)] == [2, 2, 2]
    assert moved.save(place) is None
    moved.close()


def test_what_cannot_come_is_told(session, move, place, tmp_path):
    session.run("import os, socket; a, b = socket.socketpair(); b.close(); child = os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '60')")
    number = session.value("file = open('file', 'w'); file.fileno()")
    frozen = session.checkpoint()
    session.run("os.kill(child, 9)")
    assert frozen.save(place) is None
    session.close()
    (tmp_path / "file").unlink()
    moved = Frozen.of_file(place / "memory", tmp_path)
    told = moved.restore().not_restored
    moved.close()
    assert len(told) == 3 and f"the file on descriptor {number} cannot be opened again" in told
    assert any("child process" in note for note in told) and any("local connection" in note for note in told)


CANNOT = {
    "under a name": "from multiprocessing.shared_memory import SharedMemory\nmemory = SharedMemory(create=True, size=100)",
    "mapped twice": "import mmap, os\nfd = os.memfd_create('m'); os.truncate(fd, 8192)\nboth = [mmap.mmap(fd, 8192) for _ in range(2)]",
}


@pytest.mark.parametrize("why", CANNOT)
def test_what_is_not_kept(session, place, why):
    assert session.run(CANNOT[why]).error is None
    frozen = session.checkpoint()
    assert why in frozen.save(place)
    assert os.listdir(place) == []
    assert frozen.restore().value("1 + 1") == 2
    session.run("if 'memory' in globals(): memory.unlink()")
    session.close()


@pytest.fixture
def kept(session, place, tmp_path):
    """The file, of an interpreter with libraries of its own."""
    libraries = {tmp_path / "library.so": "sha1", tmp_path / "nameless.so": "none"}
    for library, build in libraries.items():
        subprocess.run(["cc", "-shared", f"-Wl,--build-id={build}", "-x", "c", "-", "-o", library], input=b"int x;", check=True)
    session.run(f"import ctypes\nlibraries = [ctypes.CDLL(each) for each in {list(map(str, libraries))}]")
    frozen = session.checkpoint()
    assert frozen.save(place) is None
    session.close()
    return place / "memory"


def refused(path, directory):
    with pytest.raises(CheckpointFailed) as refusal:
        Frozen.of_file(path, directory)
    return str(refusal.value)


HEAD = struct.Struct("=16s11Q4I")
FIELDS = ("magic", "size", "kernel", "processor", "image", "first", "boot", "sum", "clock", "thread", "entry", "stack", "files", "mappings", "runs", "text")


def mangle(path, **fields):
    with open(path, "r+b") as file:
        head = dict(zip(FIELDS, HEAD.unpack(file.read(HEAD.size))))
        file.seek(0)
        file.write(HEAD.pack(*{**head, **fields}.values()))
    return head


def test_where_it_does_not_fit(kept, tmp_path):
    head = mangle(kept, kernel=1)
    assert "another kernel" in refused(kept, tmp_path)
    mangle(kept, kernel=head["kernel"], processor=1)
    assert "another kind of processor" in refused(kept, tmp_path)
    mangle(kept, processor=head["processor"], clock=head["clock"] + (1 << 60))
    assert "a clock that is ahead" in refused(kept, tmp_path)
    mangle(kept, clock=head["clock"])
    Frozen.of_file(kept, tmp_path).close()


def test_files_of_another_build(kept, tmp_path):
    """One without the id of its build is known by the time of its last change."""
    named, nameless = tmp_path / "library.so", tmp_path / "nameless.so"
    os.utime(named)
    Frozen.of_file(kept, tmp_path).close()
    for library in (named, nameless):
        times = os.stat(library)
        with open(library, "r+b") as file:  # of the same size, at the same time
            file.seek(12)
            file.write(b"x")
        os.utime(library, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert "has changed" in refused(kept, tmp_path)
        with open(library, "r+b") as file:
            file.seek(12)
            file.write(b"\0")
        os.utime(library, ns=(times.st_atime_ns, times.st_mtime_ns))
        Frozen.of_file(kept, tmp_path).close()
    os.utime(nameless)
    assert "has changed" in refused(kept, tmp_path)
    os.unlink(named)
    assert "has changed" in refused(kept, tmp_path)


def test_after_a_restart_of_the_machine_it_must_be_whole(kept, tmp_path):
    head = mangle(kept, boot=1)
    Frozen.of_file(kept, tmp_path).close()
    with open(kept, "r+b") as file:  # a block that was not written
        file.seek(head["size"] // 2 // 4096 * 4096)
        block = file.read(4096)
        file.seek(-4096, os.SEEK_CUR)
        file.write(bytes(4096) if any(block) else b"x")
    assert "not written to the disk" in refused(kept, tmp_path)


def test_what_is_damaged(kept, tmp_path):
    head = mangle(kept)
    for field, value in (("files", 1 << 31), ("mappings", 70000), ("runs", 0), ("text", 0), ("entry", 0), ("stack", 1 << 60), ("thread", 5)):
        mangle(kept, **{field: value})
        assert refused(kept, tmp_path) in ("it is damaged", "a mapping in it is none", "it has nowhere to go on")
        mangle(kept, **{field: head[field]})
    mangle(kept, magic=b"limpet memory 0")
    assert refused(kept, tmp_path) == "it is not whole"
    mangle(kept, magic=head["magic"])
    os.truncate(kept, head["size"] - 4096)
    assert refused(kept, tmp_path) == "it is not whole"
    os.unlink(kept)
    assert refused(kept, tmp_path) == "none was kept"
    os.mkdir(kept)
    assert refused(kept, tmp_path) == "it is not whole"


@pytest.mark.proves("security: memory of saved sessions that sandboxed code has changed")
def test_mappings_that_are_none(kept, tmp_path):
    """Each is refused before anything is mapped."""
    head = mangle(kept)
    mapping, at = struct.Struct("=3Q2I8B"), HEAD.size + 24 * head["files"]
    whole = kept.read_bytes()[: at + mapping.size * head["mappings"]]
    rows = [list(mapping.unpack_from(whole, at + i * mapping.size)) for i in range(head["mappings"])]
    chance = random.Random(1)
    for _ in range(40):
        i, field = chance.randrange(len(rows)), chance.choice((0, 1, 3, 4, 5))
        row = list(rows[i])
        row[field] = {0: chance.choice((0, 1, row[1], 0x180000000000)), 1: chance.choice((row[0], 1 << 63, row[1] + 1)), 3: 1 << 31, 4: row[4] + 1, 5: 9}[field]
        if field == 3 and row[5] < 3:
            continue
        with open(kept, "r+b") as file:
            file.seek(at + i * mapping.size)
            file.write(mapping.pack(*row))
        assert refused(kept, tmp_path) in ("it is damaged", "a mapping in it is none"), (i, row)
        with open(kept, "r+b") as file:
            file.seek(at + i * mapping.size)
            file.write(mapping.pack(*rows[i]))
    Frozen.of_file(kept, tmp_path).close()
