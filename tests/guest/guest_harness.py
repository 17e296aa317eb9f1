"""The host's side of a guest, in Python with pyzmq and msgpack: an implementation independent of ours."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

import msgpack
import pytest
import zmq

from tests.support.wire import (
    ANSWER,
    ASK,
    CHECKPOINT,
    CHECKPOINTS,
    CREDIT,
    DISPLAY,
    ERROR,
    EXECUTE,
    EXECUTED,
    GUEST_HELLO,
    GUEST_WELCOME,
    OUTPUT,
    PREPARED,
    REPLY,
)  # fmt: skip

PATIENCE = 20  # seconds until a test that waits for a message fails

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("LIMPET_BUILD", HERE.parent.parent / "build" / "bin"))
FAKE = HERE / "fake_interpreter.py"
REAL = BUILD / "limpet-interpreter"


def changed_fake(old, new):
    """The text of the small interpreter with something else in it, for a file elsewhere."""
    return FAKE.read_text().replace("os.path.abspath(__file__)", repr(str(FAKE))).replace(old, new)


MIB = 1 << 20
OTHER_UID = str(40000 + os.getpid() % 7000)  # of no one else: the kernel counts its processes

PROCESS_1 = ["unshare", "--pid", "--fork", "--mount-proc"]
CAPABILITIES = "+setuid,+setgid,+kill"

# As in a container, with three capabilities only: as root, and as a user with ambient ones. The first argument
# of the shell is the guest's directory: its socket is to be reached by that user.
AS_PROCESS_1 = {
    "root": ["setpriv", f"--bounding-set=-all,{CAPABILITIES}", "--inh-caps=-all"],
    "ambient": [
        "setpriv",
        "--reuid=47112",
        "--regid=47112",
        "--clear-groups",
        f"--inh-caps=-all,{CAPABILITIES}",
        f"--ambient-caps=-all,{CAPABILITIES}",
    ],
}


def as_process_1(root, user):
    """What comes before a guest's command."""
    return [*PROCESS_1, "sh", "-c", 'chmod 777 "$0"/link/sock; exec "$@"', str(root), *AS_PROCESS_1[user]]


needs_root = pytest.mark.skipif(
    os.getuid() != 0, reason="needs root, to give the interpreter a user of its own"
)
SANITIZED = REAL.exists() and b"__asan_init" in REAL.read_bytes()
needs_plain = pytest.mark.skipif(SANITIZED, reason="a sanitizer has memory of its own")
needs_real = pytest.mark.skipif(not REAL.exists(), reason="limpet-interpreter is not built")


class Controller:
    """A controller that has been started on a session's directory."""

    def __init__(self, link):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(f"ipc://{link}/sock")
        self.peer = None

    def close(self):
        self.context.destroy(linger=0)

    def send(self, kind, body, id=0):
        frame = msgpack.packb([1, kind, id, body], use_bin_type=True)
        self.socket.send_multipart([self.peer, frame])

    def receive(self, patience=PATIENCE):
        """The next message as (kind, id, body)."""
        assert self.socket.poll(patience * 1000), "no message from the guest"
        self.peer, frame = self.socket.recv_multipart()
        version, kind, id, body = msgpack.unpackb(frame, raw=False)
        assert version == 1
        return kind, id, body

    def quiet(self):
        """Whether there is no message at this moment."""
        return not self.socket.poll(0)

    def welcome(self, **fields):
        """Without checkpoints, unless asked for."""
        kind, _, hello = self.receive()
        assert kind == GUEST_HELLO
        self.send(GUEST_WELCOME, {"checkpoint": "off", **fields})
        return hello

    def prepared(self):
        """Waits until a spare is: what it could not import."""
        kind, id, body = self.receive()
        assert (kind, id) == (PREPARED, 0), (kind, id, body)
        return body["failed"]

    def start(self, code, timeout=15.0, stream=False, id=1, branch=0, on_error="keep", asks=None, script=False):
        body = {
            "branch": branch,
            "code": code,
            "code_hash": 77,
            "timeout": timeout,
            "stream": stream,
            "run_id": "0" * 32,
            "on_error": on_error,
            "asks": asks,
            **({"script": True} if script else {}),
        }
        self.send(EXECUTE, body, id)

    def record(self, id=1, timeout=0.0):
        """Waits for the record of a call that has so long; the events before it are in self.events."""
        self.events = []
        while True:
            kind, answered, body = self.receive(timeout + PATIENCE)
            assert answered == id
            if kind == EXECUTED:
                return body
            assert kind in (OUTPUT, DISPLAY), body
            self.events.append((kind, body))
            if kind == OUTPUT:
                self.send(CREDIT, {"count": 1}, id)

    def asked(self, id=1):
        """Waits for a question; the events before it are in self.events."""
        self.events = []
        while True:
            kind, answered, body = self.receive()
            assert answered == id
            if kind == ASK:
                return body
            assert kind in (OUTPUT, DISPLAY), body
            self.events.append((kind, body))

    def tell(self, number, payload=None, error=None, id=1):
        """Answers a question."""
        self.send(ANSWER, {"ask": number, "payload": payload, "error": error}, id)

    def run(self, code, **options):
        self.start(code, **options)
        return self.record(options.get("id", 1), options.get("timeout", 0.0))

    def ask(self, kind, id=500, **body):
        """The answer to an order: the body of its reply, or (name, message) of the error."""
        self.send(kind, body, id)
        return self.answer(id)

    def answer(self, id=500):
        kind, answered, body = self.receive()
        assert answered == id and kind in (REPLY, ERROR), (kind, answered, body)
        return body if kind == REPLY else (body["name"], body["message"])

    def checkpoint(self, branch=0, **body):
        return self.ask(CHECKPOINT, branch=branch, **body)["checkpoint"]

    def checkpoints(self):
        return self.ask(CHECKPOINTS)["checkpoints"]

    def protected(self, count, branch=0):
        """Waits until the state after that call has a checkpoint."""
        wait_for(
            lambda: any(c["branch"] == branch and c["execution_count"] == count for c in self.checkpoints()),
            "no checkpoint was taken",
        )


class Guest:
    """limpet-guest as a child process, in directories of its own."""

    def __init__(self, root, interpreter, *arguments, prefix=()):
        self.link = root / "link"
        self.directory = root / "session"
        self.link.mkdir()
        (self.directory / ".limpet").mkdir(parents=True)
        (self.link / "session").write_text("a-session\n")
        (self.link / "secret").write_bytes(bytes(range(32)))
        self.wrapped = bool(prefix)
        self.command = [
            *prefix,
            str(BUILD / "limpet-guest"),
            "--link",
            str(self.link),
            "--directory",
            str(self.directory),
            "--interpreter",
            str(interpreter),
            "--browser-socket",
            str(root / "browser"),
            *(arguments or ["--same-user"]),
        ]
        self.process = None

    def start(self):
        environment = dict(os.environ, LIMPET_GUEST_LOG="1", LEAKED="secret")
        self.process = subprocess.Popen(self.command, env=environment)

    def close(self):
        if not self.process or self.process.poll() is not None:
            return
        if self.wrapped:  # the wrapper passes no signal on
            for pid in self.descendants():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        else:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)

    def children(self):
        """Its interpreters and checkpoints: the supervisor's own children."""
        return [pid for pid in self.descendants() if parent_of(pid) == self.process.pid]

    def descendants(self):
        """Processes below the supervisor, zombies not counted."""
        table = {}
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            table[int(stat.parent.name)] = (int(fields[1]), fields[0])
        found, parents = [], {self.process.pid}
        while parents:
            children = {pid for pid, (parent, _) in table.items() if parent in parents}
            found += [pid for pid in children if table[pid][1] != "Z"]
            parents = children
        return found


def parent_of(pid):
    """0 when there is no such process any more."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def wait_for(condition, what):
    """For effects that no message announces."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def assert_works(guest, epoch):
    record = guest.controller.run("print('alive')")
    assert (record["status"], record["stdout"], record["epoch"]) == ("ok", "alive\n", epoch)
