"""Names whose addresses change while they are asked for."""

import itertools
import os
import shutil
import threading

import pytest

from .killed import wait_for
from .test_network import GET, get

LINES = [b"127.0.0.1 changing.example\n", b"9.9.9.9   changing.example\n"]
SERVE = """
import socket
listener = socket.create_server(("127.0.0.1", 443))
while True:
    caller = listener.accept()[0]
    print("called", flush=True)
    caller.recv(4096)
    caller.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
    caller.close()
"""
ASK = """
seen = []
while len(seen) < 30 or len(set(seen)) < 2:
    text = get("https://changing.example/")[1]
    seen.append(next((number for number in ("403", "502") if f" {number} " in text), text))
set(seen)
"""


@pytest.mark.proves("security: reaching inside by a name that is allowed")
def test_what_is_checked_is_what_is_connected_to(own_limpetd, tmp_path):
    """Each tunnel looks its name up. In a network of its own, from which nothing leads out, and where a server listens on the loopback."""
    if os.geteuid() != 0 or own_limpetd.isolates or not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("needs root, for a network namespace")
    hosts, wrapper, over = tmp_path / "hosts", tmp_path / "limpetd", threading.Event()
    hosts.write_bytes(LINES[0])
    inside = f'mount --bind {hosts} /etc/hosts; ip link set lo up; exec {own_limpetd.program} "$@"'
    wrapper.write_text(f"#!/bin/sh\nexec unshare -m -n sh -c '{inside}' - \"$@\"\n")
    wrapper.chmod(0o755)
    own_limpetd.program = str(wrapper)

    def change():
        with open(hosts, "r+b", buffering=0) as file:
            for line in itertools.cycle(LINES):
                os.pwrite(file.fileno(), line, 0)
                if over.wait(0.0005):
                    return

    own_limpetd.start()
    with own_limpetd.client() as client, client.open("a", network={"allow": ["127.0.0.1:443"]}) as session:
        server = session.start(["python3", "-c", SERVE])
        wait_for(lambda: get(session, "http://127.0.0.1:443/")[0] == 200)
        session.set_network({"allow": ["*.example:443"]})
        before = server.output().text.count("called")
        changing = threading.Thread(target=change)
        changing.start()
        try:
            seen = eval(session.run(GET + ASK, timeout=300).check().result)
        finally:
            over.set()
            changing.join()
        assert seen == {"403", "502"}
        assert before > 0 and server.output().text.count("called") == before
