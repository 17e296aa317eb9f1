"""put() and get()."""

import io

import limpet
import pytest


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


def test_a_name_that_is_not_utf8(session, files, tmp_path):
    session.put(b"x", "\udcff")
    assert files == {b"\xff": b"x"}
    session.get("\udcff", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"x"
