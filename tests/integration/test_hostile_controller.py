"""Somebody has taken over the controller, with its rights and its sockets, and tries to get further: to files of the host, by itself
and through the files worker. Nothing gets through, and nothing falls over. (test_hostile_launcher.py: through the launcher.)
"""

import os
import socket
import stat
import struct
import time

import pytest

from tests.support.ipc import message, send

from .puppets import (
    JOB, MIB, PATIENCE, SECRET, adopt, get, make_session, opened_for, pending, pid_of, prepare, put, resident, still_works
)  # fmt: skip
from .puppets import puppets  # noqa: F401

pytestmark = [pytest.mark.engine, pytest.mark.once]

BIG = (1 << 64) - 2


# ---- its own rights


def test_what_it_may_open_itself(puppets):
    puppet = puppets.controller()
    make_session(puppet)
    puppet.done("PUT", **put("x"))
    worker = pid_of(puppets, "limpet-files")
    assert puppet.open("/proc/self/status") == 0
    for path in (
        "/etc/shadow", "/etc/passwd", "/root", "/", "/dev/sda", puppets.path("secret"), puppets.path("state"),
        puppets.path("state", "sessions"), puppets.files("mine", "x"), puppets.path("state", "images"), puppets.path("run"),
        f"/proc/{worker}/mem", f"/proc/{worker}/root/etc/shadow", f"/proc/{worker}/fd/3", f"/proc/{puppets.process.pid}/environ",
        f"/proc/{puppets.process.pid}/root/etc/shadow", "/proc/1/environ", "/proc/self/mem",
    ):  # fmt: skip
        assert puppet.open(path) != 0, path


# ---- the files worker


IDS = ["", ".", "..", "../x", "mine/../x", "mine/files", "/etc", ".hidden", "x\0y", "\0", "a" * 256, "a" * 5000]


def test_ids_lead_nowhere(puppets):
    puppet = puppets.controller()
    make_session(puppet)
    for name in IDS:
        for kind, body in (
            ("PREPARE", prepare("x")), ("ADOPT", adopt("x", "z")), ("REMOVE", {}), ("LEAVE", {}),
            ("GET", get("x")), ("PUT", put("x")), ("TAKE", {"budget": MIB}), ("RESTORE", {}), ("PUBLISH", {"work": False}), ("SYNC", {}),
        ):  # fmt: skip
            puppet.refused(kind, **(body | {"id": name}))
        puppet.refused("ADOPT", **adopt("new", name))
        puppet.refused("PREPARE", **prepare("new", **{"as": name}))
        puppet.refused("PREPARE", **prepare("new", template=name))
    puppet.done("PREPARE", **prepare("~spare"))
    for name in IDS:
        puppet.refused("CLAIM", id="~spare", reader=None, bytes=MIB, files=100, **{"as": name})
    puppet.done("REMOVE", id="~spare")
    still_works(puppets, puppet)


def plant(puppets):
    """What sandboxed code can have left in its directory, and more than that."""
    files = puppets.files("mine")
    (files / "to-secret").symlink_to(puppets.path("secret"))
    (files / "to-host").symlink_to(puppets.directory)
    (files / "to-root").symlink_to("/")
    (files / "up").symlink_to("../../..")
    (files / "magic").symlink_to("/proc/self/root")
    os.mkfifo(files / "pipe")
    os.mknod(files / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(files / "memory", stat.S_IFCHR | 0o666, os.makedev(1, 1))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(files / "socket"))
    other = puppets.files("other", "secret")
    other.write_text(SECRET)
    return other


PATHS = [
    "", "/", ".", "..", "../secret", "../../other/files/secret", "/session/../../other/files/secret", "/etc/passwd", "/proc/self/environ",
    "a/../../x", "to-secret", "to-host/secret", "to-root/etc/passwd", "up/secret", "up/state/sessions/other/files/secret", "magic/etc/passwd",
    "pipe", "null", "memory", "socket", ".limpet", ".limpet/../../x", "to-host/state/sessions/other/files/secret", "x\0y", "a/" * 3000,
]  # fmt: skip


def test_paths_stay_below_the_session(puppets):
    puppet = puppets.controller()
    make_session(puppet)
    make_session(puppet, "other")
    other = plant(puppets)
    for path in PATHS:
        for descriptor in (False, True):
            puppet.refused("GET", **get(path, descriptor=descriptor))
    for path in PATHS:
        text, fds = puppet.ask("PUT", **put(path))
        assert fds == []
        assert text or path in ("to-secret", "pipe", "null", "memory", "socket"), path  # the name itself is taken
    for path in ("to-host/new", "up/new", "to-root/tmp/new", "magic/tmp/new", "to-secret/new"):
        puppet.refused("PUT", **put(path))
        puppet.refused("PUT", **put(path, offset=1))
    assert other.read_text() == SECRET
    assert not puppets.path("new").exists()
    still_works(puppets, puppet)


def test_a_directory_that_is_none(puppets):
    """Root itself would have to have put it there."""
    puppet = puppets.controller()
    sessions = puppets.path("state", "sessions")
    (sessions / "linked").symlink_to(puppets.directory)
    (sessions / "within").mkdir()
    (sessions / "within" / "files").symlink_to(puppets.directory)
    for name in ("linked", "within"):
        puppet.refused("ADOPT", **adopt(name, name))
        puppet.ask("REMOVE", id=name)
    assert puppets.path("secret").exists()
    (sessions / "linked").unlink(missing_ok=True)
    still_works(puppets, puppet)


def test_memory_that_is_removed_is_that_of_the_session(puppets):
    """As it was when it was looked at."""
    puppet = puppets.controller()
    make_session(puppet)
    place, outside = puppets.files("mine", ".limpet-saved-idle"), puppets.path("outside")
    outside.mkdir()
    (outside / "memory").write_text("x")
    place.symlink_to(outside)
    puppet.ask("FORGET_MEMORY", id="mine", changed=(outside / "memory").stat().st_ctime)
    assert (outside / "memory").exists()
    place.unlink()
    place.mkdir()
    (place / "memory").write_text("x")
    changed = (place / "memory").stat().st_ctime
    puppet.refused("FORGET_MEMORY", id="mine", changed=changed - 1)
    assert (place / "memory").exists()
    puppet.done("FORGET_MEMORY", id="mine", changed=changed)
    assert os.listdir(place) == []
    still_works(puppets, puppet)


def test_what_is_passed_is_a_file_of_the_session(puppets):
    puppet = puppets.controller()
    make_session(puppet)
    puppet.done("PUT", **put("x"))
    text, [fd] = puppet.ask("GET", **get("x", descriptor=True))
    assert stat.S_ISREG(os.fstat(fd).st_mode) and opened_for(fd) == os.O_RDONLY
    os.close(fd)
    text, [fd] = puppet.ask("PUT", **put("y", data=b"", last=False, descriptor=True))
    assert stat.S_ISREG(os.fstat(fd).st_mode) and opened_for(fd) == os.O_WRONLY
    assert not puppets.files("mine", "y").exists()
    os.close(fd)
    for more in ({"offset": 1}, {"data": b"x"}, {"last": True}):
        puppet.refused("PUT", **(put("y", data=b"", last=False, descriptor=True) | more))
    still_works(puppets, puppet)


def test_what_has_no_bounds(puppets):
    puppet = puppets.controller()
    make_session(puppet)
    puppet.done("PUT", **put("x"))
    for kind, body in (
        ("GET", get("x", size=BIG)), ("PUT", put("x", data=b"x" * (MIB + 1))), ("PUT", put("x", offset=BIG)),
        ("PREPARE", prepare("new", bytes=BIG)), ("PREPARE", prepare("new", files=BIG)), ("PREPARE", prepare("new", reader=BIG)),
        ("PREPARE", prepare("new", disk=True, bytes=1)), ("PREPARE", prepare("new", disk=True, bytes=64 * MIB, files=1)),
        ("PREPARE", prepare("mine")), ("PREPARE", prepare("new", template="none")), ("ADOPT", adopt("mine", "mine")),
        ("CLAIM", {"id": "mine", "as": "mine", "reader": None, "bytes": MIB, "files": 100}), ("PUT", put(".limpet/x")),
        ("KEEP", {"id": "mine", "checkpoint": "../x", "name": None, "bytes": 1}), ("KEEP", {"id": "mine", "checkpoint": "", "name": None, "bytes": 1}),
        ("STAGE", {"id": "mine", "checkpoint": ".."}), ("PRUNE", {"id": "mine", "checkpoints": ["../../x"]}),
        ("TAKE", {"id": "mine", "budget": 0}), ("CLAIM", {"id": "mine", "as": "x", "reader": BIG, "bytes": MIB, "files": 100}),
        ("REVIEW", {"keep_for": "x", "keep_size": 0}), ("REMOVE", {"id": 7}), ("REMOVE", {"id": None}), ("REMOVE", {}), ("REMOVE", {"id": ["mine"]}),
        ("GET", {"id": "mine"}), ("GET", get(b"\xff")),
    ):  # fmt: skip
        puppet.refused(kind, **body)
    for kind in (0, 1, len(JOB), 63, 64, 200):
        puppet.refused(kind, id="mine")
    assert puppet.done("GET", **get("x", offset=BIG))["data"] == b""
    still_works(puppets, puppet)


def half(puppet):
    """A frame is awaited for as long as it takes."""
    data = message(JOB["GET"], get("x"), 99)
    frame = struct.pack("=II", len(data), 0) + data
    for i in range(len(frame)):
        puppet.files.send(frame[i : i + 1])
    assert puppet.answer()[0] == 99
    puppet.files.send(frame[:-1])


def test_half_a_message(puppets):
    puppet = puppets.controller()
    make_session(puppet)
    half(puppet)
    time.sleep(0.1)
    assert not pending(puppet.files)
    puppet.files.send(message(JOB["GET"], get("x"), 99)[-1:])
    assert puppet.answer()[0] == 99
    half(puppet)
    worker = pid_of(puppets, "limpet-files")
    os.kill(int(pid_of(puppets, "limpetd")), 9)
    puppet = puppets.after()
    assert pid_of(puppets, "limpet-files") != worker
    still_works(puppets, puppet)


def flood(puppet, frame, most):
    """Sends until nothing more is taken; how many were taken whole, and how much of another."""
    puppet.files.settimeout(2)
    n = at = 0
    try:
        while n < most:
            at += puppet.files.send(frame[at:])
            if at == len(frame):
                n, at = n + 1, 0
    except TimeoutError:
        pass
    puppet.files.settimeout(PATIENCE)
    return n, at


@pytest.mark.parametrize("kind", ["GET", "PUT", "REMOVE"])
def test_a_flood_is_not_swallowed(puppets, kind):
    puppet = puppets.controller()
    make_session(puppet)
    puppet.done("PUT", **put("x", data=b"x" * MIB))
    worker = pid_of(puppets, "limpet-files")
    body = {"GET": get("x"), "PUT": put("x", data=b"x" * MIB), "REMOVE": {"id": "none"}}[kind]
    data = message(JOB[kind], body, 7)
    frame = struct.pack("=II", len(data), 0) + data
    n, rest = flood(puppet, frame, 500 if kind == "PUT" else 20000)
    assert resident(worker) < 1 << 30
    answers = 0
    while answers < n:
        assert puppet.answer()[0] == 7
        answers += 1
    if rest:
        puppet.files.sendall(frame[rest:])
        assert puppet.answer()[0] == 7
    assert pid_of(puppets, "limpet-files") == worker
    still_works(puppets, puppet)


def nothing():
    return os.open("/dev/null", os.O_RDONLY)


VIOLATIONS = {
    "no bytes": lambda puppet, fd: puppet.frame(b""),
    "too large": lambda puppet, fd: puppet.frame(b"x", size=64 * MIB),
    "largest size": lambda puppet, fd: puppet.frame(b"x", size=(1 << 32) - 1),
    "no message": lambda puppet, fd: puppet.frame(b"\xc1" * 100),
    "not an array": lambda puppet, fd: puppet.frame(b"\x80"),
    "a kind beyond": lambda puppet, fd: puppet.frame(message((1 << 32) - 1, {"id": "x"})),
    "deep": lambda puppet, fd: puppet.frame(b"\x91" * 1000),
    "promises much": lambda puppet, fd: puppet.frame(b"\xdd\xff\xff\xff\xff"),
    "a descriptor": lambda puppet, fd: puppet.frame(message(JOB["REMOVE"], {"id": "x"}), [fd]),
    "two descriptors": lambda puppet, fd: puppet.frame(message(JOB["REMOVE"], {"id": "x"}), [fd, fd]),
    "many descriptors": lambda puppet, fd: puppet.frame(message(JOB["REMOVE"], {"id": "x"}), [fd] * 200),
    "descriptors that are not told": lambda puppet, fd: puppet.frame(message(JOB["REMOVE"], {"id": "x"}), [fd], descriptors=0),
    "descriptors that are not there": lambda puppet, fd: puppet.frame(message(JOB["REMOVE"], {"id": "x"}), descriptors=2),
    "countless descriptors": lambda puppet, fd: puppet.frame(message(JOB["REMOVE"], {"id": "x"}), descriptors=(1 << 32) - 1),
    "descriptors amid a frame": lambda puppet, fd: (puppet.frame(b"\x94\x01", size=100), send(puppet.files, b"\x01", [fd])),
}


@pytest.mark.parametrize("violation", VIOLATIONS.values(), ids=VIOLATIONS)
def test_who_breaks_the_frame_is_ended(puppets, violation):
    puppet = puppets.controller()
    worker = pid_of(puppets, "limpet-files")
    fd = nothing()
    violation(puppet, fd)
    os.close(fd)
    puppet = puppets.after()  # both have been started again
    assert pid_of(puppets, "limpet-files") != worker
    still_works(puppets, puppet)
