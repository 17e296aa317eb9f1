"""A peer of the protocol that says what a test wants said: a client, or with scripted_guest.py a supervisor."""

import os
import socket

from limpet._connection import _zmtp

from tests.support.wire import KINDS, NAMES
from tests.wire import rawpack

FRAME = 32 << 20


class Refused(Exception):
    """An `error` message."""

    def __init__(self, body):
        super().__init__(body["message"])
        self.name, self.number = body["name"], body["number"]


class Peer:
    def __init__(self, path, timeout=120):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.socket.sendall(_zmtp.OPENING)
        self.zmtp = _zmtp.Peer(FRAME)
        self.frames = []
        self.last = 0
        while not self.zmtp.ready:
            self.receive_some()

    def receive_some(self):
        size = self.socket.recv_into(self.zmtp.space())
        if size == 0:
            raise EOFError
        self.zmtp.received(size)
        while (frame := self.zmtp.frame()) is not None:
            self.frames.append(bytes(frame))

    def send(self, kind, id, body):
        self.socket.sendall(_zmtp.pack(rawpack.message(KINDS[kind], id, body)))

    def receive(self):
        """The next message: its kind, id and body."""
        while not self.frames:
            self.receive_some()
        version, kind, id, body = rawpack.unpack(self.frames.pop(0))
        assert version == 1
        return NAMES.get(kind, kind), id, body

    def close(self):
        self.socket.close()


class Client(Peer):
    """Many requests may be under way: ask() returns an id, answer(id) waits for what comes of it."""

    def __init__(self, path):
        super().__init__(path)
        self.answers = {}

    def ask(self, kind, **body):
        self.last += 1
        self.send(kind, self.last, body)
        return self.last

    def answer(self, id):
        while id not in self.answers:
            kind, of, body = self.receive()
            self.answers[of] = kind, body
        kind, body = self.answers.pop(id)
        if kind == "error":
            raise Refused(body)
        return body

    def __call__(self, kind, **body):
        return self.answer(self.ask(kind, **body))

    def run(self, session, code, **more):
        return self.answer(self.ask_run(session, code, **more))

    def ask_run(self, session, code, **more):
        return self.ask("run", session=session, code=code, run_id=os.urandom(16).hex(), **more)
