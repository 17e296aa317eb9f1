"""A controller made of libzmq and msgpack that says what a test wants: the independent implementation that the clients
are tested with."""

import os
import queue
import socket
import threading

import msgpack
import zmq

from .newer import newer
from .wire import KINDS, NAMES

RUN_ID = "00112233445566778899aabbccddeeff"


def record(**fields):
    """A record with every field that a controller always sends."""
    whole = {
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
        "kind": "python",
        "duration": 0.001,
        "usage": {"cpu": 0.0, "peak_memory": 0},
    }
    unknown = fields.keys() - whole.keys() - {"restored", "between", "memory"}
    assert not unknown, unknown
    return whole | fields


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
    """A message of a client, and how to answer it."""

    def __init__(self, controller, peer, kind, id, body):
        self.controller, self.peer, self.kind, self.id, self.body = controller, peer, kind, id, body

    def send(self, kind, body):
        """``kind`` may be a number that no message has."""
        if self.controller.newer:
            body = newer(body)
        self.raw(msgpack.packb([1, KINDS.get(kind, kind), self.id, body]))

    def raw(self, *frames):
        self.controller.send([self.peer, *frames])

    def reply(self, **body):
        self.send("reply", body)

    def record(self, **fields):
        self.reply(**record(**{"run_id": self.body["run_id"], "session": self.body.get("session"), **fields}))

    def fail(self, number, name, message="why", **more):
        self.send("error", {"number": number, "name": name, "message": message, **more})


class Controller:
    """Answers on a thread of its own, each kind of message with a handler; what came is in `requests`.

    As a context manager it raises what a handler has raised.
    """

    def __init__(self, path, **handlers):
        self.path = str(path)
        self.requests = []
        self.seen = queue.Queue()  # the same, to wait for
        self.warning = None
        self.newer = False  # whether it says more than its clients know
        self.failure = None  # what a handler has raised
        self.handlers = {
            "hello": self.hello,
            "open": self.open,
            "run": lambda request: request.record(result=request.body["code"]),
            "interrupt": lambda request: request.reply(interrupted=False),
            "reset": lambda request: request.reply(epoch=2),
            "close": lambda request: request.reply(),
            "shutdown": lambda request: request.reply(),
            "checkpoint": self.checkpoint,
            "checkpoints": lambda request: request.reply(checkpoints=[]),
            "rollback": lambda request: request.reply(
                checkpoint="c1", execution_count=3, epoch=2, files="kept", not_restored=[]
            ),
            "drop": lambda request: request.reply(),
            "sleep": lambda request: request.reply(),
            "fork": self.fork,
            "branch": self.branch,
            "commit": lambda request: request.reply(execution_count=4, epoch=2),
            "namespace": lambda request: request.reply(names=[], more=0),
            "credit": lambda request: None,
            "answer": lambda request: None,
        } | handlers
        self._wake, self._woken = socket.socketpair()
        self._work = queue.Queue()
        self._thread = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *raised):
        self.stop()
        if self.failure:
            raise self.failure

    def on(self, kind, handler):
        assert kind in KINDS, kind
        self.handlers[kind] = handler
        return self

    def start(self):
        self._context = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._router.linger = 0
        self._router.bind(f"ipc://{self.path}")
        self._running = True
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def stop(self):
        """Goes away as a controller that is killed: connections end, nothing more is answered."""
        if self._thread is None:
            return
        self.do(self.vanish)
        self.wait_for_end()
        self._thread = None

    def vanish(self):
        """The same, for a handler."""
        self._running = False

    def wait_for_end(self):
        self._thread.join()

    def do(self, work):
        """Runs work() on the controller's thread, the only one that may use its socket."""
        self._work.put(work)
        self._wake.send(b"x")

    def send(self, frames):
        """From any thread."""
        if threading.current_thread() is self._thread:
            self._router.send_multipart(frames)
        else:
            self.do(lambda: self._router.send_multipart(frames))

    def wait(self, kind, timeout=20):
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
        given = {name: value for name, value in request.body.items() if name not in ("session", "attach")}
        request.reply(
            session=request.body["session"], instance="i1", created=not request.body.get("attach"), engine="local",
            options={"timeout": 30.0, **given},
        )  # fmt: skip

    def branch(self, request):
        body = request.body
        name = f"{body['session']}/{body['name']}"
        request.reply(session=name, instance=f"i-{body['name']}", created=True, engine="local", options={})

    def fork(self, request):
        opened = [dict(session=name, instance=f"i-{name}", created=True, engine="local", options={}) for name in request.body["names"]]
        request.reply(sessions=opened)

    def checkpoint(self, request):
        fields = {name: request.body[name] for name in ("session", "name", "files") if name in request.body}
        request.reply(checkpoint=checkpoint(**fields), dropped=[])

    def _serve(self):
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._woken, zmq.POLLIN)
        while self._running:
            ready = dict(poller.poll())
            if self._woken.fileno() in ready:
                self._woken.recv(1)
                self._work.get()()
            if self._router in ready:
                self._take()
        self._router.close()
        self._context.term()

    def _take(self):
        peer, *frames = self._router.recv_multipart()
        assert len(frames) == 1, "one message is one frame"
        version, kind, id, body = msgpack.unpackb(frames[0], strict_map_key=False)
        assert version == 1
        request = Request(self, peer, NAMES[kind], id, body)
        self.requests.append(request)
        self.seen.put(request)
        try:
            self.handlers[request.kind](request)
        except Exception as error:  # so that the test fails instead of waiting
            self.failure = error
            request.fail(1204, "Internal", f"the test's handler: {error!r}")
