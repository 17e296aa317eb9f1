"""`limpet files`, on a real controller."""

import json
import os
import subprocess
import time

import pytest

from .test_files import BAD_NAME

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")


@pytest.fixture
def files(limpetd, name, session):
    def run(*words, given=b"", status=0):
        """Standard output; of a command that fails, standard error."""
        environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}
        done = subprocess.run([LIMPET, "files", *words], input=given, capture_output=True, env=environment, timeout=60)
        assert done.returncode == status, done.stderr.decode()
        return done.stdout if status == 0 else done.stderr.decode()

    return run


def test_every_verb(files, session, name):
    begun = time.time()
    files("mkdir", f"{name}:a/b")
    files("write", "--mode", "600", f"{name}:a/b/f", given=b"text")
    assert files("read", f"{name}:/session/a/b/f") == b"text"
    (entry,) = json.loads(files("stat", "--json", f"{name}:a/b/f"))["entries"]
    assert (entry["path"], entry["type"], entry["size"], entry["mode"]) == ("/session/a/b/f", "file", 4, 0o600)
    assert entry["modified"] >= begun - 5  # clocks of file systems are coarse
    files("mv", f"{name}:a/b/f", "a/h")
    files("mv", f"{name}:a/h", f"{name}:a/g")
    listed = json.loads(files("ls", "-d", "2", "--json", f"{name}:a"))["entries"]
    assert [entry["path"] for entry in listed] == ["/session/a/b", "/session/a/g"]
    assert files("ls", f"{name}:a").decode().splitlines()[2].split()[0] == "-rw-------"
    files("rm", "-r", f"{name}:a")
    assert not session.files.exists("a")


def test_large_and_sparse(files, session, name, tmp_path):
    data = os.urandom(3 << 20)
    files("write", f"{name}:big", given=data)
    assert files("read", f"{name}:big") == data
    session.run("f = open('holes', 'wb'); f.truncate(256 << 20); f.close()")
    with open(tmp_path / "holes", "wb") as to:
        environment = os.environ | {"LIMPET_SOCKET": session._client._endpoint.path, "LIMPET_AUTOSTART": "0"}
        subprocess.run([LIMPET, "files", "read", f"{name}:holes"], stdout=to, env=environment, check=True, timeout=60)
    assert os.stat(tmp_path / "holes").st_size == 256 << 20
    assert os.stat(tmp_path / "holes").st_blocks * 512 < 1 << 20


@pytest.mark.proves("security: hostile output in a notebook or a terminal")
def test_a_name_tells_the_terminal_nothing(files, session, name):
    session.files.write(f"n/{BAD_NAME}\x1b[2J", b"")
    assert b"\x1b" not in files("ls", f"{name}:n") and len(files("ls", f"{name}:n").splitlines()) == 2


@pytest.mark.parametrize(
    "words, status, message",
    [
        (("read", "{}:none"), 125, "FileFailed: 'none': No such file or directory"),
        (("rm", "{}:full"), 125, "Directory not empty"),
        (("turn", "{}:x"), 2, "files has no 'turn'"),
        (("mv", "{}:x"), 2, "takes"),
        (("rm", "{}:x", "y"), 2, "takes"),
        (("write", "--mode", "9", "{}:x"), 2, "octal"),
        (("read", "x"), 2, "SESSION:"),
    ],
)
def test_failures(files, session, name, words, status, message):
    session.files.write("full/x", b"")
    assert message in files(*(word.format(name) for word in words), status=status)


def test_watch(files, limpetd, session, name):
    session.files.mkdir("w")
    environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}
    watching = subprocess.Popen([LIMPET, "files", "watch", f"{name}:w"], stdout=subprocess.PIPE, env=environment, text=True)
    try:
        session.run("import itertools, os, threading, time\n"
                    "def make():\n"
                    "    for i in itertools.count():\n"
                    "        if os.path.exists('seen'): return\n"
                    "        open(f'w/{i}', 'w').close(); time.sleep(.02)\n"
                    "threading.Thread(target=make).start()")  # fmt: skip
        kind, path = watching.stdout.readline().split()
        assert kind == "created" and path.startswith("/session/w/")
    finally:
        session.files.write("seen", b"")
        watching.kill()
        watching.communicate()
