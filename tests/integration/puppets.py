"""limpetd with a puppet in place of its controller (limpetd_puppet.c): the test has the sockets and the rights of who took it over,
and says whatever comes to its mind, to a real launcher and a real files worker."""

import contextlib
import fcntl
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess

import pytest

from tests.support import ROOT
from tests.support.controllers import ENGINES
from tests.support.ipc import message, receive, receive_frame, send_frame, unpack
from tests.support.limpetd import Limpetd

from .killed import children, read, wait_for

PATIENCE = 60  # seconds


def kinds(path, first):
    """The values of an enumeration, or of the list of jobs, by name."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if "JOBS(JOB)" in text:
        names = ["DONE", "FAILED", *re.findall(r"^\s+JOB\((\w+), ", text, re.M)]
        return {name: first + i for i, name in enumerate(names)}
    found, value = {}, first
    for name, given in re.findall(r"^    LAUNCHER_(\w+)(?: = (\d+))?,", text, re.M):
        value = int(given) if given else value
        found[name] = value
        value += 1
    return found


JOB = kinds("host/file_service/protocol.h", 0)
LAUNCHER = kinds("host/privilege/launcher_protocol.h", 0)


class Puppet:
    """A process that does what it is told; closed when the test lets go of it."""

    def __init__(self, name, launcher, other, control):
        self.name = name
        self.launcher, self.files, self.control = (socket.socket(fileno=fd) for fd in (launcher, other, control))
        for sock in (self.launcher, self.files, self.control):
            sock.setblocking(True)
            sock.settimeout(PATIENCE)
        self.number = 0
        self.clients = None  # which it listens at for clients

    def close(self):
        for sock in filter(None, (self.launcher, self.files, self.control, self.clients)):
            sock.close()

    # ---- what the process itself can do

    def open(self, path):
        """The errno, 0 when it could."""
        self.control.send(os.fsencode(path))
        data, fds = receive(self.control)
        for fd in fds:
            os.close(fd)
        return int(data)

    def pair(self):
        """Sockets that are its own."""
        self.control.send(b"pair")
        _, fds = receive(self.control)
        ours, theirs = (socket.socket(fileno=fd) for fd in fds)
        ours.settimeout(PATIENCE)
        return ours, theirs

    # ---- the launcher

    def say(self, kind, body=None, fds=()):
        send_frame(self.launcher, message(LAUNCHER[kind], body or {}), fds)

    def ask_launcher(self, kind, body=None, fds=()):
        """The name of what comes back, its body and descriptors."""
        ours, theirs = self.pair()
        with ours, theirs:
            self.say(kind, body, [*fds, theirs.fileno()])
            theirs.close()
            return told(receive_frame(ours))

    def told(self):
        """What the launcher says by itself."""
        return told(receive_frame(self.launcher))

    # ---- the files worker

    def frame(self, data, fds=(), size=None, descriptors=None):
        send_frame(self.files, data, fds, size, descriptors)

    def answer(self):
        """Its number, name and body, and the descriptors with it."""
        data, fds = receive_frame(self.files)
        kind, number, body = unpack(data)
        return number, kind, body, fds

    def ask(self, kind, **body):
        """"" when it was done, and otherwise the text; and the descriptors."""
        self.number += 1
        self.frame(message(JOB.get(kind, kind), body, self.number))
        number, answered, told, fds = self.answer()
        assert number == self.number
        assert answered in (JOB["DONE"], JOB["FAILED"])
        self.body = told
        return (told["text"] if answered == JOB["FAILED"] else ""), fds

    def done(self, kind, **body):
        """What must be done, and brings no descriptor."""
        text, fds = self.ask(kind, **body)
        assert text == "", (kind, body, text)
        for fd in fds:
            os.close(fd)
        return self.body

    def refused(self, kind, **body):
        text, fds = self.ask(kind, **body)
        assert text != "", (kind, body)
        assert fds == []
        return text


def told(received):
    data, fds = received
    kind, _, body = unpack(data)
    return next(name for name, number in LAUNCHER.items() if number == kind), body, fds


class Puppets(Limpetd):
    """The launcher, and whoever it starts."""

    def __init__(self, engine):
        super().__init__(engine, program=shutil.which("limpetd_puppet", path=os.environ.get("LIMPET_BUILD")))
        self.owner = None
        self.held = []

    def begin(self, puppets=1):
        self.socket_of_puppets, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket_of_puppets.settimeout(PATIENCE)
        with theirs, open(self.log, "ab") as log:
            environment = os.environ | {"LIMPET_PUPPETS": str(puppets)}
            self.process = subprocess.Popen(self.command(), stdin=theirs, stdout=log, stderr=log, env=environment)
        return [self.next() for _ in range(puppets)]

    def next(self):
        """The puppet that has been started now; of those before nothing is held any more."""
        data, fds = receive(self.socket_of_puppets)
        if not data:
            raise EOFError(self.said())
        puppet = Puppet(data.decode(), *fds)
        self.held.append(puppet)
        return puppet

    def controller(self):
        """The first one, after it has begun as each has to."""
        [puppet] = self.begin()
        self.serve(puppet)
        return puppet

    def serve(self, puppet):
        kind, body, fds = puppet.ask_launcher("BEGIN")
        assert (kind, body["engine"]) == ("DONE", self.engine), body
        puppet.clients = socket.socket(fileno=fds.pop(0))
        for fd in fds:
            os.close(fd)
        puppet.say("READY")

    @contextlib.contextmanager
    def client_of(self, puppet, user):
        """The controller's end of a connection that a process of that user has made."""
        os.chmod(self.socket, 0o666)
        with socket.socket(socket.AF_UNIX) as client:
            os.seteuid(user)
            try:
                client.connect(self.socket)
            finally:
                os.seteuid(0)
            puppet.clients.setblocking(True)
            accepted, _ = puppet.clients.accept()
            with accepted:
                yield accepted

    def let_go(self):
        while self.held:
            self.held.pop().close()

    def ended(self):
        """Waits until those that run have been ended, by somebody else than us."""
        for puppet in self.held:
            assert receive(puppet.control)[0] == b""
        self.let_go()

    def after(self):
        """The puppet that takes the place of one that has been ended."""
        self.ended()
        puppet = self.next()
        self.serve(puppet)
        return puppet

    def container(self, digits="0" * 16):
        """A name as containers have them: after the runtime directory, which is named after the state directory."""
        [owner] = os.listdir(os.path.join(self.directory, "run"))
        return f"limpet-{owner}-{digits}"

    def path(self, *parts):
        return pathlib.Path(self.directory, *parts)

    def files(self, session, *parts):
        return self.path("state", "sessions", session, "files", *parts)

    def finish(self):
        """All of it ends in order, and has found nothing wrong with itself."""
        self.let_go()
        self.socket_of_puppets.close()
        status = self.process.wait(PATIENCE)
        said = pathlib.Path(self.log).read_text(errors="replace")
        assert "Sanitizer" not in said and "runtime error" not in said, said
        assert status == 0, said
        self.process = None
        assert self.leftovers() == {}


def resident(pid):
    """The most memory that a process has had, in bytes."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10


def pending(sock):
    return bool(select.select([sock], [], [], 0)[0])


def opened_for(fd):
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE


# ---- what the tests share

ISOLATING = [engine for engine in ENGINES if engine != "local"]
SECRET = "nobody else's\n"
MIB = 1 << 20


@pytest.fixture(params=ISOLATING or [pytest.param("oci", marks=pytest.mark.skip("one process, with the rights of its user"))])
def puppets(request):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    puppets = Puppets(request.param)
    secret = puppets.path("secret")
    secret.write_text(SECRET)
    secret.chmod(0o600)
    before = secret.stat()
    try:
        yield puppets
        puppets.finish()
        after = secret.stat()
        assert secret.read_text() == SECRET
        assert (after.st_uid, after.st_mode, after.st_nlink) == (before.st_uid, before.st_mode, before.st_nlink)
        mounts = read("/proc/self/mounts")
        assert f"{puppets.directory}/" not in mounts
    finally:
        puppets.let_go()
        if puppets.process:
            puppets.process.kill()
            puppets.process.wait()
        puppets.remove()


def prepare(name, **more):
    """Without a place to publish, and a disk."""
    body = {"id": name, "as": None, "reader": None, "ephemeral": False, "disk": False, "bytes": MIB, "files": 100, "template": None}
    return body | more


def adopt(name, published):
    return {"id": name, "as": published, "reader": None, "ephemeral": False, "bytes": MIB, "files": 100}


def make_session(puppet, name="mine"):
    text, fds = puppet.ask("PREPARE", **prepare(name, **{"as": name}))
    assert text == ""
    for fd in fds:
        os.close(fd)


def put(path, **more):
    return {"id": "mine", "path": path, "client": 1, "offset": 0, "data": b"x", "last": True, "give": True, "descriptor": False} | more


def get(path, **more):
    return {"id": "mine", "path": path, "offset": 0, "size": MIB, "descriptor": False} | more


def still_works(puppets, puppet):
    """A life of a session, by the worker that there is now."""
    make_session(puppet, "last")
    puppet.done("PUT", **put("a/b", id="last"))
    assert puppet.done("GET", **get("a/b", id="last"))["data"] == b"x"
    puppet.done("REMOVE", id="last")
    assert puppets.process.poll() is None


def pid_of(puppets, name):
    """Of that process, which has its name a moment after it has been started."""

    def found():
        return [pid for pid in children(puppets.process.pid) if read(f"/proc/{pid}/comm") == f"{name}\n"]

    wait_for(found)
    return found()[0]
