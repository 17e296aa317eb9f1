"""Runs limpet-interpreter as the supervisor does: /dev/null, two pipes and a socketpair, one envelope behind
its length after the other. Everything that arrives is read by one selector loop, so nothing here can block.
"""

import array
import os
import selectors
import signal
import socket
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgpack

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LIMPET_BUILD", ROOT / "build" / "bin"))

DISPLAY, EXECUTE, EXECUTED, READY = 41, 62, 63, 65
DEADLINE = 60


class InterpreterDied(Exception):
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


class Interpreter:
    def __init__(self, directory=None, env=None):
        self.directory = Path(directory or tempfile.mkdtemp())
        self.count = 0
        self.incoming = bytearray()
        self.messages = []
        self.output = {1: bytearray(), 2: bytearray()}
        ours, theirs = socket.socketpair()
        self.channel = ours
        self.selector = selectors.DefaultSelector()
        self.selector.register(ours, selectors.EVENT_READ, "channel")
        self.pipes = {}
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

        def move_channel():
            os.dup2(theirs.fileno(), 3)
            os.set_inheritable(3, True)

        self.process = subprocess.Popen(
            [BUILD / "limpet-interpreter"],
            stdin=subprocess.DEVNULL,
            stdout=ends[0],
            stderr=ends[1],
            close_fds=False,  # all others are close-on-exec
            preexec_fn=move_channel,
            cwd=self.directory,
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        for end in ends:
            os.close(end)
        self.peer = self.wait(READY)[3]["peer"]

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

    @classmethod
    def has_matplotlib(cls):
        interpreter = cls()
        try:
            return interpreter.run("import matplotlib.pyplot").error is None
        finally:
            interpreter.close()

    # Receiving

    def pump(self, timeout):
        """Takes what there is, or waits for the first of it."""
        for key, _ in self.selector.select(timeout):
            if key.data == "channel":
                self.read_channel()
            else:
                self.read_stream(key)

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

    def read_channel(self):
        data = self.channel.recv(1 << 20)
        if not data:
            raise InterpreterDied(self.process.wait())
        self.incoming += data
        while len(self.incoming) >= 4:
            (size,) = struct.unpack(">I", self.incoming[:4])
            if len(self.incoming) < 4 + size:
                break
            frame = bytes(self.incoming[4 : 4 + size])
            del self.incoming[: 4 + size]
            self.messages.append(msgpack.unpackb(frame, raw=False, strict_map_key=False))

    def wait(self, kind, deadline=DEADLINE):
        """The next message of this kind; displays before it stay queued."""
        end = time.monotonic() + deadline
        while True:
            for i, message in enumerate(self.messages):
                if message[1] == kind:
                    return self.messages.pop(i)
            if time.monotonic() > end:
                raise TimeoutError(f"no message {kind}; stderr: {bytes(self.output[2])!r}")
            self.pump(end - time.monotonic())

    def wait_output(self, text, stream=1, deadline=DEADLINE):
        """Until the running cell has written this."""
        end = time.monotonic() + deadline
        while text.encode() not in self.output[stream]:
            if time.monotonic() > end:
                raise TimeoutError(f"{text!r} not in {bytes(self.output[stream])!r}")
            self.pump(end - time.monotonic())

    # Running cells

    def start(self, code, fds=()):
        self.count += 1
        body = {
            "code": code,
            "timeout": 30.0,
            "stream": True,
            "run_id": "0" * 32,
            "execution_count": self.count,
        }
        frame = msgpack.packb([1, EXECUTE, self.count, body], use_bin_type=True)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        frame = struct.pack(">I", len(frame)) + frame
        sent = self.channel.sendmsg([frame], ancillary)
        if sent < len(frame):
            self.channel.sendall(frame[sent:])

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

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def close(self):
        self.channel.close()
        try:
            self.process.wait(10)
        finally:
            for pipe in self.pipes.values():
                os.close(pipe)
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
            self.selector.close()
