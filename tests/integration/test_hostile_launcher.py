"""Somebody has taken over the controller, or the files worker, and demands of the launcher what nobody may have: other containers,
options beside the set, directories of the host, devices. Nothing gets through, and nothing falls over."""

import contextlib
import os
import socket
import stat

import pytest

from tests.support.ipc import message, send_frame
from tests.support.limpetd import IMAGES

from .killed import children, read, wait_for
from .puppets import MIB, LAUNCHER, make_session, opened_for, pending, resident, still_works
from .puppets import puppets  # noqa: F401

pytestmark = [pytest.mark.engine, pytest.mark.once]

BIG = (1 << 64) - 2


def nothing():
    return os.open("/dev/null", os.O_RDONLY)


def container(puppets, **more):
    return {
        "container": puppets.container(), "session": "mine", "directory": "mine", "link": "0" * 12, "image": "", "network": "none",
        "data": False, "work": False, "memory": 256 * MIB, "pids": 64, "largest_file": 0, "cpus": 1.0,
    } | more  # fmt: skip


def spec(**more):
    return lambda puppets, puppet, fd: puppet.say("CREATE", container(puppets, **more))


def question(kind, body, fds=0):
    def say(puppets, puppet, fd):
        ours, theirs = puppet.pair()
        with ours, theirs:
            puppet.say(kind, body, [*([fd] * fds), theirs.fileno()])

    return say


def packages(name, of=None):
    return lambda puppets, puppet, fd: question("PACKAGES", {"container": of or puppets.container(), "packages": name})(puppets, puppet, fd)


def frame(data, fds=0, **header):
    return lambda puppets, puppet, fd: send_frame(puppet.launcher, data, [fd] * fds, **header)


DEMANDS = {
    "another's container": spec(container="limpet-deadbeef-" + "0" * 16),
    "any container": spec(container="registry"),
    "a container above": spec(container="../x"),
    "a directory above": spec(directory=".."),
    "a directory of the host": spec(directory="/etc"),
    "a directory below": spec(directory="mine/files"),
    "a directory with an end": spec(directory="mine\0x"),
    "a link above": spec(link=".."),
    "a link of the host": spec(link="/etc"),
    "an image with a space": spec(image="x --privileged"),
    "an image with an end": spec(image="x\0y"),
    "a network that is not allowed": spec(network="host"),
    "a bridge": spec(network="bridge"),
    "a network of a container": spec(network="cont:1"),
    "all memory": spec(memory=BIG),
    "no memory": spec(memory=0),
    "all processes": spec(pids=BIG),
    "no processors": spec(cpus=0.0),
    "processors that are no number": spec(cpus=float("nan")),
    "files of any size": spec(largest_file=BIG),
    "a container below": spec(container="limpet-../../../../../x"),
    "a container too short": lambda puppets, puppet, fd: puppet.say("CREATE", container(puppets, container=puppets.container("0" * 15))),
    "a container with a path": lambda puppets, puppet, fd: puppet.say("CREATE", container(puppets, container=puppets.container("../../../../../x"))),
    "no directory": spec(directory=""),
    "a hidden directory": spec(directory=".limpet"),
    "a directory of two lines": spec(directory="a\nb"),
    "a directory that is not ASCII": spec(directory="é"),
    "no link": spec(link=""),
    "a hidden link": spec(link=".limpet"),
    "no network at all": spec(network=""),
    "half a network": spec(network="hos"),
    "too little memory": spec(memory=64 * MIB - 1),
    "more processes than can be": spec(pids=1 << 40),
    "processors below none": spec(cpus=-1.0),
    "processors beyond": spec(cpus=1e9),
    "a label with an escape": spec(session="\x1b[2J"),
    "privileges": spec(privileged=True),
    "mounts": spec(mounts=["/:/host"]),
    "data without a descriptor": spec(data=True),
    "a type": spec(memory="256m"),
    "a field that is missing": lambda puppets, puppet, fd: puppet.say("CREATE", {"container": puppets.container()}),
    "a descriptor for nothing": lambda puppets, puppet, fd: puppet.say("CREATE", container(puppets), [fd]),
    "eight descriptors": lambda puppets, puppet, fd: puppet.say("CREATE", container(puppets, data=True), [fd] * 8),
    "a hundred descriptors": lambda puppets, puppet, fd: puppet.say("CREATE", container(puppets, data=True), [fd] * 100),
    "adopts another's": lambda puppets, puppet, fd: puppet.say("ADOPT", container(puppets, container="limpet-deadbeef-" + "0" * 16)),
    "packages above": packages(".."),
    "packages of the host": packages("/" + "0" * 63),
    "packages with a path": packages("0" * 31 + "/" + "0" * 32),
    "packages in capitals": packages("A" * 64),
    "packages too long": packages("0" * 65),
    "packages of another's container": packages("0" * 64, "limpet-deadbeef-" + "0" * 16),
    "removes another's": lambda puppets, puppet, fd: puppet.say("REMOVE", {"container": "limpet-deadbeef-" + "0" * 16}),
    "removes with options": lambda puppets, puppet, fd: puppet.say("REMOVE", container(puppets)),
    "leaves what is not there": lambda puppets, puppet, fd: puppet.say("LEAVE", {"container": puppets.container()}),
    "a disk": question("DISK", {"directory": "mine", "bytes": 64 * MIB, "files": 10000}),
    "a disk away": question("DETACH", {"directory": "mine"}),
    "a disk mounted": question("MOUNT", {"directory": "mine"}),
    "begins twice": question("BEGIN", {}),
    "a way to the network over another's socket": lambda puppets, puppet, fd: puppet.say("EGRESS", {}, [puppet.launcher.fileno()]),
    "a way to the network over no socket": lambda puppets, puppet, fd: puppet.say("EGRESS", {}, [fd]),
    "a network without a socket": lambda puppets, puppet, fd: puppet.say("NET"),
    "a relative path": question("OPEN", {"user": 0, "path": "etc"}, fds=1),
    "a user beyond": question("OPEN", {"user": 1 << 33, "path": "/etc"}, fds=1),
    "opens with no answer": lambda puppets, puppet, fd: puppet.say("OPEN", {"user": 0, "path": "/etc"}),
    "opens without a client": question("OPEN", {"user": 0, "path": "/etc"}),
    "opens with two": question("OPEN", {"user": 0, "path": "/etc"}, fds=2),
    "what the launcher says": lambda puppets, puppet, fd: puppet.say("STARTED", {"container": puppets.container()}),
    "no kind": frame(message(0, {})),
    "a kind beyond": frame(message(4711, {})),
    "no message": frame(b"\xc1"),
    "half a message": frame(message(LAUNCHER["SWEEP"], {})[:-1]),
    "two messages": frame(message(LAUNCHER["SWEEP"], {}) * 2),
    "deep": frame(b"\x91" * 1000),
    "a large frame": frame(b"x" * 70000),
    "a size beyond": frame(b"x", size=(1 << 32) - 1),
    "descriptors that are not told": frame(message(LAUNCHER["SWEEP"], {}), 1, descriptors=0),
    "descriptors that are not there": frame(message(LAUNCHER["SWEEP"], {}), descriptors=1),
    "descriptors alone": frame(message(LAUNCHER["SWEEP"], {}), 3),
    "nothing": frame(b""),
}


@pytest.mark.parametrize("demand", DEMANDS.values(), ids=DEMANDS)
def test_who_demands_what_nobody_may_is_ended(puppets, demand):
    puppet = puppets.controller()
    make_session(puppet)
    launcher = puppets.process.pid
    fd = nothing()
    demand(puppets, puppet, fd)
    os.close(fd)
    puppet = puppets.after()
    assert puppets.process.pid == launcher
    puppet.say("SWEEP")
    assert puppet.told()[0] == "SWEPT"
    still_works(puppets, puppet)


def test_before_it_has_begun(puppets):
    [puppet] = puppets.begin()
    puppets.serve(puppet)
    puppet.say("STARTED")
    puppets.ended()
    for kind in ("READY", "SWEEP", "CREATE", "OPEN"):
        puppet = puppets.next()
        puppet.say(kind, container(puppets) if kind == "CREATE" else {})
        puppets.ended()
    puppet = puppets.next()
    puppets.serve(puppet)
    still_works(puppets, puppet)


def failed(puppet, body, fds=()):
    """It is told to be none."""
    puppet.say("CREATE", body, fds)
    kind, told, _ = puppet.told()
    assert kind == "FAILED", told
    return told["text"]


def test_containers_of_what_is_not_there(puppets):
    puppet = puppets.controller()
    make_session(puppet)
    sessions = puppets.path("state", "sessions")
    (sessions / "linked").symlink_to("/")
    (sessions / "within").mkdir()
    (sessions / "within" / "files").symlink_to("/etc")
    (puppets.path("run", os.listdir(puppets.path("run"))[0], "guests") / ("f" * 12)).symlink_to("/etc")
    for more in (
        {"directory": "none"}, {"directory": "linked"}, {"directory": "within"}, {"work": True}, {"link": "e" * 12}, {"link": "f" * 12},
        {"image": "../../../../etc"}, {"image": "/etc"}, {"image": ".cache"}, {"image": "none"}, {"image": "."},
    ):  # fmt: skip
        assert failed(puppet, container(puppets, **more)), more
    (sessions / "linked").unlink()
    still_works(puppets, puppet)


def make_link(puppets, name="0" * 12):
    """A directory for the socket of a supervisor, as the controller makes it."""
    directory = puppets.path("run", os.listdir(puppets.path("run"))[0], "guests", name)
    directory.mkdir()
    os.chown(directory, 20002, -1)


@pytest.mark.parametrize("what", ["/dev/null", "/dev/zero", "secret", "pipe", "socket"])
def test_data_that_is_no_directory(puppets, what):
    puppet = puppets.controller()
    make_session(puppet)
    make_link(puppets)
    if what == "pipe":
        fd, other = os.pipe()
    elif what == "socket":
        fd, other = (end.detach() for end in socket.socketpair())
    else:
        fd, other = os.open(puppets.path(what), os.O_RDONLY), -1
    puppet.say("CREATE", container(puppets, data=True), [fd])
    assert puppet.told()[0] == "FAILED"
    assert puppet.ask_launcher("ATTACH", {"container": puppets.container()}, [fd])[0] == "REFUSED"
    os.close(fd)
    if other >= 0:
        os.close(other)
    puppet.say("REMOVE", {"container": puppets.container()})
    assert puppet.told()[0] == "REMOVED"
    still_works(puppets, puppet)


def test_what_it_has_opened_are_directories_that_the_user_may_read(puppets):
    puppet = puppets.controller()
    for user, path in (
        (65534, "/root"), (65534, puppets.path("state")), (65534, puppets.path("secret")), (0, "/dev/null"), (0, puppets.path("secret")),
        (0, "/proc/self/root"), (0, f"/proc/{puppets.process.pid}/root"), (0, f"/proc/{puppets.process.pid}/cwd"), (0, "/none"),
    ):  # fmt: skip
        with puppets.client_of(puppet, user) as client:
            kind, told, fds = puppet.ask_launcher("OPEN", {"user": user, "path": str(path)}, [client.fileno()])
        assert (kind, fds) == ("REFUSED", []), path
    with puppets.client_of(puppet, 65534) as client:
        kind, _, [fd] = puppet.ask_launcher("OPEN", {"user": 65534, "path": "/usr"}, [client.fileno()])
    assert kind == "DONE" and opened_for(fd) == os.O_RDONLY and stat.S_ISDIR(os.fstat(fd).st_mode)
    os.close(fd)
    still_works(puppets, puppet)


def test_nobody_s_directories_are_opened_who_is_not_connected(puppets):
    """Not root's above all: sockets that root has made are no clients of root's."""
    puppet = puppets.controller()
    ours, theirs = puppet.pair()
    with puppets.client_of(puppet, 65534) as client, open("/dev/null") as null, ours, theirs:
        for fd in (client, puppet.clients, puppet.launcher, puppet.files, puppet.control, null, ours):
            kind, _, fds = puppet.ask_launcher("OPEN", {"user": 0, "path": "/usr"}, [fd.fileno()])
            assert (kind, fds) == ("REFUSED", []), fd
    with puppets.client_of(puppet, 0) as client:
        kind, _, fds = puppet.ask_launcher("OPEN", {"user": 0, "path": "/usr"}, [client.fileno()])
        assert kind == "DONE"
        os.close(fds[0])
        kind, _, fds = puppet.ask_launcher("OPEN", {"user": 65534, "path": "/usr"}, [client.fileno()])
        assert (kind, fds) == ("REFUSED", [])
    still_works(puppets, puppet)


def test_answers_go_to_nobody_else(puppets):
    """The launcher speaks for root: not into a socket that is connected to somebody who asks who speaks."""
    puppet = puppets.controller()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stream, other = socket.socketpair()
    pipe = os.pipe()
    body = {"user": 65534, "path": "/usr"}
    with puppets.client_of(puppet, 65534) as client:
        for fd in (theirs.fileno(), other.fileno(), pipe[1], nothing()):
            puppet.say("OPEN", body, [client.fileno(), fd])
        assert puppet.ask_launcher("OPEN", body, [client.fileno()])[0] == "DONE"  # so that the others have been dealt with
    assert not any(map(pending, (ours, stream, pipe[0])))
    for end in (ours, theirs, stream, other):
        end.close()
    os.close(pipe[0])
    os.close(pipe[1])
    still_works(puppets, puppet)


def test_who_floods_and_does_not_read_is_ended(puppets):
    puppet = puppets.controller()
    name = {"container": puppets.container()}
    data = message(LAUNCHER["REMOVE"], name)
    try:
        while True:
            send_frame(puppet.launcher, data)
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert resident(puppets.process.pid) < 1 << 30
    still_works(puppets, puppets.after())


def test_more_containers_than_there_may_be(puppets):
    puppet = puppets.controller()
    for i in range(2000):
        puppet.say("CREATE", container(puppets, container=puppets.container(f"{i:016x}"), directory="none"))
        assert puppet.told()[0] == "FAILED"
    assert not list(puppets.path("run").glob("*/sources/*"))
    still_works(puppets, puppet)


def test_one_egress_process_at_a_time(puppets):
    puppet = puppets.controller()
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            ours, theirs = puppet.pair()
            stack.enter_context(ours)
            with theirs:
                puppet.say("EGRESS", {}, [theirs.fileno()])
        still_works(puppets, puppet)
        launcher = puppets.process.pid
        found = [pid for pid in children(launcher) if read(f"/proc/{pid}/comm") == "limpet-egress\n"]
        assert len(found) <= 1


# ---- the files worker as the launcher has it


WORKERS = {
    "a container": lambda puppets, puppet: puppet.say("CREATE", container(puppets)),
    "an opened directory": lambda puppets, puppet: puppet.say("OPEN", {"user": 0, "path": "/etc"}, [puppet.launcher.fileno()]),
    "begins": lambda puppets, puppet: puppet.say("BEGIN", {}, [puppet.launcher.fileno()]),
    "a way to the network": lambda puppets, puppet: puppet.say("EGRESS", {}, [puppet.launcher.fileno()]),
    "a disk above": lambda puppets, puppet: puppet.say("DISK", disk(directory=".."), [puppet.launcher.fileno()]),
    "a disk of the host": lambda puppets, puppet: puppet.say("DISK", disk(directory="/etc"), [puppet.launcher.fileno()]),
    "a disk too large": lambda puppets, puppet: puppet.say("DISK", disk(bytes=BIG), [puppet.launcher.fileno()]),
    "a disk too small": lambda puppets, puppet: puppet.say("DISK", disk(bytes=1), [puppet.launcher.fileno()]),
    "a disk away above": lambda puppets, puppet: puppet.say("DETACH", {"directory": "../.."}, [puppet.launcher.fileno()]),
    "a disk mounted from above": lambda puppets, puppet: puppet.say("MOUNT", {"directory": ".."}, [puppet.launcher.fileno()]),
    "a disk mounted from the host": lambda puppets, puppet: puppet.say("MOUNT", {"directory": "/etc"}, [puppet.launcher.fileno()]),
    "a disk mounted elsewhere": lambda puppets, puppet: puppet.say("MOUNT", {"directory": "mine", "on": "/etc"}, [puppet.launcher.fileno()]),
    "a disk mounted with no answer": lambda puppets, puppet: puppet.say("MOUNT", {"directory": "mine"}),
    "no message": lambda puppets, puppet: send_frame(puppet.launcher, b"\xc1"),
}


def disk(**more):
    return {"directory": "mine", "bytes": 64 * MIB, "files": 10000} | more


@pytest.mark.parametrize("demand", WORKERS.values(), ids=WORKERS)
def test_a_files_worker_that_demands_what_it_may_not_is_ended(puppets, demand):
    both = {puppet.name: puppet for puppet in puppets.begin(2)}
    puppets.serve(both["controller"])
    demand(puppets, both["files worker"])
    puppets.ended()
    assert {puppets.next().name, puppets.next().name} == {"controller", "files worker"}


def test_disks_of_what_is_no_session(puppets):
    both = {puppet.name: puppet for puppet in puppets.begin(2)}
    puppets.serve(both["controller"])
    worker, sessions = both["files worker"], puppets.path("state", "sessions")
    (sessions / "linked").symlink_to(puppets.directory)
    (sessions / "within").mkdir()
    (sessions / "within" / "files").symlink_to(puppets.directory)
    for name in ("none", "linked", "within"):
        assert worker.ask_launcher("DISK", disk(directory=name))[0] == "REFUSED", name
        assert worker.ask_launcher("DETACH", {"directory": name})[0] == "DONE", name
    assert not puppets.path("disk").exists() and sorted(os.listdir(puppets.path())) == ["limpet.sock", "log", "run", "secret", "state"]
    assert worker.open("/etc/shadow") != 0 and worker.open(puppets.path("secret")) != 0 and worker.open(IMAGES) != 0
    (sessions / "linked").unlink()


def mounted(puppets):
    return [line for line in read("/proc/self/mounts").splitlines() if f"{puppets.directory}/state/sessions/" in line]


def test_what_is_mounted_again_is_a_disk_that_the_launcher_made(puppets):
    """Not another's file, nor one under two names, nor what a link leads to; and what is mounted already is not, a second time."""
    both = {puppet.name: puppet for puppet in puppets.begin(2)}
    puppets.serve(both["controller"])
    worker, sessions = both["files worker"], puppets.path("state", "sessions")
    mine = sessions / "mine"
    mine.mkdir()
    ask = lambda name="mine": worker.ask_launcher("MOUNT", {"directory": name})[0]  # noqa: E731
    for name in ("none", "mine"):
        assert ask(name) == "REFUSED", name
    assert worker.ask_launcher("DISK", disk())[0] == "DONE"
    assert ask() == "REFUSED" and len(mounted(puppets)) == 2
    assert worker.ask_launcher("DETACH", {"directory": "mine"})[0] == "DONE"
    image, aside = mine / "disk", puppets.path("aside")
    wait_for(lambda: ask() == "DONE")  # the device is free a moment later
    assert "nosuid" in mounted(puppets)[0] and "nodev" in mounted(puppets)[0]
    assert worker.ask_launcher("DETACH", {"directory": "mine"})[0] == "DONE"
    image.rename(aside)
    for plant in (
        lambda: image.symlink_to(aside), lambda: os.link(aside, image), lambda: os.mkfifo(image), lambda: os.mknod(image, stat.S_IFBLK | 0o600, os.makedev(7, 0)),
        lambda: image.mkdir(), lambda: image.write_bytes(b""), lambda: image.write_bytes(os.urandom(MIB)), lambda: (image.write_bytes(aside.read_bytes()), os.chown(image, 20002, -1)),
    ):  # fmt: skip
        plant()
        assert ask() == "REFUSED" and mounted(puppets) == []
        image.rmdir() if image.is_dir() and not image.is_symlink() else image.unlink()
    aside.rename(image)
    for part in (mine / "files", mine / "scratch"):
        part.rmdir()
        part.symlink_to(puppets.directory)
        assert ask() == "REFUSED" and mounted(puppets) == []
        part.unlink()
        part.mkdir()
    assert f" {puppets.directory} " not in read("/proc/self/mounts")
