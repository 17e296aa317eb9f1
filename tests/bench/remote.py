"""Clients on other machines, over loopback."""
import contextlib
import os
import socket
import time
from pathlib import Path

import limpet
from figures import BYTES, Row, at_most, value_at_most
from latency import Sum
from memory import proportional
from programs import ECHO_BYTES, Program, PythonCalls, at, c_calls, interleaved
from runner import Group, LeftOut
from sessions import LINE, settled

try:
    import zmq
except ImportError:
    zmq = None

GROUP = Group("remote", __doc__)
IDLE = 100  # connections
CLOSE = 1 << 16
PATIENCE = 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Door:
    """A controller that listens, and a key that it lets in."""

    def __init__(self, bench):
        if zmq is None:
            raise LeftOut("pyzmq is not installed")
        if not (bench.build / "limpet-net").exists():
            raise LeftOut("Limpet was built without libzmq")
        self.bench = bench
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.public, self.secret = (key.decode() for key in zmq.curve_keypair())
        self.key = Path(bench.scratch, "remote.key_secret")
        self.key.write_text(f'public-key = "{self.public}"\nsecret-key = "{self.secret}"\n')
        self.keys = Path(bench.scratch, "authorized_keys")
        self.keys.write_text(f"{self.public} owner={os.geteuid()} connections={2 * IDLE}\n")
        self.keys.chmod(0o644)

    @contextlib.contextmanager
    def opened(self):
        with self.bench.controller(LIMPET_LISTEN=self.address, LIMPET_AUTHORIZED_KEYS=str(self.keys),
                                   LIMPET_LISTEN_CONNECTIONS=str(2 * IDLE)) as controller:
            self.controller = controller
            yield controller

    def client(self):
        """Once the process has its key."""
        secret, end = Path(self.controller.limpetd.directory, "state", "limpet-net.key_secret"), time.monotonic() + PATIENCE
        while not (secret.exists() and "secret-key" in secret.read_text()) and time.monotonic() < end:
            time.sleep(0.02)
        self.server = next(line for line in secret.read_text().splitlines() if "public-key" in line).split('"')[1]
        return limpet.Client(self.address, key=self.key, server_key=self.server)

    def environment(self):
        """Of a client for C, after the first one."""
        return {**os.environ, "LIMPET_SOCKET": self.address, "LIMPET_KEY": str(self.key), "LIMPET_SERVER_KEY": self.server}

    def processes(self):
        """Those that hold connections: limpet-net, and the controller."""
        first, found = self.controller.process.pid, []
        for pid in [first, *_children(first)]:
            found += [child for child in _children(pid) if _name(child) == "limpet-net"]
        return {first, *(pid for pid in _children(first) if _name(pid) == "limpetd"), *found}


def _children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _name(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


@GROUP.case(
    Row("remote.call", "One call `x = x + 1` through the C client over loopback with CURVE, median, to an echo of 100 bytes by "
        "libzmq with CURVE and the same call over the local socket, medians added.", at_most(1.25)),
    Row("remote.call.python", "One call `x = x + 1` through the Python client over loopback with CURVE, median, to that echo "
        "and its call over the local socket, medians added."),
)
def call(bench):
    door, figures = Door(bench), {}
    with door.opened() as controller, controller.session("bench-remote") as session, door.client() as client, \
            Program(bench.build / "bench-curve", ECHO_BYTES, env=None) as echo, \
            c_calls(bench, controller, session.name, LINE) as local, \
            Program(bench.build / "bench-call", session.name, LINE, env=door.environment()) as remote:
        session.run("x = 0")
        python = PythonCalls(client.attach(session.name), LINE)
        for name, floor, subject in (("remote.call", local, remote),
                                     ("remote.call.python", PythonCalls(session, LINE), python)):
            figures[name] = at(0.5, interleaved(Sum(echo, floor.block), subject, bench.rounds, bench.args.calls))
    return figures


@GROUP.case(
    Row("remote.idle", f"Memory of the controller and the network process for each of {IDLE} idle connections of clients that have "
        "said hello.", value_at_most(64 << 10), unit=BYTES),
)
def idle(bench):
    door = Door(bench)
    with door.opened(), contextlib.ExitStack() as clients:
        clients.enter_context(door.client()).sessions()
        before = settled(lambda: proportional(door.processes()), CLOSE)
        for _ in range(IDLE):
            clients.enter_context(door.client()).sessions()
        return {"remote.idle": [((settled(lambda: proportional(door.processes()), CLOSE) - before) / IDLE, None)]}
