"""`limpet put` and `limpet get` of directories, on a real controller."""

import contextlib
import os
import stat
import subprocess

import pytest

from .test_files import BAD_NAME

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")


@pytest.fixture
def limpet(limpetd, session):
    def run(*words, status=0):
        """Standard error; `status` None: it may fail."""
        environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}
        done = subprocess.run([LIMPET, *words], capture_output=True, env=environment, timeout=60)
        assert status is None or done.returncode == status, done.stderr.decode(errors="replace")
        return done.stderr.decode(errors="replace")

    return run


def picture(top):
    """All of a directory: mode and contents by path."""
    found = {}
    for above, directories, files in os.walk(top):
        for each in directories + files:
            path = os.path.join(above, each)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                what = ("link", os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                what = ("directory",)
            else:
                with open(path, "rb") as file:
                    what = ("file", stat.S_IMODE(status.st_mode), file.read())
            found[os.path.relpath(path, top)] = what
    return found


@pytest.fixture
def tree(tmp_path):
    top = tmp_path / "tree"
    (top / "a" / "b").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "a" / "small").write_bytes(b"1")
    (top / "a" / "nothing").write_bytes(b"")
    (top / "a" / "b" / "large").write_bytes(os.urandom(3 << 20))
    (top / "a" / "script").write_bytes(b"#!/bin/sh\n")
    (top / "a" / "script").chmod(0o755)
    (top / "a" / BAD_NAME).write_bytes(b"any bytes")
    (top / "a" / "b" / "up").symlink_to("../small")
    (top / "dangling").symlink_to("a/none")
    for n in range(1100):  # more than one message
        (top / "empty" / str(n)).write_bytes(str(n).encode())
    return top


def test_there_and_back(limpet, session, name, tree, tmp_path):
    limpet("put", str(tree), f"{name}:")
    assert session.run("import os; open('tree/a/b/up').read(), os.access('tree/a/script', os.X_OK)").result == "('1', True)"
    limpet("get", f"{name}:tree", str(tmp_path / "new" / "copy"))
    assert picture(tmp_path / "new" / "copy") == picture(tree)
    (tmp_path / "into").mkdir()
    limpet("get", f"{name}:/session/tree/", str(tmp_path / "into"))
    assert picture(tmp_path / "into" / "tree") == picture(tree)


def test_merged(limpet, session, name, tree, tmp_path):
    session.files.write("there/a/small", b"old")
    session.files.write("there/mine", b"kept")
    limpet("put", str(tree) + "/", f"{name}:there")
    assert session.files.read("there/a/small") == b"1" and session.files.read("there/mine") == b"kept"
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "there").mkdir()
    (tmp_path / "kept" / "there" / "a").mkdir()
    (tmp_path / "kept" / "there" / "a" / "small").write_text("old")
    (tmp_path / "kept" / "there" / "other").write_text("kept")
    limpet("get", f"{name}:there", str(tmp_path / "kept"))
    assert (tmp_path / "kept" / "there" / "a" / "small").read_text() == "1"
    assert (tmp_path / "kept" / "there" / "other").read_text() == "kept"


def test_a_directory_that_may_not_be_written_to(limpet, session, name, tmp_path):
    top = tmp_path / "closed"
    (top / "inside").mkdir(parents=True)
    (top / "inside" / "file").write_text("text")
    (top / "inside").chmod(0o555)
    try:
        limpet("put", str(top), f"{name}:")
    finally:
        (top / "inside").chmod(0o755)
    seen = session.run("import os; oct(os.stat('closed/inside').st_mode & 0o777), open('closed/inside/file').read()")
    assert seen.result == "('0o555', 'text')"


@pytest.mark.parametrize("what", ["os.symlink('/etc/passwd', path)", "os.symlink('../../x', path)", "os.mkfifo(path)"])
def test_nothing_of_a_tree_that_leads_out(limpet, session, name, tmp_path, what):
    top = tmp_path / "bad"
    (top / "d").mkdir(parents=True)
    (top / "d" / "good").write_text("1")
    exec(what, {"os": os, "path": str(top / "d" / "out")})
    said = limpet("put", str(top), f"{name}:", status=125)
    assert "d/out" in said and "nothing was copied" in said and not session.files.exists("bad")
    made = session.run(f"import os; os.makedirs('worse/d'); open('worse/good', 'w').close()\npath = 'worse/d/out'\n{what}")
    if made.error:
        pytest.skip(f"code may not: {made.error.name}")
    said = limpet("get", f"{name}:worse", str(tmp_path / "worse"), status=125)
    assert "d/out" in said and "nothing was copied" in said and not (tmp_path / "worse").exists()


@pytest.mark.parametrize("through", ["d/up/../secret", "d/up/./..//secret", "missing/../secret", "d/up/d/../../secret", "f/../x"])
def test_nothing_of_a_tree_that_leads_out_through_another_link(limpet, session, name, tmp_path, through):
    top = tmp_path / "bad"
    (top / "d").mkdir(parents=True)
    (top / "f").write_text("")
    (top / "d" / "up").symlink_to("..")
    (top / "out").symlink_to(through)
    said = limpet("put", str(top), f"{name}:", status=125)
    assert " out" in said and "nothing was copied" in said and not session.files.exists("bad")
    session.run(f"import os; os.makedirs('w/d'); os.symlink('..', 'w/d/up'); os.symlink({through!r}, 'w/out'); open('w/f', 'w')")
    said = limpet("get", f"{name}:w", str(tmp_path / "w"), status=125)
    assert " out" in said and "nothing was copied" in said and not (tmp_path / "w").exists()


def test_links_that_go_back_over_directories(limpet, session, name, tmp_path):
    top = tmp_path / "good"
    (top / "a" / "b").mkdir(parents=True)
    (top / "f").write_text("found")
    (top / "a" / "b" / "one").symlink_to("../../a/b/../../f")
    (top / "two").symlink_to("a/b/one")
    limpet("put", str(top), f"{name}:")
    limpet("get", f"{name}:good", str(tmp_path / "back"))
    assert (tmp_path / "back" / "two").read_text() == "found"


def test_no_link_is_followed_where_it_lands(limpet, session, name, tmp_path):
    session.files.write("t/d/file", b"from the session")
    session.files.write("t/link", b"from the session")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("mine")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "link").symlink_to(outside / "victim")
    limpet("get", f"{name}:t", str(tmp_path))
    assert (tmp_path / "t" / "link").read_text() == "from the session" and not (tmp_path / "t" / "link").is_symlink()
    (tmp_path / "t" / "d" / "file").unlink()
    (tmp_path / "t" / "d").rmdir()
    (tmp_path / "t" / "d").symlink_to(outside)
    assert "cannot write" in limpet("get", f"{name}:t", str(tmp_path), status=125)
    assert os.listdir(outside) == ["victim"] and (outside / "victim").read_text() == "mine"


def test_while_code_changes_the_tree(limpet, session, name, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    session.run(f"""
import os, threading, time
os.makedirs('race/d')
open('race/d/file', 'w').write('inside')
running = True
def swap():
    while running:
        os.rename('race/d', 'race/away'); os.symlink({str(tmp_path)!r}, 'race/d')
        os.unlink('race/d'); os.rename('race/away', 'race/d')
swapper = threading.Thread(target=swap); swapper.start()
""")
    for n in range(20):
        target = tmp_path / f"copy{n}"
        limpet("get", f"{name}:race", str(target), status=None)
        assert all("of the host" not in str(row) for row in picture(target).values())
    session.run("running = False; swapper.join()")
    limpet("get", f"{name}:race", str(tmp_path / "rest"))
    assert (tmp_path / "rest" / "d" / "file").read_text() == "inside"


def test_what_fails(limpet, session, name, tmp_path):
    assert "NoSuchFile" in limpet("get", f"{name}:none", str(tmp_path / "x"), status=125)
    session.files.write("file", b"")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_text("1")
    assert "FileFailed" in limpet("put", str(tmp_path / "d"), f"{name}:file", status=125)
    assert "cannot write" in limpet("get", f"{name}:.", str(tmp_path / "d" / "x" / "y"), status=125)


def test_progress_is_shown_on_a_terminal(limpetd, session, name, tree):
    above, terminal = os.openpty()
    environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}
    subprocess.run([LIMPET, "put", str(tree), f"{name}:shown"], stderr=terminal, env=environment, check=True, timeout=60)
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # nobody has the terminal any more, and all of it was read
        while True:
            shown += os.read(above, 4096)
    os.close(above)
    assert b"100 % of 3" in shown and shown.endswith(b"\r\x1b[K")
