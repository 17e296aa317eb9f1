"""connect() and forward(): ports of a session's loopback, through real controllers."""

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
import urllib.request

import limpet
import pytest

from tests.support.ports import free_port

pytestmark = pytest.mark.engine

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")

# Listens at the port that is given, or at any, and prints it; sends back what it gets on each connection, once that has ended.
SERVER = """
import socket, sys, threading

def serve(client):
    with client:
        data = b"".join(iter(lambda: client.recv(1 << 20), b""))
        client.sendall(data[::-1])

family, host = (socket.AF_INET6, "::1") if "6" in sys.argv[1:] else (socket.AF_INET, "127.0.0.1")
port = next((int(word) for word in sys.argv[1:] if word != "6"), 0)
with socket.create_server((host, port), family=family) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
"""


# Prints its port; sends files of the session to many at once.
PAGES = """
import http.server

class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

with Server(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
    print(server.server_port, flush=True)
    server.serve_forever()
"""


@pytest.fixture
def serve(session):
    def serve(*words):
        process = session.start(["python3", "-c", SERVER, *words])
        return int(next(process.follow()).stdout)

    return serve


def reversed_by(connection, data):
    """Half closed: the server answers when it has seen the end."""
    with connection:
        sender = threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
        sender.start()
        answer = b"".join(iter(lambda: connection.recv(1 << 20), b""))
        sender.join()
    return answer


@pytest.mark.parametrize("words", [(), ("6",)], ids=["ipv4", "ipv6"])
def test_a_connection(session, serve, words):
    port = serve(*words)
    data = os.urandom(5 << 20)
    assert reversed_by(session.connect(port), data) == data[::-1]
    assert reversed_by(session.connect(port), b"") == b""


def test_nobody_listens(session):
    with pytest.raises(limpet.NotListening, match="port 1 of the session") as caught:
        session.connect(1)
    assert isinstance(caught.value, ConnectionRefusedError)
    for port in (0, 65536, -1):
        with pytest.raises(limpet.BadRequest):
            session.connect(port)


def test_sessions_do_not_share_ports(limpetd, client, session, serve, name):
    if session.engine == "local":
        pytest.skip("the engine does not isolate")
    port = serve(str(free_port()))
    with client.open(f"{name}-other") as other, pytest.raises(limpet.NotListening):
        other.connect(port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_connection_outlives_the_client_that_made_it(limpetd, session, serve):
    port = serve()
    with limpet.Client(limpetd.socket) as other:
        connection = other.attach(session.name).connect(port)
    assert reversed_by(connection, b"abc") == b"cba"


def test_a_connection_ends_with_its_session(client, name):
    with client.open(f"{name}-short") as session:
        process = session.start(["python3", "-c", SERVER])
        connection = session.connect(int(next(process.follow()).stdout))
    with connection, contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""


def connected(address):
    host, port = address.split(":")
    return socket.create_connection((host, int(port)))


def test_forward(session, serve):
    port = serve()
    with session.forward(port) as address:
        assert address.startswith("127.0.0.1:")
        assert reversed_by(connected(address), b"one") == b"eno"
        first, second = connected(address), connected(address)
        assert reversed_by(first, b"two") == b"owt"
        assert reversed_by(second, b"x" * (3 << 20)) == b"x" * (3 << 20)
    with pytest.raises(ConnectionRefusedError):
        connected(address)
    forwarding = session.forward(port, local_port=int(address.rpartition(":")[2]))
    assert forwarding.address == address and reversed_by(connected(address), b"three") == b"eerht"
    forwarding.close()


def test_forward_to_a_socket_of_the_user(session, serve, tmp_path):
    path = tmp_path / "port"
    with session.forward(serve(), path) as address:
        assert address == str(path) and path.stat().st_mode & 0o777 == 0o600
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address)
        assert reversed_by(connection, b"abc") == b"cba"
    assert not path.exists()


def test_forward_before_anybody_listens(session):
    with session.forward(7) as address, connected(address) as connection:
        assert connection.recv(1) == b""


def test_many_at_once(session):
    session.files.write("page", b"hello " * 10000)
    process = session.start(["python3", "-c", PAGES])
    port = int(next(process.follow()).stdout)
    with session.forward(port) as address:
        pages = []
        threads = [
            threading.Thread(target=lambda: pages.append(urllib.request.urlopen(f"http://{address}/page").read()))
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert pages == [b"hello " * 10000] * 20


def test_asyncio(limpetd, session, serve):
    port = serve()

    async def run():
        async with limpet.AsyncClient(limpetd.socket) as client:
            own = await client.attach(session.name)
            reader, writer = await asyncio.open_connection(sock=await own.connect(port))
            writer.write(b"abc")
            writer.write_eof()
            assert await reader.read() == b"cba"
            writer.close()
            async with own.forward(port) as address:
                reader, writer = await asyncio.open_connection(*address.split(":"))
                writer.write(b"xyz")
                writer.write_eof()
                assert await reader.read() == b"zyx"
                writer.close()

    asyncio.run(run())


def test_from_a_shell(limpetd, session, serve, name):
    port = serve()
    environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}
    command = [LIMPET, "forward", name, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        host, local = process.stdout.readline().strip().split(":")
        data = os.urandom(3 << 20)
        assert reversed_by(socket.create_connection((host, int(local))), data) == data[::-1]
        process.terminate()
    for words, status in (((name, "0"), 2), ((name, "80:x"), 2), ((name, "80:"), 2), (("no-such-session", "80"), 125)):
        done = subprocess.run([LIMPET, "forward", *words], capture_output=True, env=environment, timeout=60)
        assert done.returncode == status, (words, done.stderr)
