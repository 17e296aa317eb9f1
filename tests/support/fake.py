"""A controller made of libzmq and msgpack: the independent implementation that the client is tested with."""

import os
import queue
import socket
import threading

import msgpack
import zmq

from .newer import newer
from .wire import (
    BRANCH,
    CHECKPOINT,
    CHECKPOINTS,
    CLOSE,
    COMMIT,
    CREDIT,
    DROP,
    ERROR,
    HELLO,
    INTERRUPT,
    NAMESPACE,
    OPEN,
    REPLY,
    RESET,
    ROLLBACK,
    RUN,
    SHUTDOWN,
)  # fmt: skip

RUN_ID = "00112233445566778899aabbccddeeff"


def record(**fields):
    """A record with every field, as a controller sends it."""
    return {
        "run_id": RUN_ID,
        "session": "a",
        "engine": "local",
        "execution_count": 1,
        "status": "ok",
        "state": "kept",
        "rolled_back_to": None,
        "not_restored": [],
        "state_protection": {"level": "checkpoint", "execution_count": 0, "reason": None},
        "changed": None,
        "epoch": 1,
        "stdout": "",
        "stderr": "",
        "stdout_bytes": 0,
        "stderr_bytes": 0,
        "truncated": False,
        "stdout_file": None,
        "stderr_file": None,
        "result": None,
        "displays": [],
        "error": None,
        "signal": None,
        "exit_code": None,
        "artifacts": {},
        "artifact_info": {},
        "skipped": {},
        "duration": 0.001,
        "usage": {"cpu": 0.0, "peak_memory": 0},
        **fields,
    }


def checkpoint(**fields):
    return {
        "id": "c1",
        "name": None,
        "session": "a",
        "execution_count": 3,
        "created": 1.5,
        "automatic": False,
        "files": False,
        "private_bytes": 4096,
        "parent": None,
        **fields,
    }


class Request:
    def __init__(self, controller, peer, kind, number, body):
        self.controller, self.peer, self.kind, self.number, self.body = controller, peer, kind, number, body

    def send(self, kind, body):
        if self.controller.newer:
            body = newer(body)
        self.controller.send([self.peer, msgpack.packb([1, kind, self.number, body])])

    def reply(self, **body):
        self.send(REPLY, body)

    def record(self, **fields):
        self.send(
            REPLY, record(**{"run_id": self.body["run_id"], "session": self.body.get("session"), **fields})
        )

    def fail(self, number, name, message="why", **more):
        self.send(ERROR, {"number": number, "name": name, "message": message, **more})


class Controller:
    """Answers on a thread of its own. Tests replace handlers with on(); what came is in `requests`."""

    def __init__(self, path):
        self.path = str(path)
        self.requests = []
        self.seen = queue.Queue()  # the same, to wait for
        self.warning = None
        self.newer = False  # whether it says more than its clients know
        self.handlers = {
            HELLO: self.hello,
            OPEN: self.open,
            RUN: lambda request: request.record(result=request.body["code"]),
            INTERRUPT: lambda request: request.reply(interrupted=False),
            RESET: lambda request: request.reply(epoch=2),
            CLOSE: lambda request: request.reply(),
            SHUTDOWN: lambda request: request.reply(),
            CHECKPOINT: self.checkpoint,
            CHECKPOINTS: lambda request: request.reply(checkpoints=[]),
            ROLLBACK: lambda request: request.reply(
                checkpoint="c1", execution_count=3, epoch=2, files="kept", not_restored=[]
            ),
            DROP: lambda request: request.reply(),
            BRANCH: self.branch,
            COMMIT: lambda request: request.reply(execution_count=4, epoch=2),
            NAMESPACE: lambda request: request.reply(names=[], more=0),
            CREDIT: lambda request: None,
        }
        self._wake, self._woken = socket.socketpair()
        self._work = queue.Queue()
        self._thread = None

    def on(self, kind, handler):
        self.handlers[kind] = handler
        return self

    def start(self):
        self._context = zmq.Context()
        self.router = self._context.socket(zmq.ROUTER)
        self.router.linger = 0
        self.router.bind(f"ipc://{self.path}")
        self._running = True
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def stop(self):
        """Goes away as a controller that is killed: connections end, nothing more is answered."""
        if self._thread is None:
            return
        self.do(self._end)
        self._thread.join()
        self._thread = None
        self.router.close()
        self._context.term()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def do(self, work):
        """Runs work() on the controller's thread, the only one that may use its socket."""
        self._work.put(work)
        self._wake.send(b"x")

    def send(self, frames):
        """From any thread."""
        if threading.current_thread() is self._thread:
            self.router.send_multipart(frames)
        else:
            self.do(lambda: self.router.send_multipart(frames))

    def wait(self, kind, timeout=10):
        """The next request of that kind."""
        while True:
            request = self.seen.get(timeout=timeout)
            if request.kind == kind:
                return request

    def bodies(self, kind):
        return [request.body for request in self.requests if request.kind == kind]

    def hello(self, request):
        request.reply(
            protocol=1, peer="fake/1", pid=os.getpid(), engine="local", image=None, warning=self.warning,
            features=["asks", "of-the-future"],
        )

    def open(self, request):
        options = {"timeout": 30.0, **{k: v for k, v in request.body.items() if k != "session"}}
        request.reply(
            session=request.body["session"], instance="i1", created=True, engine="local", options=options
        )

    def branch(self, request):
        body = request.body
        name = f"{body['session']}/{body['name']}"
        request.reply(session=name, instance=f"i-{body['name']}", created=True, engine="local", options={})

    def checkpoint(self, request):
        fields = {name: request.body[name] for name in ("session", "name", "files") if name in request.body}
        request.reply(checkpoint=checkpoint(**fields), dropped=[])

    def _end(self):
        self._running = False

    def _serve(self):
        poller = zmq.Poller()
        poller.register(self.router, zmq.POLLIN)
        poller.register(self._woken, zmq.POLLIN)
        while self._running:
            ready = dict(poller.poll())
            if self._woken.fileno() in ready:
                self._woken.recv(1)
                self._work.get()()
            if self.router in ready:
                self._take()

    def _take(self):
        peer, *frames = self.router.recv_multipart()
        assert len(frames) == 1, "one message is one frame"
        version, kind, number, body = msgpack.unpackb(frames[0])
        assert version == 1
        request = Request(self, peer, kind, number, body)
        self.requests.append(request)
        self.seen.put(request)
        try:
            self.handlers[kind](request)
        except Exception as error:  # so that the test fails instead of waiting
            request.fail(1204, "Internal", f"the test's handler: {error!r}")
