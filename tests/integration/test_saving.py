"""save() and open(restore=), with real sessions: what comes back, what is said of the rest, and what touches nothing."""

import asyncio
import os
import stat
import tarfile

import limpet
import pytest

from .test_files import BAD_NAME


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "conv.limpet")


@pytest.fixture
def restored(client, name, path):
    """Makes sessions of the archive."""
    made = []

    def restore(**options):
        session = client.open(f"{name}-{len(made)}-back", restore=path, **options)
        made.append(session)
        return session

    yield restore
    for session in made:
        session.close()


VARIABLES = """
import collections, enum, math as m, threading
rows = [{"n": 1}]
alias = rows
table = {"rows": rows, "bytes": b"\\0\\xff", "set": {1, 2}, "loop": []}
table["loop"].append(table)
total = 1
lock = threading.Lock()
generator = (n for n in range(3))
thread = threading.Thread(target=print)
holds = [rows, lock]
class Point(collections.namedtuple("Point", "x y")):
    def norm(self):
        return m.hypot(self.x, self.y)
class Colour(enum.Enum):
    RED = 1
def add(n):
    global total
    with lock:
        total += n
    return total
def counter():
    n = 0
    def count():
        nonlocal n
        n += 1
        return n
    return count
count = counter(); count()
point = Point(3, 4)
"""


@pytest.mark.engine
def test_variables_come_back_as_they_were(session, path, restored):
    session.run(VARIABLES).check()
    saved = session.save(path, memory=False)
    assert saved.path == path and saved.size == os.path.getsize(path) and saved.skipped == []
    assert set(saved.lost) == {"lock", "generator", "thread", "holds"}
    assert "cannot pickle" in saved.lost["lock"] and saved.variables["add"] == "saved"
    back = restored()
    assert back.run("rows is alias is table['rows'], table['loop'][0] is table, table['bytes']").result == repr((True, True, b"\0\xff"))
    assert back.run("point.norm(), type(point) is Point, Colour(1), m.floor(1.5)").result == "(5.0, True, <Colour.RED: 1>, 1)"
    assert back.run("count()").result == "2"
    assert back.run("import threading; lock = threading.Lock(); add(4), total").result == "(5, 5)"


def test_the_first_result_says_what_is_not_as_it_was(session, path, restored):
    session.run("import threading; lock = threading.Lock(); x = 1; y = 2").check()
    count = session.run("x").execution_count
    session.save(path, memory=False)
    back = restored()
    first, second = back.run("x, y"), back.run("x")
    assert (first.state, first.result, first.epoch) == ("kept", "(1, 2)", 1)
    assert len(first.restored) == 1 and first.restored[0].startswith("lock: it was not saved: TypeError") and first.restored == back.restored
    assert second.restored is None and "restored" not in second.to_dict()
    assert first.execution_count == count + 1


def test_saving_leaves_the_session_alone(session, path):
    code = "x = 1\nclass Evil:\n    def __reduce__(self):\n        global x\n        x = 2\n        open('made', 'w').close()\n        return (int, ())\nevil = Evil()"
    session.run(code).check()
    before = session.namespace(), session.run("x").execution_count
    assert session.save(path, memory=False).lost == {}
    assert session.run("x, type(evil).__name__").result == "(1, 'Evil')"
    assert session.run("").execution_count == before[1] + 2
    assert [variable.name for variable in session.namespace()] == [variable.name for variable in before[0]]
    assert session.run("import os; sorted(n for n in os.listdir() if n.startswith('.limpet-'))").result == "[]"


def test_a_variable_that_ends_its_pickling_costs_itself_alone(session, path, restored):
    code = "import os\nclass Ends:\n    def __reduce__(self):\n        os._exit(3)\nclass Crashes:\n    def __reduce__(self):\n        os.abort()\n"
    session.run(code + "ends, crashes, before, after = Ends(), Crashes(), [1], [2]\nends_too = [ends]").check()
    saved = session.save(path, memory=False)
    assert set(saved.lost) == {"ends", "ends_too", "crashes"}
    assert "ended the process" in saved.lost["ends"] and "SIGABRT" in saved.lost["crashes"]
    assert restored().run("before + after").result == "[1, 2]"
    assert session.run("before").result == "[1]"


def test_a_copy_that_crashes_by_chance_costs_nothing(session, path, restored):
    code = "import os\nclass Once:\n    def __reduce__(self):\n        if not os.path.exists('tried'):\n            open('tried', 'w').close(); os.abort()\n"
    session.run(code + "        return (int, ())\nonce, n = Once(), 41").check()
    assert session.save(path, memory=False).lost == {}
    assert restored().run("once, n").result == "(0, 41)"


def test_no_finalizer_runs_where_it_is_pickled(session, path):
    code = "import os\nclass Ends:\n    def __init__(self):\n        self.itself = self\n    def __del__(self):\n        os.abort()\n"
    code += "class Leaves:\n    def __reduce__(self):\n        Ends()\n        [[] for n in range(100_000)]\n        return (int, ())\n"
    session.run(code + "leaves = Leaves()").check()
    assert session.save(path, memory=False).lost == {}


@pytest.mark.engine
def test_a_variable_that_there_is_no_memory_for(client, limpetd, name, path):
    if not limpetd.isolates:
        pytest.skip("the engine does not bound memory")
    with client.open(name, memory="160m") as session:
        session.run("x = 1\nrows = [[n, str(n)] for n in range(500_000)]\ny = 2", timeout=60).check()
        saved = session.save(path, memory=False)
        assert set(saved.lost) == {"rows"} and "not enough memory" in saved.lost["rows"]
        result = session.run("len(rows), x, y")
        assert (result.result, result.state, result.epoch) == ("(500000, 1, 2)", "kept", 1)


@pytest.mark.engine
def test_too_little_memory_is_said(client, limpetd, name, path):
    if not limpetd.isolates:
        pytest.skip("the engine does not bound memory")
    with client.open(name, memory="400m") as session:
        session.run("x = bytearray(80 << 20); y = 2").check()
        session.save(path, memory=False)
    with pytest.raises(limpet.RestoreFailed, match="the variables take 80 MiB, and a session of this `memory` holds .. MiB: open it with more"):
        client.open(name, restore=path, memory="64m")
    with client.open(name, restore=path, memory="300m") as session:
        assert session.run("len(x), y").result == "(83886080, 2)"


@pytest.mark.engine
def test_files_outside_the_directory_are_told(session, limpetd, path, restored):
    if not limpetd.isolates:
        pytest.skip("without a sandbox they are others'")
    session.run("open('/tmp/a.csv', 'w').close(); open('b.csv', 'w').close()").check()
    told = "/tmp/a.csv: a file outside /session"
    assert session.save(path, memory=False).skipped == [told]
    assert restored().run("1").restored == [f"{told} is not saved"]


@pytest.mark.long
def test_a_variable_that_never_ends_its_pickling(session, path):
    session.run("import time\nclass Waits:\n    def __reduce__(self):\n        while True: time.sleep(1)\nwaits, x = Waits(), 1").check()
    saved = session.save(path, memory=False)
    assert set(saved.lost) == {"waits"} and "took longer than" in saved.lost["waits"] and saved.variables["x"] == "saved"


def test_what_cannot_be_unpickled_costs_what_shares_it_alone(session, path, restored):
    code = "class Breaks:\n    def __getstate__(self):\n        return {'x': 1}\n    def __setstate__(self, state):\n        raise RuntimeError('no')\n"
    session.run(code + "a = [1]\nbreaks = Breaks()\nholds = [breaks]\nb = [a, {}]\nc = [b[1]]").check()
    assert session.save(path, memory=False).lost == {}
    back = restored()
    assert [note.partition(":")[0] for note in back.restored] == ["breaks", "holds"]
    assert back.restored[0] == "breaks: RuntimeError: no" and "shares something" in back.restored[1]
    assert back.run("b[0] is a, c[0] is b[1], 'holds' in globals()").result == "(True, True, False)"


def test_open_files_by_path_and_position(session, path, restored):
    session.run("import pathlib; pathlib.Path('read').write_text('one\\ntwo\\n'); reader = open('read'); reader.readline()").check()
    session.run("writer = open('written', 'w'); _ = writer.write('abc'); adder = open('added', 'ab'); _ = adder.write(b'1')").check()
    session.run("with open('read') as done: pass").check()
    session.run("import socket; wire = socket.socket(); pipe = open(__import__('os').pipe()[0])").check()
    saved = session.save(path, memory=False)
    assert set(saved.lost) == {"wire", "pipe"} and "without a name" in saved.lost["pipe"]
    assert session.run("_ = writer.write('d'); writer.flush(); open('written').read()").result == "'abcd'"
    back = restored()
    assert back.run("import os; done.closed, done.name == os.path.abspath('read')").result == "(True, True)"
    assert back.run("reader.readline(), writer.write('xy'), writer.flush(), open('written').read()").result == repr(("two\n", 2, None, "abcxy"))
    assert back.run("_ = adder.write(b'2'); adder.flush(); open('added').read()").result == "'12'"


FILES = """
import os, pathlib
os.makedirs("a/closed"); pathlib.Path("a/small").write_text("1"); pathlib.Path("a/closed/x").write_text("2")
os.chmod("a/small", 0o640); os.chmod("a/closed", 0o500)
os.symlink("../elsewhere", "a/link"); os.symlink("/etc/passwd", "out"); import socket; socket.socket(socket.AF_UNIX).bind("sock")
pathlib.Path(os.fsdecode(%r)).write_text("bad")
os.utime("a/small", (1, 1_000_000_000))
with open("large", "wb") as file:
    file.write(os.urandom(3_000_000))
with open("sparse", "wb") as file:
    for at in range(0, 60_000_000, 2_000_000):
        file.seek(at + 1000); file.write(b"data")
    file.truncate(100_000_000)
os.utime("sparse", (1, 1_500_000_000))
import hashlib
def look():
    found = {}
    for above, directories, files in os.walk("."):
        for name in directories + files:
            path = os.path.join(above, name)
            st = os.lstat(path)
            what = os.readlink(path) if os.path.islink(path) else hashlib.sha256(open(path, "rb").read()).hexdigest() if os.path.isfile(path) else None
            if ".limpet" not in path and name != "sock":
                found[path] = (st.st_mode, what, os.path.isfile(path) and not os.path.islink(path) and int(st.st_mtime))
    return found
""" % BAD_NAME


@pytest.mark.engine
def test_files_come_back(session, path, restored, tmp_path):
    session.run(FILES, timeout=60).check()
    saved = session.save(path, memory=False)
    assert saved.skipped == ["/session/sock: a socket"]
    assert saved.size < 50_000_000
    back = restored()
    there, here = (each.run("sorted(look().items()), os.stat('sparse').st_blocks * 512 < 60_000_000", timeout=60).check().result for each in (session, back))
    assert here == there and here.endswith("True)")
    assert back.restored == ["/session/sock: a socket is not saved"]
    with tarfile.open(path) as tar:
        assert tar.getmember("files/sparse").size == 100_000_000 and tar.getmember("files/a/link").linkname == "../elsewhere"
        tar.extractall(tmp_path / "out", [tar.getmember("files/large")], **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    assert (tmp_path / "out/files/large").stat().st_size == 3_000_000


def test_options_come_back_and_may_be_others(client, name, path, restored):
    with client.open(name, env={"KEY": "value"}, timeout=17, memory="300m") as session:
        session.run("x = 1")
        session.save(path, memory=False)
        options = session.options
    back = restored()
    assert back.options == options and back.run("import os; os.environ['KEY'], x").result == "('value', 1)"
    assert restored(timeout=5).options["timeout"] == 5


def test_what_is_restored_is_protected_like_a_call(session, path, restored):
    session.run("x = [1]")
    session.save(path, memory=False)
    back = restored(checkpoint="always")
    result = back.run("x.append(2); import os; os._exit(1)")
    assert (result.status, result.state) == ("exited", "rolled_back")
    assert back.run("x").result == "[1]"


def test_a_branch_is_saved_with_its_own_variables(session, path, restored):
    session.run("x = 1")
    branch = session.branch("other")
    branch.run("x = 2")
    branch.save(path, memory=False)
    assert restored().run("x").result == "2"


def test_it_takes_its_place_when_it_is_whole(session, path, tmp_path):
    (tmp_path / "conv.limpet").write_text("before")
    session.run("x = 1")
    with pytest.raises(OSError):
        session.save(str(tmp_path / "missing" / "conv.limpet"))
    assert session.save(path, memory=False).variables == {"x": "saved"}
    assert os.listdir(tmp_path) == ["conv.limpet"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_no_session_is_left_where_it_cannot_be_restored(client, session, name, path):
    session.run("x = bytes(2_000_000); open('f', 'wb').write(x)")
    session.save(path, memory=False)
    whole = open(path, "rb").read()
    with pytest.raises(limpet.SessionExists):
        client.open(name, restore=path)
    for data, says in (
        (whole[:-700], "beginning"),
        (whole[: len(whole) // 2], "beginning"),
        (whole[:600] + bytes([whole[600] ^ 1]) + whole[601:], "damaged"),
        (b"", "no saved session"),
        (b"not a tar" * 1000, "no saved session"),
    ):
        with open(path, "wb") as file:
            file.write(data)
        with pytest.raises(limpet.RestoreFailed, match=says):
            client.open(f"{name}-back", restore=path)
    with open(path, "wb") as file:
        file.write(whole)
    with pytest.raises(FileNotFoundError):
        client.open(f"{name}-back", restore=path + "x")
    assert [row.session for row in client.sessions() if row.session.startswith(name)] == [name]


def test_asyncio(limpetd, name, path):
    async def main():
        async with limpet.AsyncClient(limpetd.socket) as client:
            async with await client.open(name) as session:
                await session.run("x = 1")
                seen = []
                await session.files.write("f", b"x" * 1_000_000)
                await session.save(path, memory=False, on_progress=lambda *told: seen.append(told))
                assert seen[-1] == (1_000_000, 1_000_000)
            async with await client.open(name, restore=path) as session:
                assert (await session.run("x, len(open('f').read())")).result == "(1, 1000000)"

    asyncio.run(main())
