"""Files, with E2B's own clients."""

import asyncio
import io
import urllib.error
import urllib.request

import pytest
from e2b import AsyncSandbox, FileType, FilesystemEventType, InvalidArgumentException, NotFoundException
from e2b_code_interpreter import Sandbox

from .conftest import made, until


@pytest.fixture
def directory(shared, name):
    shared.files.make_dir(name)
    yield name
    shared.files.remove(name)


def test_written_and_read(shared, directory):
    info = shared.files.write(f"{directory}/deep/er.txt", "héllo")
    assert (info.name, info.type) == ("er.txt", FileType.FILE) and info.path.endswith(f"/{directory}/deep/er.txt")
    assert shared.files.read(f"{directory}/deep/er.txt") == "héllo"
    assert shared.files.read(info.path, format="bytes") == "héllo".encode()
    shared.files.write(info.path, b"\x00\xff")
    assert shared.files.read(info.path, format="bytes") == b"\x00\xff"


@pytest.mark.parametrize("gzip", [False, True])
def test_large_files_stream_both_ways(shared, directory, gzip):
    data = bytes(range(256)) * 20_000
    shared.files.write(f"{directory}/large", io.BytesIO(data), gzip=gzip)
    assert b"".join(shared.files.read(f"{directory}/large", format="stream", gzip=gzip)) == data


def test_several_at_once_with_odd_names(shared, directory):
    names = ["plain", "with space", 'quo"te', "ümlaut", "semi;colon"]
    written = shared.files.write_files([{"path": f"{directory}/{name}", "data": name} for name in names])
    assert [each.name for each in written] == names
    assert [shared.files.read(f"{directory}/{name}") for name in names] == names


def test_what_is_where(shared, directory):
    shared.files.write(f"{directory}/a/b.txt", "12345")
    shared.commands.run("ln -s b.txt link; ln -s none lost; chmod 640 b.txt", cwd=f"{directory}/a")
    listed = {each.name: each for each in shared.files.list(f"{directory}/a")}
    assert sorted(listed) == ["b.txt", "link", "lost"]
    file = listed["b.txt"]
    assert (file.type, file.size, file.mode, file.permissions) == (FileType.FILE, 5, 0o640, "-rw-r-----")
    assert file.owner == file.group == "user" and file.modified_time.year > 2000
    link, lost = listed["link"], listed["lost"]
    assert (link.type, link.mode, link.symlink_target) == (FileType.FILE, 0o640, file.path)
    assert (lost.type, lost.symlink_target) == (FileType.SYMLINK, file.path.replace("b.txt", "none"))
    assert [each.name for each in shared.files.list(directory)] == ["a"]
    assert len(shared.files.list(directory, depth=2)) == 4
    assert shared.files.get_info(f"{directory}/a").type == FileType.DIR
    assert shared.files.exists(f"{directory}/a") and not shared.files.exists(f"{directory}/z")


def test_made_moved_removed(shared, directory):
    assert shared.files.make_dir(f"{directory}/one/two") is True
    assert shared.files.make_dir(f"{directory}/one/two") is False
    shared.files.write(f"{directory}/one/file", "x")
    moved = shared.files.rename(f"{directory}/one", f"{directory}/new/name")
    assert moved.path.endswith(f"{directory}/new/name")
    assert shared.files.read(f"{directory}/new/name/file") == "x"
    shared.files.remove(f"{directory}/new")
    assert not shared.files.exists(f"{directory}/new")
    shared.files.remove(f"{directory}/new")


def test_what_cannot_be_done_is_told(shared, directory):
    with pytest.raises(NotFoundException):
        shared.files.read(f"{directory}/none")
    with pytest.raises(NotFoundException):
        shared.files.list(f"{directory}/none")
    with pytest.raises(NotFoundException):
        shared.files.rename(f"{directory}/none", f"{directory}/other")
    with pytest.raises(InvalidArgumentException, match="directory"):
        shared.files.read(directory)
    with pytest.raises(InvalidArgumentException, match="directory"):
        shared.files.write(directory, "x")
    shared.files.write(f"{directory}/file", "x")
    with pytest.raises(InvalidArgumentException):
        shared.files.make_dir(f"{directory}/file")
    with pytest.raises(InvalidArgumentException):
        shared.files.list(f"{directory}/file")
    with pytest.raises(InvalidArgumentException):
        shared.files.write(f"{directory}/file/below", "x")
    with pytest.raises(InvalidArgumentException, match="root"):
        shared.files.read(f"{directory}/file", user="root")


def test_metadata_stays_with_its_file(where, isolates):
    with made(Sandbox, where) as sandbox:
        sandbox.files.write("plain", "x")
        written = sandbox.files.write("kept", "x", metadata={"Author": "Ada", "note": "a = b; c"})
        assert written.metadata == {"author": "Ada", "note": "a = b; c"}
        assert sandbox.files.get_info("kept").metadata == written.metadata
        sandbox.files.write_files([{"path": "a", "data": "1"}, {"path": "b", "data": "2"}], metadata={"n": "1"})
        told = {entry.name: entry.metadata for entry in sandbox.files.list(".")}
        assert {name: told[name] for name in ("plain", "a", "b")} == {"plain": None, "a": {"n": "1"}, "b": {"n": "1"}}
        assert sandbox.files.rename("kept", "moved").metadata == written.metadata
        sandbox.files.write("a", "3", metadata={"m": "2"})
        assert sandbox.files.get_info("a").metadata == {"m": "2"}
        sandbox.run_code("import os; os.setxattr('plain', 'user.e2b.by', b'code')")
        assert sandbox.files.get_info("plain").metadata == {"by": "code"}
        sandbox.pause()
        again = sandbox.connect(**where)
        if isolates:
            assert again.files.get_info("moved").metadata == written.metadata
            assert again.run_code("1").error is None
        else:  # its home is no other directory
            assert "metadata of 4 files" in again.run_code("1").error.value


def test_watched_by_asking(shared, directory):
    watch = shared.files.watch_dir(directory, recursive=True)
    shared.files.make_dir(f"{directory}/sub")
    seen = []

    def has(kind, name):
        seen.extend((each.type, each.name) for each in watch.get_new_events())
        return (kind, name) in seen

    until(lambda: has(FilesystemEventType.CREATE, "sub"))
    shared.files.write(f"{directory}/sub/new", "x")
    until(lambda: has(FilesystemEventType.WRITE, "sub/new"))
    assert {(FilesystemEventType.CREATE, "sub/new"), (FilesystemEventType.CHMOD, "sub/new")} <= set(seen)
    seen.clear()
    shared.commands.run(f"echo more >> {directory}/sub/new")
    until(lambda: has(FilesystemEventType.WRITE, "sub/new"))
    shared.files.rename(f"{directory}/sub/new", f"{directory}/sub/other")
    until(lambda: has(FilesystemEventType.RENAME, "sub/new"))
    shared.files.remove(f"{directory}/sub/other")
    until(lambda: has(FilesystemEventType.REMOVE, "sub/other"))
    watch.stop()
    watch_ = shared.files.watch_dir(directory, include_entry=True, allow_network_mounts=True)
    shared.files.write(f"{directory}/entry", "12345")
    event = until(lambda: next((each for each in watch_.get_new_events() if each.name == "entry"), None))
    assert (event.entry.size, event.entry.path.rpartition("/")[2]) == (5, "entry")
    watch_.stop()
    with pytest.raises(Exception, match="stopped"):
        watch.get_new_events()


def test_watched_by_a_stream(shared, directory, where):
    async def watch():
        sandbox = await AsyncSandbox.connect(shared.sandbox_id, **where)
        seen, ended = asyncio.Queue(), asyncio.Event()
        handle = await sandbox.files.watch_dir(directory, on_event=seen.put_nowait, on_exit=lambda error: ended.set())
        await sandbox.files.write(f"{directory}/new", "x")
        while (await asyncio.wait_for(seen.get(), 60)).name != "new":
            pass
        await handle.stop()
        assert ended.is_set()
        with pytest.raises(NotFoundException):
            await sandbox.files.watch_dir(f"{directory}/none", on_event=print)
        with pytest.raises(InvalidArgumentException, match="not a directory"):
            await sandbox.files.watch_dir(f"{directory}/new", on_event=print)

    asyncio.run(watch())


def fetched(url, data=None, **headers):
    """Status and body."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_signed_addresses(shared, directory):
    path = f"{directory}/signed é"
    form = b'--B\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\ncontents\r\n--B--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=B"}
    assert fetched(shared.upload_url(path), form, **kind)[0] == 200
    assert fetched(shared.download_url(path)) == (200, b"contents")
    assert fetched(shared.download_url(path, use_signature_expiration=60)) == (200, b"contents")
    assert fetched(shared.download_url(path, user="user")) == (200, b"contents")


def test_signatures_are_for_one_path_one_thing_and_one_time(shared, directory):
    shared.files.write(f"{directory}/f", "x")
    good = shared.download_url(f"{directory}/f")
    assert fetched(good.replace("%2Ff&", "%2Fg&"))[0] == 401
    assert fetched(good, b"data", **{"Content-Type": "application/octet-stream"})[0] == 401
    assert fetched(good[:-1] + ("A" if good[-1] != "A" else "B"))[0] == 401
    assert fetched(good + "&signature_expiration=99999999999")[0] == 401
    assert fetched(shared.download_url(f"{directory}/f", use_signature_expiration=-5))[0] == 401
    assert fetched(good + "&username=root")[0] == 401
    assert fetched(shared.download_url(f"{directory}/f", user="root"))[0] == 400


@pytest.mark.engine
def test_paths_are_of_the_sandbox_alone(shared, isolates):
    if not isolates:
        pytest.skip("the engine local does not isolate")
    assert "uid=0" not in shared.commands.run("id").stdout
    hostname = shared.files.read("../../../../etc/hostname") if shared.files.exists("/etc/hostname") else "sandbox"
    with open("/etc/hostname") as own:
        assert hostname.strip() != own.read().strip() or hostname.strip() == "sandbox"
    with pytest.raises(Exception, match="(?i)permission|read-only"):
        shared.files.write("/etc/passwd", "x")
