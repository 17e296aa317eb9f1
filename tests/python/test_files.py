"""put() and get()."""

import io
import os
import threading

import limpet
import pytest
from limpet._copying import _trees

CHUNK = 1 << 20


@pytest.fixture
def files(controller):
    """A controller that keeps files."""
    files = {}

    def put(request):
        body = request.body
        data = b"" if body["offset"] == 0 else files.get(("part", body["path"]), b"")
        assert body["offset"] == len(data) and len(body["data"]) <= CHUNK
        data += body["data"]
        files[body["path"] if body["last"] else ("part", body["path"])] = data
        request.reply(size=len(data))

    def get(request):
        body = request.body
        data = files.get(body["path"])
        if data is None:
            request.fail(1107, "NoSuchFile")
        else:
            assert body["size"] <= CHUNK
            request.reply(data=data[body["offset"] : body["offset"] + body["size"]], size=len(data))

    controller.on("put", put).on("get", get)
    return files


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_every_size_there_and_back(session, controller, files, tmp_path, size):
    data = bytes(range(256)) * (size // 256 + 1)
    (tmp_path / "in").write_bytes(data[:size])
    session.put(tmp_path / "in", "dir/file")
    assert files["dir/file"] == data[:size]
    assert len(controller.bodies("put")) == max(1, -(-size // CHUNK))
    session.get("dir/file", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data[:size]
    assert len(controller.bodies("get")) == max(1, -(-size // CHUNK))


def test_requests(session, controller, files):
    session.put(b"x", "f")
    session.get("f", io.BytesIO())
    target = {"session": "a", "instance": "i1", "path": "f", "offset": 0}
    assert controller.bodies("put") == [{**target, "data": b"x", "last": True}]
    assert controller.bodies("get") == [{**target, "size": CHUNK}]


@pytest.mark.parametrize("source", [b"data", bytearray(b"data"), memoryview(b"data"), io.BytesIO(b"data")])
def test_bytes_and_file_objects(session, files, source):
    session.put(source, "f")
    target = io.BytesIO()
    session.get("f", target)
    assert target.getvalue() == files["f"] == b"data"


def test_a_file_object_may_read_less_than_asked(session, files):
    class Slow(io.RawIOBase):
        left = 10

        def read(self, size=-1):
            self.left -= 1
            return b"ab" if self.left >= 0 else b""

    session.put(Slow(), "f")
    assert files["f"] == b"ab" * 10


def test_what_cannot_be_read_leaves_the_local_file(session, files, tmp_path):
    (tmp_path / "out").write_text("before")
    with pytest.raises(limpet.NoSuchFile):
        session.get("missing", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "before"
    with pytest.raises(FileNotFoundError):
        session.put(tmp_path / "missing", "f")
    assert files == {}


@pytest.mark.parametrize(
    "source, message", [(None, "not NoneType"), ({"a": 1}, "not dict"), (io.StringIO("text"), "with mode 'rb'")]
)
def test_what_is_no_file_is_named(session, controller, files, source, message):
    for copy in session.put, lambda data, path: session.put(data, f"/tmp/{path}"), lambda data, path: session.files.write(path, data):
        with pytest.raises(TypeError, match=message):
            copy(source, "f")
    assert files == {} and controller.bodies("files") == []


def test_what_breaks_off_leaves_the_local_file(session, controller, files, tmp_path):
    (tmp_path / "out").write_text("before")
    (tmp_path / "out").chmod(0o640)
    files["f"] = b"x" * 3 * CHUNK

    def get(request):
        if request.body["offset"] == 2 * CHUNK:
            request.fail(1107, "NoSuchFile")
        else:
            request.reply(data=files["f"][:CHUNK], size=3 * CHUNK)

    controller.on("get", get)
    with pytest.raises(limpet.NoSuchFile):
        session.get("f", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "before"
    controller.on("get", lambda request: request.reply(data=b"new", size=3))
    session.get("f", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "new" and (tmp_path / "out").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path).count("out") == 1 and not [name for name in os.listdir(tmp_path) if name.startswith(".limpet")]


def test_a_local_link_is_followed_and_stays(session, files, tmp_path):
    files["f"] = b"new"
    (tmp_path / "file").write_text("before")
    (tmp_path / "link").symlink_to("file")
    session.get("f", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "new"


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_pipe_is_written_to(session, controller, files, buffering):
    data = os.urandom(3 * CHUNK)
    files["f"] = data

    def read(request):
        at = request.body["ask"]["read"]["offset"]
        request.reply(offset=at, data=data[at : at + CHUNK], size=len(data), file=1)

    controller.on("files", read)
    for get in (session.get, session.files.read):
        ours, theirs = os.pipe()
        got = []
        reader = threading.Thread(target=lambda file=ours: got.append(open(file, "rb").read()))
        reader.start()
        with open(theirs, "wb", buffering) as pipe:
            get("f", pipe)
        reader.join(30)
        assert got == [data]


@pytest.mark.parametrize("source", ["bytes", "path", "file"])
def test_progress_has_the_whole_size_from_the_beginning(session, files, tmp_path, source):
    data, seen = b"x" * 3 * CHUNK, []
    (tmp_path / "in").write_bytes(data)
    with open(tmp_path / "in", "rb") as file:
        local = {"bytes": data, "path": tmp_path / "in", "file": file}[source]
        session.put(local, "f", on_progress=lambda *told: seen.append(told))
    assert seen == [(n * CHUNK, 3 * CHUNK) for n in (1, 2, 3)]


def test_a_directory_is_open_while_a_thread_writes_into_it(tmp_path, monkeypatch):
    """The descriptors of a task that was cancelled are not another's meanwhile."""
    (tmp_path / "b").mkdir()
    landing = _trees.Landing(str(tmp_path / "a"))
    entered, go, mkdir = threading.Event(), threading.Event(), os.mkdir

    def slow(*arguments, **options):
        entered.set()
        assert go.wait(30)
        mkdir(*arguments, **options)

    monkeypatch.setattr(os, "mkdir", slow)
    thread = threading.Thread(target=landing.contents, args=(_trees.Item("d/f", "file", 0o644), b"x"))
    thread.start()
    assert entered.wait(30)
    getattr(landing, "close", lambda: None)()
    del landing
    others = [os.open(tmp_path / "b", os.O_RDONLY) for _ in range(5)]
    go.set()
    thread.join(30)
    assert os.listdir(tmp_path / "b") == [] and (tmp_path / "a/d/f").read_bytes() == b"x"
    for other in others:
        os.close(other)


def test_no_descriptor_is_left_of_a_directory_that_cannot_be_entered(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/link").symlink_to("..")
    landing = _trees.Landing(str(tmp_path / "a"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        with pytest.raises(OSError):
            landing.contents(_trees.Item("b/link/f", "file", 0o644), b"x")
    assert len(os.listdir("/proc/self/fd")) == before


def test_large_files_of_a_directory_are_found_by_their_size(session, controller, tmp_path, monkeypatch):
    """Not by comparing each file with all large ones."""
    monkeypatch.setattr(_trees, "SMALL", 0)
    made, compared = _trees.Item.__hash__, []
    monkeypatch.setattr(_trees.Item, "__hash__", lambda item: compared.append(item) or made(item))
    (tmp_path / "d").mkdir()
    for n in range(50):
        (tmp_path / "d" / str(n)).write_bytes(b"x" * (n % 2))
    controller.on("files", lambda request: request.reply())
    session.put(tmp_path / "d", "d")
    assert len(compared) <= 100
