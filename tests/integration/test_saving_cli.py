"""`limpet save`, `limpet open --restore` and `limpet export`, on a real controller."""

import json
import os
import subprocess
import sys

import pytest

from .killed import supervisors, wait_for

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")


@pytest.fixture
def limpet(limpetd):
    def run(*words, status=0):
        """Standard output and error."""
        environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0", "LIMPET_PYTHON": sys.executable}
        done = subprocess.run([LIMPET, *words], capture_output=True, text=True, env=environment, timeout=100)
        assert done.returncode == status, done.stderr
        return done.stdout, done.stderr

    return run


def test_there_and_back(limpet, limpetd, session, name, client, tmp_path):
    path = str(tmp_path / "a.limpet")
    session.run("import threading; x, lock = 1, threading.Lock()").check()
    out, err = limpet("save", name, path)
    memory, fate = ("its memory, ", "saved in the memory alone") if limpetd.isolates else ("", "not saved")
    assert out.startswith(f"saved {name}: {memory}2 variables, /session")
    assert err.endswith(f"limpet: {fate}: lock: TypeError: cannot pickle '_thread.lock' object\n")
    out, err = limpet("open", "--restore", path, "--timeout", "7", "--env", "A=b=c", "--env", "D=", "--data", str(tmp_path), f"{name}-back")
    assert out.startswith(f"opened {name}-back (") and "limpet: not as it was saved: lock: " in err
    with client.attach(f"{name}-back") as back:
        assert back.options["timeout"] == 7 and back.options["env"] == {"A": "b=c", "D": ""} and back.options["data"] == str(tmp_path)
        out, err = limpet("run", "-s", back.name, "-c", "x")
        assert out == "1\n" and "not as it was saved: lock: " in err
        back.close()


def test_show(limpet, limpetd, session, name, tmp_path):
    path = str(tmp_path / "a.limpet")
    session.run("import threading; rows, lock = [1], threading.Lock(); open('f', 'w').write('123')").check()
    saved = session.save(path)
    out, _ = limpet("show", path)
    assert f"session   {name}, after call 1\n" in out and "files     1, 3 bytes\n" in out
    shown = {words[0]: words[1:] for line in out.splitlines() if (words := line.split())}
    assert shown["rows"][0] == "list" and shown["rows"][2] == "bytes"
    assert shown["lock"][:3] == ["lock", "not", "pickled:"]
    assert ("fits the kernel of this machine" in out) == bool(saved.memory) == limpetd.isolates
    with open(path, "r+b") as file:
        file.seek(5000)
        file.write(b"damage")
    assert "RestoreFailed" in limpet("show", path, status=125)[1]


def test_what_cannot_be_done(limpet, session, name, tmp_path):
    path = tmp_path / "a.limpet"
    assert "NoSuchSession" in limpet("save", f"{name}-other", str(path), status=125)[1]
    path.write_text("no archive")
    assert "RestoreFailed" in limpet("open", "--restore", str(path), f"{name}-back", status=125)[1]
    assert "No such file or directory" in limpet("open", "--restore", str(tmp_path / "none"), f"{name}-back", status=125)[1]
    limpet("save", name, status=2)


def test_export(limpet, session, name, tmp_path):
    session.run("6 * 7").check()
    out, _ = limpet("export", name, str(tmp_path / "out"))
    with open(out.strip()) as file:
        assert [cell["source"] for cell in json.load(file)["cells"]] == ["6 * 7"]


def test_an_idle_session(limpet, limpetd, client, name):
    limpet("open", "--ttl", "0.3", "--ttl-action", "save", name)
    try:
        limpet("run", "-s", name, "-c", "import socket; x, server = 41, socket.create_server(('127.0.0.1', 0))")
        wait_for(lambda: limpetd.sessions()[name].status == "saved")
        [row] = [row for row in json.loads(limpet("ls", "--json")[0])["sessions"] if row["session"] == name]
        assert (row["status"], row["container"], row["execution_count"]) == ("saved", None, 1)
        assert [line.split()[:3] for line in limpet("ls")[0].splitlines() if line.startswith(name)] == [[name, limpetd.engine, "saved"]]
        wait_for(lambda: not supervisors(os.path.join(limpetd.directory, "state", "sessions", name, "files")))
        out, err = limpet("run", "-s", name, "-c", "x + 1")
        assert out == "42\n" and "not as it was saved: the listening socket" in err
    finally:
        limpet("close", name)
