"""Whatever one pod, or one session, takes of limpet-egress, others have their share."""

import contextlib
import os
import socket

import pytest

from limpet.kubernetes import _egress
from tests.support.ports import free_port
from tests.support.web import is_open, serving

PATIENCE = 60
ARRIVALS = 256  # that may have said nothing


@pytest.fixture
def stack():
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def arrive(standin, stack):
    """arrive(address): a connection from there, which may say the rules of a session."""
    standin.until_egress()

    def arrive(address, session=None, *allow):
        stream = socket.create_connection((standin.address, standin.egress_port), PATIENCE, (address, 0))
        stack.enter_context(stream)
        if session is not None:
            rules = {"label": session, "allow": list(allow), "bindings": {}}
            sealed = _egress._sealed(standin.egress_key.read_bytes(), rules).encode()
            stream.sendall(len(sealed).to_bytes(4, "big") + sealed)
        return stream

    return arrive


def asked(stream, server):
    """The status of a server's answer."""
    stream.sendall(f"GET http://{server.address}/ HTTP/1.1\r\nHost: {server.address}\r\n\r\n".encode())
    return int(stream.recv(4096).split()[1])


def test_a_pod_that_says_nothing_keeps_nobody_waiting(arrive):
    with serving() as server:
        quiet = [arrive("127.0.0.3") for _ in range(5)]
        flood = [arrive("127.0.0.2") for _ in range(2 * ARRIVALS)]
        assert asked(arrive("127.0.0.4", "honest", server.address), server) == 200
        assert all(map(is_open, quiet))
        assert sum(map(is_open, flood)) == ARRIVALS - len(quiet) - 1


def test_a_session_with_many_connections_leaves_some_to_others(arrive, standin):
    descriptors, most = 620, 100
    standin.start_egress(None, "prlimit", f"--nofile={descriptors}:{descriptors}")
    standin.until_egress()
    try:
        with serving() as server:
            few = [arrive("127.0.0.3", "few", server.address) for _ in range(5)]
            many = [arrive("127.0.0.2", "many", server.address) for _ in range(most)]
            assert asked(arrive("127.0.0.3", "few", server.address), server) == 200
            assert asked(many[-1], server) == 200
            assert all(map(is_open, few))
            assert sum(map(is_open, many)) == most - len(few) - 1
    finally:
        standin.start_egress()


def test_names_that_nobody_knows_keep_nobody_waiting(arrive, standin, stack, tmp_path):
    """The name server answers nothing."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for a mount namespace")
    silent = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    silent.bind(("127.0.0.5", 53))
    port = free_port()
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.5\noptions timeout:30 attempts:1\n")
    (tmp_path / "hosts").write_text("127.0.0.1 known.test\n")
    mounts = "; ".join(f"mount --bind {tmp_path}/{name} /etc/{name}" for name in ("resolv.conf", "hosts"))
    standin.start_egress(None, "unshare", "--mount", "sh", "-c", f'{mounts}; exec "$@"', "-")
    standin.until_egress()
    try:
        slow = [(arrive("127.0.0.2", f"slow-{number}", "*.test"), f"n{number}-{each}.test:443") for number in range(6) for each in range(40)]
        for stream, host in slow:
            stream.sendall(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert silent.recv(512)
        with socket.create_server(("127.0.0.1", port)) as listener:
            stream, host = arrive("127.0.0.3", "quick", f"known.test:{port}", f"127.0.0.1:{port}"), f"known.test:{port}"
            stream.sendall(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            listener.settimeout(PATIENCE)
            listener.accept()[0].close()
        assert all(is_open(stream) for stream, _ in slow)
    finally:
        standin.start_egress()
