"""A controller that says what a test wants: the ROUTER side of proto/PROTOCOL.md, and nothing behind it.

In a test: FakeController(path) in a thread of its own. As a program: what `limpetd --detach` does, the first of
several holding a lock until it is told to shut down.
"""

import fcntl
import os
import queue
import sys
import threading

import msgpack
import zmq

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from tests.support.newer import newer  # noqa: E402
from tests.support.wire import KINDS, NAMES  # noqa: E402

VERSION = 1


def record(**changes):
    """The record of a call that printed nothing."""
    fields = dict(
        run_id="0" * 32, session=None, engine="local", execution_count=1, status="ok", state="kept",
        rolled_back_to=None, not_restored=[],
        state_protection={"level": "none", "execution_count": None, "reason": "checkpoint is off"}, changed=None,
        epoch=1, stdout="", stderr="", stdout_bytes=0, stderr_bytes=0, truncated=False,
        stdout_file=None, stderr_file=None, result=None, displays=[], error=None, signal=None, exit_code=None,
        artifacts={}, artifact_info={}, skipped={}, duration=0.001, usage={"cpu": 0.001, "peak_memory": 1 << 20},
    )
    unknown = changes.keys() - fields.keys()
    assert not unknown, unknown
    return fields | changes


class Request:
    """A message of a client, and how to answer it."""

    def __init__(self, controller, peer, kind, number, body):
        self.controller, self.peer, self.kind, self.id, self.body = controller, peer, kind, number, body

    def send(self, kind, body):
        if self.controller.newer:
            body = newer(body)
        self.raw(msgpack.packb([VERSION, KINDS[kind], self.id, body]))

    def raw(self, frame):
        self.controller.socket.send_multipart([self.peer, frame])

    def reply(self, **body):
        self.send("reply", body)

    def error(self, number, name, message, **more):
        self.send("error", dict(number=number, name=name, message=message, **more))


class FakeController:
    """Answers each kind of message with the function that `handlers` has for it; keeps every message."""

    def __init__(self, path, warning=None, newer=False, **handlers):
        """``newer``: it says more than its clients know."""
        self.path = str(path)
        self.warning = warning
        self.newer = newer
        self.handlers = {"hello": self.hello, "open": self.open, "credit": lambda request: None,
                         "answer": lambda request: None} | handlers
        self.requests = queue.Queue()
        self.running = True
        self.started = threading.Event()
        self.failure = None
        self.stop_read, self.stop_write = os.pipe()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        assert self.started.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.stop()
        if self.failure:
            raise self.failure

    def hello(self, request):
        request.reply(protocol=VERSION, peer="fake/1", pid=os.getpid(), engine="local", image=None,
                      warning=self.warning, features=["asks", "of-the-future"])

    def open(self, request):
        request.reply(session=request.body["session"], instance="i1", created=True, engine="local", options={})

    def serve(self):
        context = zmq.Context()
        self.socket = context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(f"ipc://{self.path}")
        self.started.set()
        poller = zmq.Poller()
        poller.register(self.socket, zmq.POLLIN)
        poller.register(self.stop_read, zmq.POLLIN)
        try:
            while self.running:
                ready = dict(poller.poll())
                if self.stop_read in ready:
                    break
                self.take()
        except Exception as failure:
            self.failure = failure
        self.socket.close(linger=0)
        context.term()

    def take(self):
        peer, frame = self.socket.recv_multipart()
        version, number, request_id, body = msgpack.unpackb(frame, strict_map_key=False)
        assert version == VERSION
        kind = NAMES[number]
        request = Request(self, peer, kind, request_id, body)
        self.requests.put(request)
        self.handlers[kind](request)

    def wait_for(self, kind):
        """The next message of that kind."""
        while True:
            request = self.requests.get(timeout=20)
            if request.kind == kind:
                return request

    def all(self, kind):
        """The messages of that kind that nobody has waited for."""
        return [request for request in list(self.requests.queue) if request.kind == kind]

    def vanish(self):
        """To be called by a handler: the socket is closed as when the process dies."""
        self.running = False

    def stop(self):
        os.write(self.stop_write, b".")
        self.thread.join(20)
        assert not self.thread.is_alive()
        os.close(self.stop_read)
        os.close(self.stop_write)


def running(limpet, **fields):
    """A controller for the `limpet` of a test that answers every run with this record."""
    return FakeController(limpet.socket, run=lambda request: request.reply(**record(**fields)))


def streaming(*events, **fields):
    """A handler of run: output events, then the record."""

    def run(request):
        for stream, data in events:
            request.send("output", {"stream": stream, "data": data})
        request.reply(**record(**fields))

    return run


def detach():
    """As limpetd --detach: returns when the socket answers, ours or that of one that was first."""
    path = os.environ["LIMPET_SOCKET"]
    lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    answer, ready = os.pipe()
    with open(path + ".started", "a") as log:
        log.write("started\n")
    if os.fork() > 0:
        os.close(ready)
        return 0 if os.read(answer, 1) == b"!" else 1
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(ready, b"!")
        return 0

    def run(request):
        request.reply(**record(stdout="autostarted\n", stdout_bytes=12, run_id=request.body["run_id"]))

    def shutdown(request):
        request.reply()
        request.controller.vanish()

    controller = FakeController(path, run=run, shutdown=shutdown)
    os.write(ready, b"!")
    controller.thread.join()
    return 0


if __name__ == "__main__":
    assert sys.argv[1:] == ["--detach"], sys.argv
    sys.exit(detach())
