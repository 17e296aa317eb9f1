"""put and get of large files, which go through descriptors that the controller passes."""

import asyncio
import os
import subprocess

import limpet
import pytest
from limpet._connection import _passing
from limpet._protocol import _requests

pytestmark = pytest.mark.engine

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")
SIZE = (5 << 20) + 17
HOLES = 256 << 20


@pytest.fixture
def command(limpetd, name, session):
    def run(*words, **how):
        environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}
        return subprocess.run([LIMPET, *words], env=environment, capture_output=True, timeout=60, **how)

    return run


@pytest.fixture
def large(tmp_path):
    (tmp_path / "large").write_bytes(os.urandom(SIZE))
    return tmp_path / "large"


@pytest.fixture
def sparse(tmp_path):
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(HOLES)
        file.seek(HOLES // 2)
        file.write(b"middle")
    return tmp_path / "sparse"


@pytest.fixture
def passed(monkeypatch):
    """How many descriptors came."""
    came = []
    ask = _passing.Passing.descriptor

    def counted(self, request, target):
        came.append(ask(self, request, target))
        return came[-1]

    monkeypatch.setattr(_passing.Passing, "descriptor", counted)
    return came


def is_sparse(path):
    status = os.stat(path)
    with open(path, "rb") as file:
        file.seek(HOLES // 2)
        return status.st_size == HOLES and status.st_blocks * 512 < 1 << 20 and file.read(7) == b"middle\0"


INSIDE = "import os; s = os.stat('{}'); (s.st_size, s.st_blocks * 512 < 1 << 20)"


@pytest.mark.docker
def test_there_and_back(session, large, tmp_path, passed):
    told = []
    session.put(large, "in/file", on_progress=lambda done, whole: told.append((done, whole)))
    assert told[-1] == (SIZE, SIZE)
    session.run("f = open('in/file', 'ab'); f.write(b'x'); f.close()").check()
    session.get("in/file", tmp_path / "back", on_progress=lambda done, whole: told.append((done, whole)))
    assert told[-1] == (SIZE + 1, SIZE + 1)
    assert (tmp_path / "back").read_bytes() == large.read_bytes() + b"x"
    assert len(passed) == 2 and all(passed)


def test_asyncio(session, limpetd, name, large, tmp_path, passed):
    async def main():
        async with limpet.AsyncClient(limpetd.socket) as client:
            attached = await client.attach(name)
            await asyncio.gather(*(attached.put(large, f"file{number}") for number in range(4)))
            await asyncio.gather(*(attached.get(f"file{number}", tmp_path / str(number)) for number in range(4)))

    asyncio.run(main())
    assert all((tmp_path / str(number)).read_bytes() == large.read_bytes() for number in range(4))
    assert len(passed) == 8 and all(passed)


def test_holes_stay_holes(session, sparse, tmp_path):
    session.put(sparse, "sparse")
    assert session.run(INSIDE.format("sparse")).result == f"({HOLES}, True)"
    session.get("sparse", tmp_path / "back")
    assert is_sparse(tmp_path / "back")


def test_the_command(session, name, command, large, sparse, tmp_path):
    for local in (large, sparse):
        assert command("put", str(local), f"{name}:it").returncode == 0
        assert command("get", f"{name}:it", str(tmp_path / "back")).returncode == 0
        assert subprocess.run(["cmp", local, tmp_path / "back"]).returncode == 0
    assert session.run(INSIDE.format("it")).result == f"({HOLES}, True)"
    assert is_sparse(tmp_path / "back")
    piped = command("put", "-", f"{name}:piped", input=large.read_bytes())
    assert piped.returncode == 0 and command("get", f"{name}:piped", "-").stdout == large.read_bytes()
    with open(sparse, "rb") as file:
        file.seek(HOLES // 2)
        assert command("put", "-", f"{name}:rest", stdin=file).returncode == 0
    assert session.files.stat("rest").size == HOLES // 2


@pytest.mark.engine
@pytest.mark.parametrize("path", ["/tmp/file", "/home/user/new/file", "../tmp/file", b"bad-\xff"])
def test_the_command_reaches_what_code_reaches(session, name, command, tmp_path, path):
    if session.engine == "local":
        pytest.skip("code writes where the machine does")
    (tmp_path / "in").write_bytes(b"data")
    inside = name.encode() + b":" + os.fsencode(path)
    assert command("put", tmp_path / "in", inside).returncode == 0
    assert session.files.read(os.fsdecode(path)) == b"data"
    assert command("get", inside, tmp_path / "out").returncode == 0
    assert (tmp_path / "out").read_bytes() == b"data"


def test_the_command_gets_the_whole_directory(session, name, command, tmp_path):
    session.files.write("a/b", b"data")
    assert command("get", f"{name}:", tmp_path / "all").returncode == 0
    assert (tmp_path / "all/a/b").read_bytes() == b"data"


def test_a_place_that_is_not_there_is_named_as_it_was_given(session, name, command, tmp_path):
    session.files.write("a", b"data")
    done = command("get", f"{name}:a", tmp_path / "none/a")
    assert done.stderr.decode().splitlines()[-1] == f"limpet: {tmp_path}/none/a: No such file or directory"


def test_holes_do_not_show_what_was_there(session, name, limpetd, sparse, tmp_path):
    session.put(sparse, "sparse")
    environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}
    for flags in (os.O_APPEND, 0):
        (tmp_path / "there").write_bytes(b"y" * (2 << 20))
        to = os.open(tmp_path / "there", os.O_WRONLY | flags)
        subprocess.run([LIMPET, "get", f"{name}:sparse", "-"], stdout=to, env=environment, check=True, timeout=60)
        os.close(to)
        with open(tmp_path / "there", "rb") as file:
            assert file.read(2 << 20) == (b"y" if flags else b"\0") * (2 << 20)
            assert file.seek(0, os.SEEK_END) == HOLES + (2 << 20 if flags else 0)


def test_what_is_no_file_of_the_session_is_not_opened(session, limpetd, tmp_path):
    session.run("import os; os.symlink('/etc/passwd', 'link'); os.mkdir('d'); os.symlink('/', 'd/out')").check()
    session.run("os.mkfifo('fifo')")
    passing = _passing.connect(limpetd.socket)
    try:
        for path in ("fifo", "link", "d", "d/out/etc/passwd"):
            with pytest.raises(limpet.NoSuchFile):
                passing.descriptor(_requests.get_through(path), session._target)
        for path in ("../x", "/etc/x", ".limpet/x"):
            with pytest.raises(limpet.BadRequest):
                passing.descriptor(_requests.put_through(path), session._target)
        with pytest.raises(limpet.BadRequest, match="before there is any data"):
            passing.ask(_requests.Request(17, _requests.put_through("x").body | {"last": True}, bool), session._target)
        file = passing.descriptor(_requests.put_through("d/out/x"), session._target)
        os.write(file.number, b"data")
        with pytest.raises(limpet.BadRequest, match="not a directory of the session"):
            passing.ask(_requests.put("d/out/x", file.size(), b"", last=True), session._target)
        file = passing.descriptor(_requests.put_through("d"), session._target)
        with pytest.raises(limpet.BadRequest, match="is a directory"):
            passing.ask(_requests.put("d", file.size(), b"", last=True), session._target)
    finally:
        passing.close()


def test_a_file_is_there_as_a_whole_or_not_at_all(session, limpetd, large):
    session.files.write("file", b"before")
    passing = _passing.connect(limpetd.socket)
    file = passing.descriptor(_requests.put_through("file"), session._target)
    os.write(file.number, b"half")
    assert session.get("file") == b"before"
    with pytest.raises(limpet.BadRequest, match="not the end"):
        passing.ask(_requests.put("file", 3, b"", last=True), session._target)
    passing.close()

    def fail(done, whole):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        session.put(large, "file", on_progress=fail)
    assert session.get("file") == b"before"
    session.put(large, "file")
    assert session.files.stat("file").size == SIZE


def test_what_was_given_is_for_one_thing(session, limpetd, large):
    session.put(large, "file")
    passing = _passing.connect(limpetd.socket)
    reading = passing.descriptor(_requests.get_through("file"), session._target)
    with pytest.raises(OSError):
        os.write(reading.number, b"x")
    writing = passing.descriptor(_requests.put_through("other"), session._target)
    with pytest.raises(OSError):
        os.read(writing.number, 1)
    passing.close()


def test_in_pieces_where_no_descriptor_comes(session, large, tmp_path, monkeypatch):
    monkeypatch.setattr(_passing, "FEATURE", "of-the-future")
    session.put(large, "file")
    session.get("file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == large.read_bytes()


def test_a_full_disk_is_told_and_left_empty(own_limpetd, tmp_path):
    if own_limpetd.engine == "local":
        pytest.skip("this engine bounds no disk")
    with open(tmp_path / "big", "wb") as file:
        for _ in range(48):
            file.write(os.urandom(1 << 20))
    own_limpetd.start()
    with limpet.Client(own_limpetd.socket) as client, client.open(disk="32m") as session:
        with pytest.raises(limpet.FileFailed, match="No space left.*more `disk`"):
            session.put(tmp_path / "big", "big")
        environment = os.environ | {"LIMPET_SOCKET": own_limpetd.socket, "LIMPET_AUTOSTART": "0"}
        words = [LIMPET, "put", tmp_path / "big", f"{session.name}:big"]
        done = subprocess.run(words, env=environment, capture_output=True, timeout=60)
        assert done.returncode == 125 and b"No space left" in done.stderr
        session.files.write("small", b"x" * (16 << 20))
