"""Runs limpet-interpreter as the supervisor does: /dev/null, two pipes and a socketpair, one envelope behind
its length after the other. Everything that arrives is read by one selector loop, so nothing here can block.

Like the supervisor the test process is a child subreaper while these tests run, so that the copies that interpreters
make of themselves become its children, and learns from the kernel who says `frozen` and `ready`.
"""

import array
import contextlib
import ctypes
import os
import selectors
import signal
import socket
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgpack

from tests.support import ROOT
from tests.support.waiting import until_it_waits
from tests.support.wire import CHECKPOINT, CHECKPOINTED, DISPLAY, EXECUTE, EXECUTED, FROZEN, READY, RESTORE, SAVE

BUILD = Path(os.environ.get("LIMPET_BUILD", ROOT / "build" / "bin"))

# Where it is Python's own program, this makes an interpreter of it.
LIBRARY = BUILD / "limpet-interpreter.so"

# Makes frozen copies of files; not for sanitizers.
LOADER = BUILD / "limpet-interpreter-loader"

# A root file system to run interpreters in, such as an image's for another Python; the build and the temporary
# directory are where they are here.
ROOTFS = os.environ.get("LIMPET_TEST_ROOTFS")

DEADLINE = 60

PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def subreaper():
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0)


# Whatever this process was started with is not for interpreters.
for number in os.listdir("/proc/self/fd"):
    if int(number) > 2 and os.path.exists(f"/proc/self/fd/{number}"):
        os.set_inheritable(int(number), False)


class InterpreterDied(Exception):
    pass


class CheckpointFailed(Exception):
    pass


@dataclass
class Reply:
    stdout: str
    stderr: str
    displays: list
    body: dict
    result: str = None
    error: dict = None
    spawned: bool = False


@dataclass
class Process:
    """One that became our child when its parent ended; as subprocess.Popen, as far as it is used here."""

    pid: int
    returncode: int = None

    def wait(self, timeout=DEADLINE):
        end = time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            else:
                time.sleep(0.001)
        return self.returncode


class Channel:
    """The supervisor's end of one."""

    def __init__(self):
        self.socket, self.theirs = socket.socketpair()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.incoming = bytearray()
        self.messages = []
        self.senders = {}  # kind: the process that sent the last of it

    def fileno(self):
        return self.socket.fileno()

    def send(self, kind, id, body, fds=()):
        frame = msgpack.packb([1, kind, id, body], use_bin_type=True)
        frame = struct.pack(">I", len(frame)) + frame
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self.socket.sendmsg([frame], ancillary)
        if sent < len(frame):
            self.socket.sendall(frame[sent:])

    def receive(self):
        """Takes what there is; False at the end."""
        data, ancillary, _, _ = self.socket.recvmsg(1 << 20, 64)
        for value in [value for _, kind, value in ancillary if kind == socket.SCM_RIGHTS]:
            os.close(*struct.unpack("i", value))  # what tells of the memory of a frozen copy
        if not data:
            return False
        credentials = next(value for _, kind, value in ancillary if kind == socket.SCM_CREDENTIALS)
        sender = struct.unpack("iii", credentials)[0]
        self.incoming += data
        while len(self.incoming) >= 4:
            (size,) = struct.unpack(">I", self.incoming[:4])
            if len(self.incoming) < 4 + size:
                break
            frame = bytes(self.incoming[4 : 4 + size])
            del self.incoming[: 4 + size]
            message = msgpack.unpackb(frame, raw=False, strict_map_key=False)
            self.senders[message[1]] = sender
            self.messages.append(message)
        return True

    def take(self, kind):
        for i, message in enumerate(self.messages):
            if message[1] == kind:
                return self.messages.pop(i)

    def wait(self, kind, deadline=DEADLINE):
        self.socket.settimeout(deadline)
        try:
            while (message := self.take(kind)) is None:
                if not self.receive():
                    raise InterpreterDied("its channel was closed")
            return message
        finally:
            self.socket.settimeout(None)

    def close(self):
        self.socket.close()
        self.theirs.close()


class Peer:
    """A process with a channel and two pipes."""

    process = None

    def __init__(self):
        self.channel = Channel()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.channel, selectors.EVENT_READ, "channel")
        self.output = {1: bytearray(), 2: bytearray()}
        self.pipes = {}
        self.count = 0
        self.frozen = []

    def new_pipe(self, number):
        """A pipe for a stream, in place of the one there was; returns the write end."""
        old = self.pipes.pop(number, None)
        if old is not None:
            self.selector.unregister(old)
            os.close(old)
        read, write = os.pipe()
        self.pipes[number] = read
        self.selector.register(read, selectors.EVENT_READ, number)
        return write

    @property
    def messages(self):
        return self.channel.messages

    # Receiving

    def pump(self, timeout):
        """Takes what there is, or waits for the first of it."""
        for key, _ in self.selector.select(timeout):
            if key.data != "channel":
                self.read_stream(key)
            elif not self.channel.receive():
                raise InterpreterDied(self.process and self.process.wait())

    def pump_output(self, timeout):
        """The same for the streams alone, when the interpreter is gone."""
        for key, _ in self.selector.select(timeout):
            if key.data != "channel":
                self.read_stream(key)

    def read_stream(self, key):
        data = os.read(key.fd, 1 << 20)
        self.output[key.data] += data
        if not data:
            self.selector.unregister(key.fd)

    def wait(self, kind, deadline=DEADLINE):
        """The next message of this kind; others before it stay queued."""
        end = time.monotonic() + deadline
        while (message := self.channel.take(kind)) is None:
            if time.monotonic() > end:
                raise TimeoutError(f"no message {kind}; stderr: {bytes(self.output[2])!r}")
            self.pump(end - time.monotonic())
        return message

    def wait_output(self, text, stream=1, deadline=DEADLINE):
        """Until the running cell has written this."""
        end = time.monotonic() + deadline
        while text.encode() not in self.output[stream]:
            if time.monotonic() > end:
                raise TimeoutError(f"{text!r} not in {bytes(self.output[stream])!r}")
            self.pump(end - time.monotonic())

    # Running cells

    def start(self, code, fds=(), asks=False, script=False):
        self.count += 1
        body = {"code": code, "run_id": "0" * 32, "execution_count": self.count, "asks": asks}
        if script:
            body["script"] = True
        self.channel.send(EXECUTE, self.count, body, fds)

    def finish(self, deadline=DEADLINE):
        message = self.wait(EXECUTED, deadline)
        assert message[0] == 1 and message[2] == self.count
        # All output was written before the message, so that what can be read now is all of it.
        while any(key.data != "channel" for key, _ in self.selector.select(0)):
            self.pump(0)
        body = message[3]
        reply = Reply(
            stdout=self.output[1].decode(),
            stderr=self.output[2].decode(),
            displays=[m[3] for m in self.messages if m[1] == DISPLAY],
            body=body,
            result=body["result"],
            error=body["error"],
            spawned=body["spawned"],
        )
        self.messages.clear()
        self.output = {1: bytearray(), 2: bytearray()}
        return reply

    def run(self, code, fds=(), deadline=DEADLINE):
        self.start(code, fds)
        return self.finish(deadline)

    def script(self, code):
        """Runs code that nothing follows."""
        self.start(code, script=True)
        return self.finish()

    def value(self, code):
        """What the last expression evaluates to; for plain values."""
        reply = self.run(code)
        assert reply.error is None, reply.error["traceback"]
        return eval(reply.result, {}) if reply.result is not None else None

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def interrupt_wait(self):
        """Interrupts what waits, once it does."""
        until_it_waits(self.process.pid)
        self.interrupt()

    # Checkpoints

    def checkpoint(self, deadline=DEADLINE, automatic=False):
        frozen = Frozen()
        self.frozen.append(frozen)
        self.channel.send(CHECKPOINT, 7, {"automatic": automatic}, [frozen.channel.theirs.fileno()])
        frozen.channel.theirs.close()
        error = self.wait(CHECKPOINTED, deadline)[3]["error"]
        if error is not None:
            raise CheckpointFailed(error)
        frozen.begin(deadline)
        frozen.count = self.count
        return frozen

    def end(self):
        """Kills it as the supervisor does."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self):
        for frozen in self.frozen:
            frozen.close()
        self.channel.close()
        try:
            if self.process:
                self.end_group()
        finally:
            while self.pipes:
                os.close(self.pipes.popitem()[1])
            self.selector.close()

    def end_group(self):
        try:
            self.process.wait(DEADLINE)
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()


class Interpreter(Peer):
    """With `only_env` nothing else is in its environment; `memory` is that of the sandbox, bytes, 0: unlimited."""

    def __init__(self, directory=None, env=None, prepare=lambda: None, only_env=None, memory=0):
        super().__init__()
        self.directory = Path(directory or tempfile.mkdtemp())
        ends = [self.new_pipe(1), self.new_pipe(2)]
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "MPLBACKEND": "Agg",
            "HOME": str(self.directory),
            "MPLCONFIGDIR": os.path.join(tempfile.gettempdir(), "limpet-test-mpl"),
            # Python keeps what it allocated, and some tests run out of memory or crash on purpose.
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=0",
            "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
            **(env or {}),
        }
        if only_env is not None:
            environment = only_env
        if LIBRARY.exists():
            environment = {**environment, "LD_PRELOAD": ":".join(filter(None, [str(LIBRARY), environment.get("LD_PRELOAD")]))}

        def move_channel():
            os.dup2(self.channel.theirs.fileno(), 3)
            os.set_inheritable(3, True)
            if ROOTFS:
                os.chroot(ROOTFS)
                os.chdir(self.directory)
            prepare()

        self.process = subprocess.Popen(
            [BUILD / "limpet-interpreter", str(memory)],
            stdin=subprocess.DEVNULL,
            stdout=ends[0],
            stderr=ends[1],
            close_fds=False,  # all others are close-on-exec
            preexec_fn=move_channel,
            cwd=self.directory,
            env=environment,
            start_new_session=True,
        )
        self.channel.theirs.close()
        for end in ends:
            os.close(end)
        self.peer = self.wait(READY)[3]["peer"]

    @classmethod
    def has_matplotlib(cls):
        interpreter = cls()
        try:
            return interpreter.run("import matplotlib.pyplot").error is None
        finally:
            interpreter.close()


class Restored(Peer):
    """An interpreter that was brought back."""

    def __init__(self, frozen, said):
        super().__init__()
        ends = [self.new_pipe(1), self.new_pipe(2)]
        frozen.channel.send(RESTORE, 9, said, [self.channel.theirs.fileno(), *ends])
        self.channel.theirs.close()
        for end in ends:
            os.close(end)
        message = self.wait_ready(frozen)
        assert message[2] == 9
        self.ready = message[3]
        self.peer, self.not_restored = self.ready["peer"], self.ready["not_restored"]
        self.process = Process(self.channel.senders[READY])
        self.count = frozen.count

    def wait_ready(self, frozen):
        """`ready` of the new process, or the frozen one's reason why there is none."""
        try:
            return self.wait(READY)
        except InterpreterDied:
            self.close()
            raise CheckpointFailed(frozen.channel.wait(CHECKPOINTED)[3]["error"]) from None


@dataclass
class Frozen:
    """A frozen copy."""

    channel: Channel = field(default_factory=Channel)
    process: Process = None
    count: int = 0
    restored: list = field(default_factory=list)

    def begin(self, deadline):
        assert self.channel.wait(FROZEN, deadline)[2] == 7
        self.process = Process(self.channel.senders[FROZEN])

    def restore(self, branched=False, **said):
        self.restored.append(Restored(self, {"branched": branched, **said}))
        return self.restored[-1]

    def save(self, directory, shares=False):
        """Has it write its memory, or what of it is not in its image; why it could not, or None."""
        fd = os.open(directory, os.O_PATH)
        self.channel.send(SAVE, 2 if shares else 1, {}, [fd])
        os.close(fd)
        return self.channel.wait(SAVE)[3]["error"]

    def drop(self):
        """Gives the copy up; its exit status."""
        self.channel.close()
        return self.process.wait()

    @classmethod
    def of_file(cls, path, directory, count=0, shared=False, image=None):
        """A copy that the loader makes, as the supervisor starts it; CheckpointFailed where it refuses. ``image``: a
        descriptor."""
        frozen = cls(count=count)

        def move_channel():
            os.dup2(frozen.channel.theirs.fileno(), 3)
            os.set_inheritable(3, True)
            if shared:
                os.dup2(os.open(path, os.O_RDONLY), 4)
            if image:
                os.dup2(image, 5)

        loader = subprocess.Popen(
            [LOADER, *([] if shared else [path])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,  # all others are close-on-exec
            preexec_fn=move_channel,
            cwd=directory,
            env={},
            start_new_session=True,
        )
        frozen.channel.theirs.close()
        try:
            frozen.channel.wait(FROZEN)
        except InterpreterDied as died:
            loader.wait()
            refusal = frozen.channel.take(CHECKPOINTED)
            frozen.channel.close()
            raise CheckpointFailed(refusal and refusal[3]["error"]) from died
        frozen.process = loader
        return frozen

    def close(self):
        for restored in self.restored:
            restored.close()
        self.channel.close()
        if self.process:
            self.process.wait(DEADLINE)
