"""Files of a session: read, written, listed, moved, removed and watched, beside whatever its code does."""

import errno
import io
import os
import stat
import threading

import limpet
import pytest

pytestmark = pytest.mark.engine

BAD_NAME = "line\nbreak-\udcff"


def test_there_and_back(session):
    files = session.files
    files.write("a/b/text", "héllo", mode=0o600)
    assert files.read("a/b/text") == files.read("/session/a/b/text") == "héllo".encode()
    entry = files.stat("a/b/text")
    assert (entry.name, entry.path, entry.type, entry.size, entry.mode) == ("text", "/session/a/b/text", "file", 6, 0o600)
    assert session.run("open('a/b/text').read()").result == repr("héllo")
    files.write("a/b/text", b"")
    assert files.read("a/b/text") == b""


def test_code_may_change_what_was_written(session):
    session.files.write("mine", b"1")
    assert session.run("open('mine', 'a').write('2')").status == "ok"
    assert session.files.read("mine") == b"12"


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 20])
def test_sizes(session, size):
    data = os.urandom(1 << 16) * (size // (1 << 16) + 1)
    seen = []
    session.files.write("big", io.BytesIO(data[:size]), on_progress=lambda done, _: seen.append(done))
    assert session.files.read("big") == data[:size]
    assert seen == sorted(seen)
    to = io.BytesIO()
    session.files.read("big", to, on_progress=lambda done, whole: seen.append((done, whole)))
    assert to.getvalue() == data[:size]
    assert seen[-1] == (size, size)


def test_names_of_any_bytes(session):
    session.files.write(f"dir/{BAD_NAME}", b"x")
    (entry,) = session.files.list("dir")
    assert entry.name == BAD_NAME
    assert session.files.read(entry.path) == b"x"
    session.put(b"y", entry.path)
    assert session.get(entry.path) == b"y"
    session.files.move(entry.path, "plain")
    assert session.files.read("plain") == b"y"


def test_lists(session):
    for path in ("l/one", "l/deep/two", "l/deep/deeper/three"):
        session.files.write(path, b"")
    os_link = "import os; os.symlink('one', 'l/link'); os.symlink('.', 'l/loop')"
    assert session.run(os_link).status == "ok"

    def names(depth):
        return [entry.path.removeprefix("/session/l/") for entry in session.files.list("l", depth)]

    assert names(1) == ["deep", "link", "loop", "one"]
    assert names(2) == ["deep", "deep/deeper", "deep/two", "link", "loop", "one"]
    assert names(128)[1:3] == ["deep/deeper", "deep/deeper/three"]
    kinds = {entry.name: (entry.type, entry.target) for entry in session.files.list("l")}
    assert kinds == {
        "deep": ("directory", None), "link": ("symlink", "one"), "loop": ("symlink", "."), "one": ("file", None),
    }  # fmt: skip
    assert [entry.path for entry in session.files.list("/")].count("/session") == (session.engine != "local")


def test_a_large_directory_is_listed_whole(session):
    assert session.run("import os; os.mkdir('many'); [os.close(os.open(f'many/{i}', 64)) for i in range(5003)]", 60).status == "ok"
    entries = session.files.list("many")
    assert {entry.name for entry in entries} == {str(i) for i in range(5003)}
    session.files.remove("many", recursive=True)
    assert not session.files.exists("many")


@pytest.mark.parametrize(
    "what, kind, number",
    [
        (lambda files: files.read("none"), FileNotFoundError, errno.ENOENT),
        (lambda files: files.read(""), FileNotFoundError, errno.ENOENT),
        (lambda files: files.stat("none"), FileNotFoundError, errno.ENOENT),
        (lambda files: files.read("."), IsADirectoryError, errno.EISDIR),
        (lambda files: files.write("d", b""), IsADirectoryError, errno.EISDIR),
        (lambda files: files.write("new/f", b"", parents=False), FileNotFoundError, errno.ENOENT),
        (lambda files: files.list("f"), NotADirectoryError, errno.ENOTDIR),
        (lambda files: files.list("f/x"), NotADirectoryError, errno.ENOTDIR),
        (lambda files: files.mkdir("f"), FileExistsError, errno.EEXIST),
        (lambda files: files.mkdir("d", parents=False), FileExistsError, errno.EEXIST),
        (lambda files: files.move("none", "x"), FileNotFoundError, errno.ENOENT),
        (lambda files: files.remove("none"), FileNotFoundError, errno.ENOENT),
        (lambda files: files.remove("none", recursive=True), FileNotFoundError, errno.ENOENT),
        (lambda files: files.remove("full"), OSError, errno.ENOTEMPTY),
        (lambda files: files.read("x\0y"), OSError, errno.EINVAL),
        (lambda files: files.read("x" * 300), OSError, errno.ENAMETOOLONG),
        (lambda files: files.watch("f"), NotADirectoryError, errno.ENOTDIR),
    ],
)
def test_failures(session, what, kind, number):
    session.files.mkdir("d")
    session.files.write("f", b"")
    session.files.write("full/x", b"")
    with pytest.raises(limpet.FileFailed) as raised:
        what(session.files)
    error = raised.value
    assert isinstance(error, kind) and isinstance(error, OSError)
    assert (error.errno, error.name, error.number) == (number, "FileFailed", 1120)
    assert os.strerror(number) in str(error)


def test_the_sandbox_user_decides(session):
    if session.engine == "local":
        pytest.skip("code has the rights of the user who runs the controller")
    for place in ("/tmp", "/home/user", "/dev/shm"):
        session.files.write(f"{place}/f", b"x")
        assert session.run(f"open('{place}/f').read()").result == "'x'"
    for place in ("/etc", "/usr", "/run/limpet", "/"):
        with pytest.raises(OSError) as raised:
            session.files.write(f"{place}/f", b"x")
        assert raised.value.errno in (errno.EACCES, errno.EROFS, errno.EPERM)
    with pytest.raises(PermissionError):
        session.files.read("/run/limpet/secret")
    assert session.files.read("/proc/self/status").count(b"CapEff:\t0000000000000000") == 1


def test_beside_a_running_cell_and_without_an_interpreter(session):
    session.files.write("go", b"")
    waiting = threading.Thread(target=session.run, args=("import os, time\nwhile os.path.exists('go'): time.sleep(.01)",))
    waiting.start()
    session.files.write("beside", b"x")
    assert session.files.read("beside") == b"x"
    session.files.remove("go")
    waiting.join()
    session.run("import os; os._exit(1)")
    assert session.files.read("beside") == b"x"


SPECIAL = """
import os, socket
def make(name, function):
    try:
        function(name)
    except OSError:
        pass
make('fifo', os.mkfifo)
sock = socket.socket(socket.AF_UNIX); sock.bind('sock')
os.symlink('loop', 'loop')
"""


def test_special_files_hold_up_nobody(session):
    assert session.run(SPECIAL).status == "ok"
    for path in ("fifo", "sock", "loop", "/dev/zero", "/dev/null", "/proc/kmsg"):
        with pytest.raises(OSError):
            session.files.read(path)
    assert {e.name: e.type for e in session.files.list()}["sock"] == "other"


def test_very_deep_trees(session):
    code = "import os\nfor i in range(3000):\n    os.mkdir('d'); os.chdir('d')\nos.chdir('/session' if os.path.exists('/session') else '/')"
    assert session.run(code, 60).status == "ok"
    assert max(entry.path.count("/d") for entry in session.files.list(".", 128)) == 128
    with pytest.raises(limpet.TooLarge):
        session.files.list("/".join("d" * 2500))
    session.files.remove("d", recursive=True)
    assert not session.files.exists("d")


def test_a_removed_tree_may_be_unreadable(session):
    session.run("import os; os.makedirs('r/s'); open('r/s/f', 'w'); os.chmod('r/s', 0); os.chmod('r', 0)")
    session.files.remove("r", recursive=True)
    assert not session.files.exists("r")


@pytest.mark.engine
def test_a_directory_that_has_to_stay_keeps_what_is_in_it(session):
    if session.run("import os; os.access('/', os.W_OK)").result == "True" or not session.run("os.path.exists('/session')").result == "True":
        pytest.skip("code may remove all directories")
    session.files.write("keep/f", b"x")
    session.files.write("artifacts/f", b"x")
    for path in "/session", "/session/artifacts":
        with pytest.raises(PermissionError):
            session.files.remove(path, recursive=True)
    assert session.files.exists("keep/f") and session.files.exists("artifacts/f")


def test_a_link_is_removed_and_not_followed(session):
    session.run("import os; os.makedirs('keep'); open('keep/f', 'w'); os.symlink('keep', 'link')")
    session.files.remove("link", recursive=True)
    assert session.files.exists("keep/f") and not session.files.exists("link")


def test_modes(session):
    session.files.write("script", b"#!", mode=0o755)
    assert session.files.stat("script").mode == stat.S_IMODE(0o755)
    session.files.write("script", b"#!")
    assert session.files.stat("script").mode == 0o644


def test_a_full_disk_is_told(session):
    if session.engine == "local":
        pytest.skip("nothing bounds what it writes")
    with session._client.open("full-disk", disk="4m") as small:
        with pytest.raises(OSError) as raised:
            small.files.write("big", bytes(16 << 20))
        assert raised.value.errno in (errno.ENOSPC, errno.EDQUOT)
        assert not small.files.exists("big")
        small.files.write("small", b"x")
        assert small.files.read("small") == b"x"


KILL = """
import os, signal
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        command = open(f'/proc/{pid}/cmdline', 'rb').read().split(b'\\0')
    except OSError:
        continue
    if command[1:2] == [b'files'] and b'limpet-guest' in command[0]:
        os.kill(int(pid), signal.SIGNAL)
"""


def test_a_killed_process_is_replaced(session):
    if session.engine == "local":
        pytest.skip("the cell would see those of other sessions")
    session.files.write("f", b"x")
    for _ in range(3):
        assert session.run(KILL.replace("SIGNAL", "SIGKILL")).status == "ok"
        try:
            assert session.files.read("f") == b"x"
        except limpet.FileFailed as error:
            assert error.errno == errno.EIO
        assert session.files.read("f") == b"x"


def test_holes_stay_holes(session):
    class Sparse(io.RawIOBase):
        pass

    session.run("f = open('sparse', 'wb'); f.truncate(1 << 30); f.seek(512 << 20); f.write(b'middle'); f.close()")
    calls = []
    path = f"/tmp/limpet-sparse-{os.getpid()}"
    try:
        with open(path, "w+b") as to:
            session.files.read("sparse", to, on_progress=lambda done, whole: calls.append(done))
            assert os.fstat(to.fileno()).st_blocks * 512 < 64 << 20
            to.seek(512 << 20)
            assert to.read(6) == b"middle"
            assert os.fstat(to.fileno()).st_size == 1 << 30
        assert len(calls) < 10
    finally:
        os.unlink(path)


def test_events(session):
    files = session.files
    files.mkdir("w/in")
    with files.watch("w", recursive=True) as watch:
        session.run("open('w/a', 'w').write('1')")
        assert next(watch) == limpet.Event("created", "/session/w/a")
        assert next(watch) == limpet.Event("modified", "/session/w/a")
        files.write("w/in/b", b"x")
        while (event := next(watch)).path != "/session/w/in/b":
            assert event.path == "/session/w/a"
        assert event.kind == "created"
        files.mkdir("w/new/deep")
        files.write("w/new/deep/c", b"")
        while next(watch) != limpet.Event("created", "/session/w/new/deep/c"):
            pass
        files.move("w/a", "w/z")
        seen = [next(watch), next(watch)]
        while limpet.Event("created", "/session/w/z") not in seen:
            seen.append(next(watch))
        assert limpet.Event("moved", "/session/w/a") in seen
        files.remove("w/z")
        while next(watch) != limpet.Event("removed", "/session/w/z"):
            pass
    assert list(watch) == []


def test_a_flood_of_events_is_told(session):
    session.files.mkdir("flood")
    watch = session.files.watch("flood")
    session.run("for i in range(3000): open(f'flood/{i}', 'w').close()", 60)
    with pytest.raises(limpet.FileFailed) as raised:
        for _ in range(10000):
            next(watch)
    assert raised.value.errno == errno.EOVERFLOW


def test_branches_share_the_files(session):
    session.files.write("shared", b"x")
    assert session.branch("b").files.read("shared") == b"x"


def test_closed(session):
    session.close()
    with pytest.raises(limpet.SessionClosed):
        session.files.read("f")


# ---- put and get of directories ----


@pytest.fixture
def tree(tmp_path):
    """A directory with a bit of everything."""
    top = tmp_path / "tree"
    (top / "deep/deeper").mkdir(parents=True)
    (top / "empty").mkdir()
    for i in range(300):
        (top / f"deep/{i}").write_bytes(b"x" * i)
    (top / "large").write_bytes(os.urandom(3 << 20))
    (top / "deep/deeper/run").write_bytes(b"#!")
    (top / "deep/deeper/run").chmod(0o755)
    (top / BAD_NAME).write_bytes(b"bad")
    (top / "link").symlink_to("deep/deeper")
    (top / "deep/up").symlink_to("../large")
    (top / "none").symlink_to("nowhere")
    return top


def told(top):
    """What is in a directory, by path."""
    found = {}
    for folder, directories, names in os.walk(top):
        for name in directories + names:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                found[os.path.relpath(path, top)] = os.readlink(path)
            elif os.path.isdir(path):
                found[os.path.relpath(path, top)] = None
            else:
                with open(path, "rb") as file:
                    found[os.path.relpath(path, top)] = (stat.S_IMODE(os.stat(path).st_mode), file.read())
    return found


@pytest.mark.parametrize("place", ["there", "/session/a/b", "/tmp/limpet-tree"])
def test_directories_there_and_back(session, tree, tmp_path, place):
    if session.engine == "local" and place.startswith("/tmp"):
        pytest.skip("that is this machine's own /tmp")
    for i in range(1000 if place == "there" else 0):  # more entries than a message has
        (tree / f"deep/empty-{i}").touch()
    seen = []
    session.put(tree, place, on_progress=lambda done, whole: seen.append((done, whole)))
    assert seen[-1][0] == seen[-1][1] > 3 << 20
    session.get(place, tmp_path / "back", on_progress=lambda done, whole: seen.append((done, whole)))
    assert seen[-1][0] == seen[-1][1]
    assert told(tmp_path / "back") == told(tree)


def test_directories_are_merged(session, tree, tmp_path):
    session.files.write("into/kept", b"kept")
    session.files.write("into/large", b"old")
    session.put(tree, "into")
    assert session.files.read("into/kept") == b"kept"
    assert session.files.stat("into/large").size == 3 << 20
    back = tmp_path / "back"
    (back / "deep").mkdir(parents=True)
    (back / "mine").write_text("kept")
    session.get("into", back)
    assert (back / "mine").read_text() == "kept" and (back / "deep/7").read_bytes() == b"x" * 7


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "../x", "in/../../x"])
def test_links_that_lead_out_are_refused_and_named(session, tmp_path, target):
    top = tmp_path / "t"
    (top / "in").mkdir(parents=True)
    (top / "bad").symlink_to(target)
    with pytest.raises(limpet.BadRequest, match="bad"):
        session.put(top, "t")
    assert not session.files.exists("t")
    session.run(f"import os; os.makedirs('h/in'); os.symlink({target!r}, 'h/bad'); open('h/f', 'w')")
    with pytest.raises(limpet.BadRequest, match="bad"):
        session.get("h", tmp_path / "h")
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize("through", ["in/up/../secret", "in/up/./.././secret", "missing/../secret", "f/../secret"])
def test_chains_of_links_that_lead_out_are_refused(session, tmp_path, through):
    """Each of them stays inside where the other is not looked at, or may be replaced later."""
    top = tmp_path / "t"
    (top / "in").mkdir(parents=True)
    (top / "f").write_text("")
    (top / "in/up").symlink_to("..")
    (top / "bad").symlink_to(through)
    with pytest.raises(limpet.BadRequest, match="bad"):
        session.put(top, "t")
    session.run(f"import os; os.makedirs('h/in'); os.symlink('..', 'h/in/up'); os.symlink({through!r}, 'h/bad'); open('h/f', 'w')")
    with pytest.raises(limpet.BadRequest, match="bad"):
        session.get("h", tmp_path / "h")
    assert not session.files.exists("t") and not (tmp_path / "h").exists()


def test_links_that_go_back_over_directories_are_copied(session, tmp_path):
    top = tmp_path / "t"
    (top / "a/b").mkdir(parents=True)
    (top / "f").write_text("found")
    (top / "a/b/one").symlink_to("../../a/b/../../f")
    (top / "two").symlink_to("a/b/one")
    session.put(top, "t")
    session.get("t", tmp_path / "back")
    assert told(tmp_path / "back") == told(top) and (tmp_path / "back/two").read_text() == "found"


def test_links_of_the_sandbox_do_not_lead_a_put_out(session, tmp_path):
    """A link is in the place of a directory that files go to."""
    (tmp_path / "t/in").mkdir(parents=True)
    (tmp_path / "t/in/f").write_text("x")
    session.run("import os; os.mkdir('out'); os.mkdir('t'); os.symlink('../out', 't/in')")
    with pytest.raises(limpet.FileFailed):
        session.put(tmp_path / "t", "t")
    assert session.files.list("out") == []


def test_local_links_do_not_lead_a_get_out(session, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "t").mkdir()
    (tmp_path / "t/in").symlink_to(tmp_path / "out")
    session.files.write("t/in/f", b"x")
    with pytest.raises(OSError):
        session.get("t", tmp_path / "t")
    assert list((tmp_path / "out").iterdir()) == []


def test_directories_that_change_meanwhile(session, tmp_path):
    """Code replaces directories by links and back while they are copied: nothing of what the links lead to comes."""
    if session.engine == "local":
        pytest.skip("the sandbox sees this machine's files")
    code = """
import os, threading
os.mkdir('race'); os.mkdir('race/d')
for i in range(50): open(f'race/d/{i}', 'w').write('mine')
def swap():
    while not os.path.exists('stop'):
        os.rename('race/d', 'race/e'); os.symlink('/etc', 'race/d')
        os.unlink('race/d'); os.rename('race/e', 'race/d')
threading.Thread(target=swap).start()
"""
    assert session.run(code).status == "ok"
    try:
        for i in range(30):
            try:
                session.get("race", tmp_path / str(i))
            except (OSError, limpet.BadRequest):
                pass
            for folder, _, names in os.walk(tmp_path / str(i)):
                for name in names:
                    with open(os.path.join(folder, name)) as file:
                        assert file.read() in ("mine", "")
    finally:
        session.files.write("stop", b"")
