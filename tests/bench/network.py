"""What a request of sandboxed code pays for the way through the host's egress process."""
import subprocess
import sys
from contextlib import contextmanager

from figures import Row, at_most
from programs import at, interleaved
from runner import Group
from sessions import HERE, Helper, value
from tests.support.web import serving

GROUP = Group("network", __doc__)
FETCH = HERE / "fetch.py"
PATH = "/bytes/1048576"
REQUESTS = 40  # in one block


class Direct:
    """The same program beside the server, outside of any container."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([sys.executable, FETCH, *arguments], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def block(self, count, gap=0.0):
        print(count, file=self.process.stdin, flush=True)
        return [int(t) * 1e-9 for t in self.process.stdout.readline().split()]

    def end(self):
        self.process.communicate()


class Through:
    """In a session, through the proxy that its environment names."""

    def __init__(self, session, address, *how):
        proxy = value(session, "import os; os.environ['http_proxy'].removeprefix('http://')")
        self.helper = Helper(session, FETCH, address, PATH, proxy, *how)

    def block(self, count, gap=0.0):
        return self.helper.ask(count)


@contextmanager
def direct(address):
    program = Direct(address, PATH)
    try:
        yield program
    finally:
        program.end()


def measured(bench, name, *how):
    with serving() as server, direct(server.address) as floor, \
            bench.main.session(name, cpus=2, network={"allow": [server.address]}) as session:
        return at(0.5, interleaved(floor, Through(session, server.address, *how), bench.rounds, REQUESTS))


@GROUP.case(
    Row("network.tunnel", "A megabyte from a server of this machine over a kept connection, through `CONNECT`, median, to the same "
        "program outside of the container without a proxy.", at_most(1.5)),
)
def tunnel(bench):
    return {"network.tunnel": measured(bench, "bench-network-tunnel", "tunnel")}


@GROUP.case(
    Row("network.request", "A megabyte from a server of this machine over kept connections, as a plain HTTP request, median, to the "
        "same program outside of the container without a proxy.", at_most(1.5)),
)
def request(bench):
    return {"network.request": measured(bench, "bench-network-request")}
