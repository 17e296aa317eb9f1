"""A controller that commands reach: an `ssh`, a `docker` and a `kubectl` of the tests, and a network that holds and breaks."""

import os
import pathlib
import socket
import subprocess
import sys
import threading

LIMPET = os.path.abspath(os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet"))
ADDRESSES = {
    "ssh": "ssh://me@there:2222",
    "docker": "docker://tcp://there:2376",
    "kubectl": "kubernetes://arn:aws/there/space",
}
PROGRAM = """#!/bin/sh
printf '%s\\n' "{name} $*" >> {log}
exec env LIMPET_SOCKET={socket} {limpet} dial-stdio
"""
CARRY = """
import socket, sys, threading
try:
    there = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
except OSError as error:
    sys.exit(f"no way there: {error.strerror}")
def up():
    while piece := sys.stdin.buffer.read1(65536):
        there.sendall(piece)
    there.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while piece := there.recv(65536):
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
"""


def programs(directory, socket):
    """Makes them; returns the file that has how they were called."""
    log = directory / "called"
    log.touch()
    for name in ADDRESSES:
        path = directory / name
        path.write_text(PROGRAM.format(name=name, log=log, socket=socket, limpet=LIMPET))
        path.chmod(0o755)
    return log


class Network:
    """Between a command and `limpet dial-stdio` there: a port of this machine. Its address is that of the command."""

    def __init__(self, directory, path):
        self._path = path
        self._free = threading.Event()
        self._free.set()
        self._ways = []
        self.held = threading.Event()  # something waits
        self.refused = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        script = pathlib.Path(directory, "carry.py")
        script.write_text(CARRY)
        self._count = pathlib.Path(directory, "dialled")
        self._count.touch()
        self.address = f"exec:echo >> {self._count}; exec {sys.executable} {script} {self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def dialled(self):
        """How often the command was run."""
        return len(self._count.read_bytes())

    def hold(self):
        self.held.clear()
        self._free.clear()

    def go_on(self):
        self._free.set()

    def sever(self):
        """What there is breaks off, and nobody gets through until it is mended."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for way in self._ways:
            for end in way:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self._ways = []

    def mend(self):
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        listener = self._listener
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far, theirs = socket.socketpair()
            subprocess.Popen([LIMPET, "dial-stdio"], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env={**os.environ, "LIMPET_SOCKET": self._path})
            theirs.close()
            self._ways.append((near, far))
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source, target):
        try:
            while piece := source.recv(65536):
                if not self._free.is_set():
                    self.held.set()
                    self._free.wait()
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass
