"""Where names lead, in file systems and networks of the controller's own."""

import itertools
import os
import shutil
import threading

import pytest

from .killed import wait_for
from .test_network import GET, get, server

__all__ = ["server"]

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


@pytest.mark.proves("security: reaching internal addresses through an allowed name")
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


@pytest.mark.proves("security: reaching internal addresses through an allowed name")
def test_a_name_that_leads_inside(own_limpetd, server, tmp_path):
    """Names are resolved on the host, here with a file of ours, and what they lead to is looked at."""
    if os.geteuid() != 0 or own_limpetd.isolates or not shutil.which("unshare"):
        pytest.skip("needs root, for a file system namespace")
    hosts = tmp_path / "hosts"
    hosts.write_text(
        "127.0.0.1 inside.example localhost\n::1 six.example\n169.254.169.254 metadata.example\n10.1.2.3 private.example\n"
        "::ffff:127.0.0.1 mapped.example\n64:ff9b::7f00:1 translated.example\n0.0.0.0 zero.example\n"
    )
    wrapper = tmp_path / "limpetd"
    wrapper.write_text(f'#!/bin/sh\nexec unshare -m sh -c \'mount --bind {hosts} /etc/hosts; exec {own_limpetd.program} "$@"\' - "$@"\n')
    wrapper.chmod(0o755)
    own_limpetd.program = str(wrapper)
    own_limpetd.start()
    port = server.server_port
    names = ["inside", "six", "metadata", "private", "mapped", "translated", "zero"]
    with own_limpetd.client() as client, client.open("a", network={"allow": [f"*.example:{port}"]}) as session:
        for name in names:
            status, text = get(session, f"http://{name}.example:{port}/")
            assert status == 403 and f"{name}.example leads to" in text, text
            status, text = get(session, f"https://{name}.example:{port}/")
            assert status == 0 and "403 Forbidden: " in text and "leads to" in text
        assert server.requests == []
        session.set_network({"allow": [f"*.example:{port}", server.address]})
        assert get(session, f"http://inside.example:{port}/")[0] == 200
        assert get(session, f"http://mapped.example:{port}/")[0] == 200
        assert get(session, f"http://private.example:{port}/")[0] == 403
        session.set_network({"allow": [f"localhost:{port}"]})
        assert get(session, f"http://localhost:{port}/")[0] == 200
        assert get(session, f"http://127.0.0.1:{port}/")[0] == 403


@pytest.mark.proves("security: reaching internal addresses through an allowed name")
def test_an_address_of_this_machine(own_limpetd, tmp_path):
    """It is refused although it is a public one. In a network of its own, from which nothing leads out."""
    if os.geteuid() != 0 or own_limpetd.isolates or not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("needs root, for a network namespace")
    hosts = tmp_path / "hosts"
    hosts.write_text("9.9.9.9 own.example\n9.9.9.10 other.example\n")
    wrapper = tmp_path / "limpetd"
    inside = f'mount --bind {hosts} /etc/hosts; ip link set lo up; ip address add 9.9.9.9/32 dev lo; exec {own_limpetd.program} "$@"'
    wrapper.write_text(f"#!/bin/sh\nexec unshare -m -n sh -c '{inside}' - \"$@\"\n")
    wrapper.chmod(0o755)
    own_limpetd.program = str(wrapper)
    own_limpetd.start()
    with own_limpetd.client() as client, client.open("a", network={"allow": ["*.example:80"]}) as session:
        status, text = get(session, "http://own.example/")
        assert status == 403 and "own.example leads to 9.9.9.9" in text
        status, text = get(session, "http://other.example/")  # allowed, and there is no way
        assert status == 502 and "cannot be asked" in text
        session.set_network({"allow": ["*.example:80", "9.9.9.9:80"]})
        assert get(session, "http://own.example/")[0] == 502  # allowed, and nobody listens
