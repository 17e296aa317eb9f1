"""The Python client where there is neither a unix socket nor fork(): both are taken away before it is imported."""

import os
import subprocess
import sys

from .dialled import LIMPET
from .test_dialling import SERVER

HIDDEN = """
import os, socket, sys
pair = socket.socketpair
def inet_pair(*kind):
    "As where the system has none of its own."
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]
socket.socketpair = inet_pair
del socket.AF_UNIX
for name in ("CMSG_SPACE", "SCM_RIGHTS", "MSG_CMSG_CLOEXEC"):
    delattr(socket, name)
for name in ("fork", "forkpty", "geteuid", "getuid", "pipe2", "sendfile", "register_at_fork", "killpg", "fchown", "O_CLOEXEC", "SEEK_DATA"):
    delattr(os, name)
import limpet, asyncio, pathlib, threading
"""
CALLS = """
address, options, away = sys.argv[1], eval(sys.argv[2]), pathlib.Path(sys.argv[3])
with limpet.Client(address, artifacts=away / "copies", **options) as client, client.open() as session:
    assert session.run("x = 41").ok and session.run("print('out'); x + 1", on_stdout=print).result == "42"
    assert session.run("input('name? ')", on_input=lambda prompt: "me").result == "'me'"
    (away / "sent").write_bytes(os.urandom(3 << 20))
    session.put(away / "sent", "f")
    session.get("f", away / "back")
    assert (away / "sent").read_bytes() == (away / "back").read_bytes()
    [copy] = session.run("_ = open('artifacts/f', 'w').write('x')").artifacts.values()
    assert pathlib.Path(copy).read_text() == "x"
    results = []
    other = threading.Thread(target=lambda: results.append(session.run("x").result))
    other.start(), other.join()
    assert results == ["41"]
async def main():
    async with limpet.AsyncClient(address, **options) as client, client.open() as session:
        assert (await session.run("1 + 1")).result == "2"
asyncio.run(main())
try:
    limpet.Client("/nowhere").sessions()
except limpet.Unavailable as error:
    assert "ssh://HOST or tcp://HOST:PORT" in str(error), error
print("done")
"""


def run(address, options, tmp_path):
    code = [sys.executable, "-c", HIDDEN + CALLS, address, repr(options), str(tmp_path)]
    ran = subprocess.run(code, capture_output=True, text=True, timeout=60)
    assert ran.stdout.endswith("done\n"), ran.stderr


def test_over_tcp(door, tmp_path):
    run(door.address, door.options, tmp_path)


def test_through_a_command(far, tmp_path):
    run(f"exec:LIMPET_SOCKET={far.socket} {LIMPET} dial-stdio", {}, tmp_path)


def test_a_controller_elsewhere_is_not_checked_here(far):
    address = f"exec:LIMPET_SOCKET={far.socket} {LIMPET} dial-stdio"
    done = subprocess.run([sys.executable, "-m", "limpet.doctor", "--address", address], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(f"machine\n  --    limpetd        the controller at {address} serves this user\n"), done.stderr
    assert f"at {address}, engine" in done.stdout


def test_a_port_through_a_command(far):
    """Streams are carried by threads there."""
    code = HIDDEN + f"""
with limpet.Client(sys.argv[1]) as client, client.open() as session:
    port = int(session.run({SERVER!r}).result)
    with session.connect(port) as connection:
        connection.sendall(b"abc" * 100_000)
        connection.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: connection.recv(65536), b"")) == b"hello\\n" + b"ABC" * 100_000
print("done")
"""
    ran = subprocess.run([sys.executable, "-c", code, f"exec:LIMPET_SOCKET={far.socket} {LIMPET} dial-stdio"], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "done\n", ran.stderr
