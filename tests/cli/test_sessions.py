"""The commands about sessions and their files."""

import json
import os
import stat

import pytest

from .fake_controller import FakeController


def test_open(limpet):
    with FakeController(limpet.socket) as controller:
        result = limpet("open", "-t", "5", "--ttl", "60", "--checkpoint", "always", "a")
        body = controller.wait("open").body
    assert (result.returncode, result.out) == (0, "opened a (local)\n")
    assert body["timeout"] == 5 and body["ttl"] == 60 and body["checkpoint"] == "always"


SESSIONS = {
    "controller": {"pid": 7, "version": "0.1.0", "socket": "/run/limpet/limpet.sock", "engine": "oci"},
    "sessions": [
        {"session": "a", "engine": "oci", "container": "limpet-a", "status": "idle", "created": 1.5, "idle": 75.2,
         "execution_count": 3, "epoch": 1, "memory": 50 << 20},
        {"session": "b", "engine": "oci", "container": None, "status": "starting", "created": 2, "idle": 7300,
         "execution_count": 0, "epoch": 1, "memory": 0},
        {"session": "b/a-branch-with-a-long-name", "engine": "oci", "container": None, "status": "idle", "created": 2,
         "idle": 0, "execution_count": 12345678, "epoch": 1, "memory": 1 << 40},
    ],
}


def test_ls(limpet):
    with FakeController(limpet.socket, sessions=lambda request: request.reply(**SESSIONS)):
        table = limpet("ls")
        text = limpet("ls", "--json")
    assert [line.split() for line in table.out.splitlines()] == [
        ["SESSION", "ENGINE", "STATUS", "RUNS", "EPOCH", "MEMORY", "IDLE"],
        ["a", "oci", "idle", "3", "1", "50.0M", "1m15s"],
        ["b", "oci", "starting", "0", "1", "0B", "2h01m"],
        ["b/a-branch-with-a-long-name", "oci", "idle", "12345678", "1", "1.0T", "0s"],
    ]
    assert len({len(line) for line in table.out.splitlines()}) == 1
    assert json.loads(text.out) == SESSIONS


def test_close_goes_on_after_a_failure(limpet):
    def close(request):
        if request.body["session"] == "x":
            request.fail(1101, "NoSuchSession", "no session named 'x' is open; open it first")
        else:
            request.reply()

    with FakeController(limpet.socket, close=close) as controller:
        result = limpet("close", "x", "b")
        assert controller.bodies("close") == [{"session": "x"}, {"session": "b"}]
    assert result.returncode == 125
    assert result.err == "limpet: NoSuchSession: no session named 'x' is open; open it first\n"


def test_reset_and_interrupt(limpet):
    with FakeController(limpet.socket, reset=lambda request: request.reply(epoch=2),
                        interrupt=lambda request: request.reply(interrupted=request.body["session"] == "a")):
        assert limpet("reset", "a").out == "epoch 2\n"
        assert limpet("interrupt", "a").out == "interrupted\n"
        assert limpet("interrupt", "b").out == "nothing was running\n"


def test_shutdown(limpet):
    def shutdown(request):
        request.reply()
        request.controller.vanish()

    for options, body in ([], {}), (["--keep"], {"keep": True}):
        with FakeController(limpet.socket, shutdown=shutdown) as controller:
            assert limpet("shutdown", *options).returncode == 0
            assert controller.wait("shutdown").body == body


def test_shutdown_without_a_controller_is_no_failure_and_starts_none(limpet):
    result = limpet("shutdown", environment={"LIMPET_AUTOSTART": "1", "LIMPETD": "/bin/false"})
    assert result.returncode == 0
    assert result.err == f"limpet: Unavailable: no controller listens at {limpet.socket}\n"


class Files:
    """put and get as the controller does them."""

    def __init__(self):
        self.parts, self.files = {}, {}

    def put(self, request):
        body = request.body
        before = b"" if body["offset"] == 0 else self.parts[body["path"]]
        assert len(before) == body["offset"] and len(body["data"]) <= 1 << 20
        self.parts[body["path"]] = before + body["data"]
        if body["last"]:
            self.files[body["path"]] = self.parts.pop(body["path"])
        request.reply(size=len(before) + len(body["data"]))

    def get(self, request):
        body = request.body
        if body["path"] not in self.files:
            request.fail(1107, "NoSuchFile", f"no regular file at '{body['path']}'")
            return
        content = self.files[body["path"]]
        request.reply(data=content[body["offset"]:][:body["size"]], size=len(content))

    def ask(self, request):
        """Whether it is a directory: none is here."""
        path = request.body["ask"]["stat"]["path"]
        request.reply(entry={"path": b"/session/" + path, "type": "file"})


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (5 << 20) // 2])
def test_put_and_get(limpet, size):
    files, content = Files(), os.urandom(size)
    (limpet.directory / "local").write_bytes(content)
    with FakeController(limpet.socket, put=files.put, get=files.get, files=files.ask):
        assert limpet("put", "local", "a:d/remote").returncode == 0
        assert files.files == {"d/remote": content}
        assert limpet("get", "a:d/remote", "back").returncode == 0
        assert (limpet.directory / "back").read_bytes() == content
        process = limpet.start("get", "a:d/remote", "-")
        assert process.communicate(timeout=60)[0] == content


def test_put_keeps_the_name_and_reads_standard_input(limpet):
    files = Files()
    (limpet.directory / "d").mkdir()
    (limpet.directory / "d/local").write_bytes(b"x")
    with FakeController(limpet.socket, put=files.put):
        assert limpet("put", "d/local", "a:").returncode == 0
        assert limpet("put", "d/local", "a:e/").returncode == 0
        assert limpet("put", "-", "a:/session/in", input=b"piped").returncode == 0
    assert files.files == {"local": b"x", "e/local": b"x", "/session/in": b"piped"}


def test_get_into_a_directory_with_the_mode_of_a_new_file(limpet):
    files = Files()
    files.files = {"d/remote": b"x"}
    (limpet.directory / "here").mkdir()
    with FakeController(limpet.socket, get=files.get, files=files.ask):
        assert limpet("get", "a:d/remote", "here", umask=0o027).returncode == 0
    assert [path.name for path in (limpet.directory / "here").iterdir()] == ["remote"]
    assert stat.S_IMODE((limpet.directory / "here/remote").stat().st_mode) == 0o640


def test_get_that_fails_keeps_what_is_there(limpet):
    (limpet.directory / "local").write_bytes(b"precious")
    with FakeController(limpet.socket, get=Files().get, files=Files().ask):
        result = limpet("get", "a:missing", "local")
        assert limpet("get", "a:missing", "/dev/null").returncode == 125
    assert result.returncode == 125
    assert result.err == "limpet: NoSuchFile: no regular file at 'missing'\n"
    assert {path.name: path.read_bytes() for path in limpet.directory.iterdir() if path.is_file()} == {
        "local": b"precious"}
