"""What sandboxed code, a killed process and a long day do to the way to the network."""

import contextlib
import os
import signal
import socket

import pytest

from tests.support.web import serving

from .killed import Host, children, host, read, wait_for  # noqa: F401
from .test_network import GET, SECRET, get

pytestmark = pytest.mark.engine


@pytest.fixture
def server():
    with serving() as server:
        yield server


def egress(limpetd):
    """Processes through which sessions reach the network: one at most, but for a moment."""
    return [int(pid) for pid in children(limpetd.process.pid) if read(f"/proc/{pid}/comm") == "limpet-egress\n"]


# What answers each of these is one of HTTP's refusals, or the end of the connection.
ATTACK = """
import os, socket, struct
host, _, port = os.environ["http_proxy"].removeprefix("http://").partition(":")

def say(*pieces):
    with socket.create_connection((host, int(port)), timeout=100) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except ConnectionError:
            return b""
"""


def test_hostile_requests(client, name, server):
    bindings = {"api": {"url": f"http://{server.address}/v1", "headers": {"Authorization": SECRET}}}
    there = server.address.encode()
    attacks = [
        b"", b"\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"\0" * 5000, b"A" * 100_000,
        b"GET http://%s/ HTTP/1.1\r\n" % there + b"A: b\r\n" * 1000 + b"\r\n",
        b"GET http://%s/ HTTP/1.1\nHost: x\n\n" % there,
        b"POST http://%s/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX" % there,
        b"POST http://%s/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" % there,
        b"POST http://%s/ HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n" % there,
        b"GET http://user:pw@%s/ HTTP/1.1\r\n\r\n" % there,
        b"GET file:///etc/passwd HTTP/1.1\r\n\r\n", b"GET gopher://%s/ HTTP/1.1\r\n\r\n" % there,
        b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n\r\n", b"CONNECT %s\r\nX: y HTTP/1.1\r\n\r\n" % there, b"CONNECT \xff:1 HTTP/1.1\r\n\r\n",
        b"GET http://api.limpet\r\nX:/ HTTP/1.1\r\n\r\n", b"GET http://api.limpet@127.0.0.1/ HTTP/1.1\r\n\r\n",
    ]  # fmt: skip
    with client.open(name, network={"allow": [server.address]}, bindings=bindings) as session:
        session.run(ATTACK).check()
        for attack in attacks:
            answer = session.run(f"say({attack!r})").check().result
            assert answer == "b''" or answer.startswith(("b'HTTP/1.1 4", "b'HTTP/1.1 5", 'b"HTTP/1.1 4', 'b"HTTP/1.1 5')), (attack, answer)
            assert "top-secret" not in answer
        assert [path for path in server.requests if path != "/"] == []
        # Two requests behind each other are two, the second for another host.
        both = b"GET http://%s/one HTTP/1.1\r\n\r\nGET http://10.0.0.1/two HTTP/1.1\r\n\r\n" % there
        answer = session.run(f"say({both!r})").check().result
        assert answer.count("HTTP/1.1 ") == 2 and "HTTP/1.1 200" in answer and "10.0.0.1:80 is not allowed" in answer
        # Also where whoever asks waits for the second answer.
        code = f"""
with socket.create_connection((host, int(port)), timeout=100) as connection:
    connection.sendall(b"GET http://{server.address}/one HTTP/1.1\\r\\n\\r\\n" * 3)
    said = b""
    while said.count(b"HTTP/1.1 200") < 3 or not said.endswith(b"}}"):
        said += connection.recv(1 << 16)
"""
        session.run(code).check()
        # What a header says is no end of it.
        smuggled = b"GET http://api.limpet/x HTTP/1.1\r\nA: b\r\n\tauthorization: mine\r\n\r\n"
        assert "HTTP/1.1 400" in session.run(f"say({smuggled!r})").result
        assert get(session, "http://api.limpet/")[0] == 200


def test_more_connections_than_there_may_be(client, name, server):
    """What is more waits; another session does not."""
    code = f"""{ATTACK}
held = [socket.create_connection((host, int(port)), timeout=100) for _ in range(300)]
for one in held:
    one.sendall(b"GET http://{server.address}/ HTTP/1.1\\r\\n")
"""
    network = {"allow": [server.address]}
    with client.open(name, network=network, pids=400) as session, client.open(f"{name}-other", network=network) as other:
        session.run(code).check()
        assert get(other, f"http://{server.address}/")[0] == 200
        assert session.run("for one in held: one.close()").status == "ok"
        assert get(session, f"http://{server.address}/")[0] == 200


def test_a_session_has_no_more_bytes(own_limpetd, server):
    own_limpetd.start("--network-limit", "1m")
    with own_limpetd.client() as client:
        with client.open("a", network={"allow": [server.address]}) as session:
            code = f"{GET}\ntry: got = len(get('http://{server.address}/bytes/{8 << 20}')[1])\nexcept Exception: got = 0\ngot"
            assert int(session.run(code).check().result) < 8 << 20
            status, text = get(session, f"http://{server.address}/")
            assert status == 403 and "as much as it may (option network_limit of limpetd)" in text
        with client.open("b", network={"allow": [server.address]}) as session:
            assert get(session, f"http://{server.address}/")[0] == 200


def test_only_the_session_itself(client, name, server):
    """What one session may, another on the same controller may not."""
    with client.open(name, network={"allow": [server.address]}) as session, client.open(f"{name}-none") as other:
        if session.engine == "local":
            pytest.skip("the engine does not isolate")
        port = session.run("import os; os.environ['http_proxy'].rpartition(':')[2]").result.strip("'")
        assert other.run(f"import socket; socket.create_connection(('127.0.0.1', {port}))").error.name == "ConnectionRefusedError"
        assert session.run("import os; os.listdir('/run/limpet')").error.name == "PermissionError"
        # There is no interface but the loopback.
        assert session.run("[line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line]").result == "['lo']"


# ---- processes that end ----


def test_rules_outlive_the_controller(host, server):  # noqa: F811
    bindings = {"api": {"url": f"http://{server.address}", "headers": {"Authorization": SECRET}}}
    session = host.client.open("a", network={"allow": [server.address]}, bindings=bindings)
    late = host.client.open("b")
    late.set_network({"allow": [server.address]})
    for _ in range(2):
        host.again()
        assert get(session, f"http://{server.address}/")[0] == 200
        assert SECRET in get(session, "http://api.limpet/")[1]
        assert get(late, f"http://{server.address}/")[0] == 200
        assert get(session, "http://127.0.0.1:9/")[0] == 403
        assert host.client.attach("b").options["network"] == {"allow": [server.address]}
    late.set_network("none")
    host.again()
    assert get(late, f"http://{server.address}/")[0] == 403
    session.close()
    late.close()


def test_the_egress_process_is_killed(host, server):  # noqa: F811
    host.client.open("without").close()
    assert egress(host.limpetd) == []  # none is needed before
    session = host.client.open("a", network={"allow": [server.address]})
    session.run(f"{ATTACK}\n{GET}").check()
    assert get(session, f"http://{server.address}/")[0] == 200
    for _ in range(3):
        [before] = egress(host.limpetd)
        session.run("held = socket.create_connection((host, int(port)), timeout=100)").check()
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: egress(host.limpetd) not in ([], [before]))
        assert get(session, f"http://{server.address}/")[0] == 200
    session.close()


def test_it_ends_with_the_controller(host, server):  # noqa: F811
    session = host.client.open("a", network={"allow": [server.address]})
    assert get(session, f"http://{server.address}/")[0] == 200
    [before] = egress(host.limpetd)
    host.again()
    wait_for(lambda: read(f"/proc/{before}/comm") != "limpet-egress\n")
    session.close()


def open_files(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it is closed by now
            yield os.readlink(f"/proc/{pid}/fd/{fd}")


def test_its_rights(own_limpetd, server):
    own_limpetd.start()
    with own_limpetd.client() as client, client.open("a", network={"allow": [server.address]}) as session:
        assert get(session, f"http://{server.address}/")[0] == 200
        [pid] = egress(own_limpetd)
        status = dict(line.split(":\t", 1) for line in read(f"/proc/{pid}/status").splitlines())
        assert [int(status[which], 16) for which in ("CapEff", "CapPrm", "CapInh", "CapAmb")] == [0] * 4
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        if os.geteuid() == 0:
            assert set(status["Uid"].split()) == set(status["Gid"].split()) == {"20003"} and status["Groups"].strip() == ""
        kinds = {opened.partition(":")[0] for opened in open_files(pid)}
        assert {kind for kind in kinds if kind.startswith("/")} <= {"/dev/null", own_limpetd.log}, kinds


def test_connections_of_a_session_end_with_it(client, name):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with client.open(name, network={"allow": [f"127.0.0.1:{port}"]}) as session:
            session.run(f"{ATTACK}\none = socket.create_connection((host, int(port)), timeout=100)").check()
            session.run(f"one.sendall(b'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n'); one.recv(100)").check()
            connection, _ = listening.accept()
            connection.settimeout(120)
        with connection:
            assert connection.recv(1) == b""
