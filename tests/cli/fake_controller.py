"""The fake controller as the command meets it.

In a test: FakeController(path). As a program: what `limpetd --detach` does, the first of several holding a lock until it
is told to shut down.
"""

import fcntl
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from tests.support import fake  # noqa: E402


def record(**fields):
    """The record of a call of no session that printed nothing."""
    unprotected = {"level": "none", "execution_count": None, "reason": "checkpoint is off"}
    usage = {"cpu": 0.001, "peak_memory": 1 << 20}
    return fake.record(**{"session": None, "state_protection": unprotected, "usage": usage, **fields})


class FakeController(fake.Controller):
    """Runs as soon as it is made, so that a test may end it and make another one."""

    def __init__(self, path, warning=None, newer=False, **handlers):
        """``newer``: it says more than its clients know."""
        super().__init__(path, **handlers)
        self.warning = warning
        self.newer = newer
        self.start()

    def __enter__(self):
        return self


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
    controller.wait_for_end()
    return 0


if __name__ == "__main__":
    assert sys.argv[1:] == ["--detach"], sys.argv
    sys.exit(detach())
