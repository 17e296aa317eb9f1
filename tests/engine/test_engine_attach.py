"""A container that runs already gets its data directory, and nothing more."""

import contextlib
import http.server
import json
import os
import pathlib
import shutil
import socketserver
import subprocess
import threading

import pytest

from tests.support.needs import need

from .conftest import Host, Lines, leftovers, needs_root

REFUSALS = {"EROFS", "EPERM"}


@contextlib.contextmanager
def attaching(host, data, mode="life", **options):
    arguments = host.arguments(mode, data="", attach=data, **options)
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(process, key):
    for line in process.stdout:
        name, _, value = line.rstrip("\n").partition(" ")
        if name == key:
            return value
    pytest.fail(f"it ended without {key}")


def attach_and_look(host, data, between=lambda: None, mode="life"):
    """What the guest sees of it, and does to it, after `between`."""
    with attaching(host, data, mode) as process:
        assert until(process, "attached") == "ok"
        between()
        (host.home / "session" / "look").touch()
        said = Lines(process.stdout.read())
        assert process.wait() == 0
    assert said["attached"] == ["ok"] and said["removed"] == ["0"] and not said["error"]
    return Lines((host.home / "session" / "data.txt").read_text())


def described(lines, point):
    """What a mount shows, its options and how it propagates."""
    [fields] = [line.split() for line in lines["mount"] if line.split()[4] == point]
    return fields[3], set(fields[5].split(",")), fields[6:fields.index("-")]


@pytest.fixture
def looking(host):
    host.mode("look")
    return host


@pytest.mark.proves("engine: attach_data")
def test_files_are_seen_and_cannot_be_changed(looking):
    data = looking.home / "data"
    (data / "file").write_text("something\n")
    before = (data / "file").stat(), data.stat()
    seen = attach_and_look(looking, data)
    assert set(seen["data"]) == {"file", "sub"} and seen["text"] == ["something"]
    assert seen.table("write") == {"/data": ["EROFS"], "/data/sub": ["EROFS"]}
    changes = {name: answer[0] for name, answer in seen.table("change").items()}
    assert len(changes) == 18 and set(changes.values()) <= REFUSALS, changes
    after = (data / "file").stat(), data.stat()
    assert [(s.st_mode, s.st_uid, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in before] == \
        [(s.st_mode, s.st_uid, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in after]


@pytest.mark.proves("engine: attach_data")
def test_mounted_as_a_spec_has_it(looking):
    looking.probe("life")
    root, options, propagation = described(looking.report(), "/data")
    (looking.home / "session" / "report.txt").unlink()
    seen = described(attach_and_look(looking, looking.home / "data"), "/data")
    assert seen == (root, options | {"nosuid", "nodev"}, propagation)
    assert looking.engine == "docker" or {"nosuid", "nodev"} <= options


def test_what_is_mounted_below_is_as_a_spec_has_it(looking, submount):
    looking.probe("life")
    there = looking.report()["datasub"]
    (looking.home / "session" / "report.txt").unlink()
    seen = attach_and_look(looking, looking.home / "data")
    assert seen["datasub"] == there and seen.table("write")["/data/sub"] == ["EROFS"]
    if there:
        assert described(seen, "/data/sub")[1] >= {"ro", "nosuid", "nodev"}
    assert [path.name for path in submount.iterdir()] == ["inside"]


def test_later_mounts_do_not_show_and_nothing_is_left_on_the_host(looking):
    data = looking.home / "shared"
    (data / "sub").mkdir(parents=True)
    subprocess.run(["mount", "--bind", data, data], check=True)
    subprocess.run(["mount", "--make-shared", data], check=True)

    def mount():
        subprocess.run(["mount", "-t", "tmpfs", "none", data / "sub"], check=True)
        (data / "sub" / "late").touch()

    try:
        seen = attach_and_look(looking, data, mount)
        assert seen["data"] == ["sub"] and seen["datasub"] == []
        points = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        assert [point for point in points if point.startswith(str(looking.home))] == \
            [str(data), str(data / "sub")]
    finally:
        subprocess.run(["umount", data / "sub"], check=True)
        subprocess.run(["umount", data], check=True)
    shutil.rmtree(data)


def test_container_that_has_ended(host):
    host.mode("exit")
    said = host.probe("life", expect="gone", data="", attach=host.home / "data")
    assert said["failed"] or said["attached"] in (["ESRCH"], ["EOPNOTSUPP"])
    assert said["removed"] == ["0"]


def test_directory_that_cannot_be_had(host):
    said = host.probe("life", data="", attach=host.home / "data" / "file")
    assert said["attached"] == ["ENOTDIR"] and said["removed"] == ["0"]
    assert said["problem"][0].startswith("EngineError cannot mount the data directory")


def test_adopted_container(looking):
    looking.probe("leave", data="")
    seen = attach_and_look(looking, looking.home / "data", mode="adopt")
    assert set(seen["data"]) == {"file", "sub"} and seen.table("write")["/data"] == ["EROFS"]


@needs_root
def test_link_in_place_of_the_directory(image, tmp_path):
    """A link at /data leads nowhere, or such a container does not stay."""
    need("runc", "oci")
    state = tmp_path / "state"
    shutil.copytree(image, state, symlinks=True)
    rootfs = state / "images" / "tiny" / "rootfs"
    (rootfs / "data").rmdir()
    (rootfs / "data").symlink_to("session")
    host = Host("oci", state, tmp_path, {"oci": "runc"})
    said = host.probe("life", data="", attach=host.home / "data")
    assert "ok" not in said["attached"]
    assert leftovers(tmp_path) == ([], [], [])


class Daemon(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Says that a container's first process is one of ours."""

    daemon_threads = True
    pid = 0


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, value):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Api-Version", "1.44")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "socket"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        if self.path.endswith("/containers/json") or "all=true" in self.path:
            self.answer(200, [])
        elif self.path.endswith("/info"):
            self.answer(200, {"SecurityOptions": ["name=seccomp"], "MemoryLimit": True, "PidsLimit": True})
        else:
            self.answer(200, {"Id": "a" * 64, "State": {"Running": True, "Pid": self.server.pid}})

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "/create" in self.path:
            self.answer(201, {"Id": "a" * 64})
        elif "/start" in self.path:
            self.answer(204, None)
        else:
            self.server.ended.wait()

    def do_DELETE(self):
        self.answer(204, None)


def test_docker_pid_of_another_process(tmp_path):
    """Of another machine, or given away since: it is not mounted on."""
    other = subprocess.Popen(["sleep", "1000"])
    host = Host("docker", tmp_path, tmp_path, {"docker": tmp_path / "docker.sock"})
    with Daemon(str(tmp_path / "docker.sock"), Answers) as daemon:
        daemon.pid, daemon.ended = other.pid, threading.Event()
        threading.Thread(target=daemon.serve_forever, args=(0.01,), daemon=True).start()
        try:
            with attaching(host, host.home / "data") as process:
                assert int(until(process, "started")) == other.pid
                (host.home / "session" / "part").touch()
                os.rename(host.home / "session" / "part", host.home / "session" / "report.txt")
                assert until(process, "attached") == "EOPNOTSUPP"
                assert "first process is not on this host" in until(process, "problem")
                assert until(process, "removed") == "0"
            assert str(host.home) not in pathlib.Path(f"/proc/{other.pid}/mountinfo").read_text()
        finally:
            daemon.ended.set()
            daemon.shutdown()
            other.kill()
            other.wait()
    for directory in "session", "scratch":
        assert str(host.home / directory) not in pathlib.Path("/proc/mounts").read_text()


@needs_root
@pytest.mark.skipif(not shutil.which("runsc"), reason="needs runsc")
def test_container_with_a_kernel_of_its_own(image, tmp_path):
    host = Host("oci", image, tmp_path, {"oci": "runsc"})
    said = host.probe("life", data="", attach=host.home / "data")
    assert said["attached"] == ["EOPNOTSUPP"] and said["removed"] == ["0"]
    assert leftovers(tmp_path) == ([], [], [])


@pytest.mark.proves("engine: attach_data")
def test_local_has_no_data(local):
    said = local.probe("life", attach=local.home / "data")
    assert said["attached"] == ["EOPNOTSUPP"] and said["removed"] == ["0"]
