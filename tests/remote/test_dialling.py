"""Addresses that stand for commands: `limpet dial-stdio` on the controller's machine, and what reaches it from here."""

import asyncio
import os
import socket
import subprocess
import threading

import limpet
import pytest

from .dialled import ADDRESSES, LIMPET, Network, programs
from .door import PATIENCE, wait_for

SERVER = """
import socketserver, threading
class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"hello\\n")
        data = b""
        while piece := self.request.recv(65536):
            data += piece
        self.request.sendall(data.upper())
server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
server.server_address[1]
"""


@pytest.fixture
def called(far, tmp_path, monkeypatch):
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return programs(directory, far.socket)


@pytest.fixture
def network(far, tmp_path):
    network = Network(tmp_path, far.socket)
    yield network
    network.go_on()
    network.sever()


@pytest.fixture
def client(network):
    with limpet.Client(network.address) as client:
        yield client


@pytest.fixture
def session(client, name):
    with client.open(name) as session:
        yield session


def command(address, *words):
    return subprocess.run([LIMPET, "--connect", address, *words], capture_output=True, text=True, timeout=PATIENCE)


def of_blocking(address):
    with limpet.Client(address) as client:
        return client.run("6 * 7").result


def of_asyncio(address):
    async def main():
        async with limpet.AsyncClient(address) as client:
            return (await client.run("6 * 7")).result

    return asyncio.run(main())


def of_command(address):
    ran = command(address, "run", "-c", "6 * 7")
    if ran.returncode == 125:
        raise limpet.Unavailable(ran.stderr)
    return ran.stdout.strip()


TONGUES = pytest.mark.parametrize("run", [of_blocking, of_command])
KINDS = pytest.mark.parametrize("run", [of_blocking, of_asyncio, of_command])


@TONGUES
@pytest.mark.parametrize(
    "address, expected",
    [
        ("ssh://there", "ssh -T -o BatchMode=yes -o ConnectTimeout=8 -o ServerAliveInterval=15 -- there limpet dial-stdio"),
        ("ssh://me@there:2222", "ssh -T -o BatchMode=yes -o ConnectTimeout=8 -o ServerAliveInterval=15 -l me -p 2222 -- there limpet dial-stdio"),
        ("ssh://[::1]", "ssh -T -o BatchMode=yes -o ConnectTimeout=8 -o ServerAliveInterval=15 -- ::1 limpet dial-stdio"),
        ("docker://", "docker exec --interactive limpet limpet dial-stdio"),
        ("docker://there", "docker --context there exec --interactive limpet limpet dial-stdio"),
        ("docker://ssh://me@there", "docker --host ssh://me@there exec --interactive limpet limpet dial-stdio"),
        ("docker://tcp://there:2376", "docker --tlsverify --host tcp://there:2376 exec --interactive limpet limpet dial-stdio"),
        ("kubernetes://space", "kubectl --namespace space exec --stdin deployment/limpet -- limpet dial-stdio"),
        ("kubernetes://arn:aws/there/space", "kubectl --context arn:aws/there --namespace space exec --stdin deployment/limpet -- limpet dial-stdio"),
    ],
)  # fmt: skip
def test_an_address_is_a_command(called, run, address, expected, monkeypatch):
    monkeypatch.setenv("DOCKER_CERT_PATH", "/certificates")
    assert run(address) == "42"
    assert set(called.read_text().splitlines()) == {expected}


@TONGUES
@pytest.mark.parametrize("address", ["ssh://-oProxyCommand=x", "ssh://me@-x", "ssh://", "ssh://a/b", "ssh://a:b", "exec: ", "kubernetes://", "kubernetes:///a", "shh://a"])
def test_what_is_no_address_is_refused(run, address):
    with pytest.raises(limpet.Error, match="does not have the form"):
        run(address)


def test_the_environment_says_where(called, monkeypatch):
    monkeypatch.setenv("LIMPET_SOCKET", ADDRESSES["ssh"])
    assert of_blocking(None) == "42"
    assert subprocess.check_output([LIMPET, "run", "-c", "6 * 7"], text=True, stderr=subprocess.DEVNULL) == "42\n"


@KINDS
@pytest.mark.parametrize(
    "words, said",
    [
        ("echo 'Host key verification failed.' >&2; exit 255", "Host key verification failed.; "),
        ("exec 1>&- 0<&-; echo late >&2", "late; "),
        ("exit 3", "its command has ended, and said nothing"),
        ("nonsense", "nonsense: not found"),
        ("echo Welcome; cat", "nothing else may print there"),
        ("yes x | head -c 1000000 >&2; echo lost >&2; exit 1", "x x x x"),
    ],
)  # fmt: skip
def test_why_a_command_fails_is_said(run, words, said):
    with pytest.raises((limpet.Unavailable, limpet.ProtocolMismatch), match=said):
        run(f"exec:{words}")


@KINDS
def test_a_program_that_is_missing_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(limpet.Unavailable, match="with the program ssh, which is not in PATH; install it"):
        run("ssh://there")


@KINDS
def test_what_has_to_work_first_is_said(called, run, tmp_path):
    (called.parent / "docker").write_text("#!/bin/sh\necho 'context \"there\": context not found' >&2; exit 1\n")
    with pytest.raises(limpet.Unavailable, match=r"context not found; first `docker --context there exec --interactive limpet limpet version` has to work"):
        run("docker://there")


def test_a_command_that_is_silent_is_not_waited_for(far):
    """It is given 9 seconds, of which the test need not wait more than once."""
    with pytest.raises(limpet.Unavailable, match="has not become a connection within 9 seconds"):
        of_blocking("exec:sleep 1000")


def test_commands_end_with_their_clients(network, name):
    before = network.dialled()
    with limpet.Client(network.address) as client:
        assert client.run("1").status == "ok"
        commands = children()
        assert len(commands) == network.dialled() - before == 1
    assert not set(commands) & set(children())


def children():
    return [pid for pid in subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "carry.py"], capture_output=True, text=True).stdout.split()]


def test_a_fork_leaves_the_command_of_its_parent_alone(client, session):
    session.run("n = 1")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, (session.run("n + 1").result or "").encode())
            client.close()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writing)
    assert os.read(reading, 10) == b"2"
    os.close(reading)
    before = children()
    assert session.run("n + 2").result == "3" and children() == before


def test_files_go_both_ways(session, tmp_path):
    (tmp_path / "sent").write_bytes(os.urandom(20 << 20))
    session.put(str(tmp_path / "sent"), "large")
    session.get("large", str(tmp_path / "back"))
    assert (tmp_path / "sent").read_bytes() == (tmp_path / "back").read_bytes()


def test_questions_are_answered(session):
    assert session.run("input('name? ')", on_input=lambda prompt: "me").result == "'me'"


def test_a_port_is_a_stream(session):
    port = int(session.run(SERVER).result)
    with session.connect(port) as connection:
        connection.sendall(b"abc" * 100_000)
        connection.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received == b"hello\n" + b"ABC" * 100_000
    with session.forward(port) as address:
        host, port = address.split(":")
        assert subprocess.run(["/usr/bin/env", "python3", "-c", f"import socket; s = socket.create_connection(({host!r}, {port})); s.sendall(b'x'); s.shutdown(1); print(s.makefile().read())"], capture_output=True, text=True).stdout.split() == ["hello", "X"]


def test_a_port_on_which_nothing_listens(session):
    with pytest.raises(limpet.NotListening):
        session.connect(1)


def test_the_command_forwards_ports(network, session):
    port = session.run(SERVER).result
    with subprocess.Popen([LIMPET, "--connect", network.address, "forward", session.name, port], stdout=subprocess.PIPE, text=True) as forwarding:
        host, near = forwarding.stdout.readline().strip().split(":")
        with socket.create_connection((host, int(near)), timeout=PATIENCE) as connection:
            connection.sendall(b"x")
            connection.shutdown(socket.SHUT_WR)
            assert connection.makefile("rb").read() == b"hello\nX"
        forwarding.terminate()


def test_a_cut_is_not_noticed(network, session, tmp_path):
    go, begun = tmp_path / "go", tmp_path / "begun"
    code = f"import os, time\nn = globals().get('n', 0) + 1\nopen({str(begun)!r}, 'w').close()\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nn"
    results = []
    running = threading.Thread(target=lambda: results.append(session.run(code)))
    running.start()
    wait_for(begun.exists)
    before = network.dialled()
    network.sever()
    wait_for(lambda: network.dialled() >= before + 2)  # nobody got through
    network.mend()
    go.touch()
    running.join(PATIENCE)
    assert [result.result for result in results] == ["1"]
    assert session.run("n").result == "1"


def test_the_command_does_not_notice_a_cut(network, session, tmp_path):
    go, begun = tmp_path / "go", tmp_path / "begun"
    code = f"import os, time\nn = globals().get('n', 0) + 1\nopen({str(begun)!r}, 'w').close()\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nprint(n)"
    with subprocess.Popen([LIMPET, "--connect", network.address, "run", "-s", session.name, "-c", code], stdout=subprocess.PIPE, text=True) as running:
        wait_for(begun.exists)
        before = network.dialled()
        network.sever()
        wait_for(lambda: network.dialled() >= before + 2)
        network.mend()
        go.touch()
        assert running.communicate(timeout=PATIENCE)[0] == "1\n"


def test_a_network_that_stands_still_is_waited_for(network, session):
    session.run("n = 1")
    network.hold()
    mending = threading.Thread(target=lambda: network.held.wait(PATIENCE) and network.go_on())
    mending.start()
    assert session.run("n + 1").result == "2"
    mending.join()
    assert network.dialled() == 1


def test_it_is_for_the_controller_of_its_own_machine():
    ran = subprocess.run([LIMPET, "dial-stdio"], stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, "LIMPET_SOCKET": "ssh://there"})
    assert ran.returncode == 2 and "here LIMPET_SOCKET is ssh://there" in ran.stderr


@TONGUES
def test_data_is_never_taken_for_a_directory_of_another_machine(network, run, tmp_path):
    def run_with(data):
        if run is of_command:
            raise limpet.BadRequest(command(network.address, "run", "--data", data, "-c", "1").stderr)
        with limpet.Client(network.address) as client:
            client.run("1", data=data)

    with pytest.raises(limpet.Error, match=f"data: '{tmp_path}' is a directory of this machine.*host:/PATH"):
        run_with(str(tmp_path))
    with pytest.raises(limpet.Error, match=r"[^:]/nowhere\b.*No such file"):
        run_with("host:/nowhere")
