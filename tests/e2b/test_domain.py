"""E2B_DOMAIN: the control plane and every port of a sandbox have host names of their own, and TLS."""

import contextlib
import os
import socket
import subprocess
import sys
import threading

import pytest

from tests.support.gateway import Gateway
from tests.support.needs import need

from .conftest import UNLIMITED

DOMAIN = "sand.test"
PROGRAM = f"""
import sys, urllib.request
from e2b_code_interpreter import Sandbox
proxy = sys.argv[1]
sandbox = Sandbox.create(proxy=proxy)
try:
    assert sandbox.sandbox_domain == {DOMAIN!r}, sandbox.sandbox_domain
    assert sandbox.run_code("6 * 7").text == "42"
    assert sandbox.commands.run("echo on").stdout == "on\\n"
    sandbox.files.write("f", "contents")
    urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({{"https": proxy}})))
    assert urllib.request.urlopen(sandbox.download_url("f")).read() == b"contents"
    server = sandbox.commands.run("exec python3 -u -m http.server --bind 127.0.0.1 0", background=True, timeout=0)
    for out, err, _ in server:
        if out and " port " in out:
            break
    host = sandbox.get_host(int(out.split(" port ")[1].split()[0]))
    token = {{"E2B-Traffic-Access-Token": sandbox.traffic_access_token}}
    assert b"listing" in urllib.request.urlopen(urllib.request.Request(f"https://{{host}}/", headers=token)).read()
finally:
    sandbox.kill()
print("done")
"""


def made_by(directory, *arguments):
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture
def certificates(tmp_path):
    """A directory with an authority, and a certificate of it for all names of the domain."""
    need("openssl", "network")
    (tmp_path / "names").write_text(f"subjectAltName=DNS:*.{DOMAIN}\nbasicConstraints=CA:FALSE\n")
    key = ("-newkey", "rsa:2048", "-nodes", "-keyout")
    made_by(tmp_path, "req", "-x509", *key, "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=an authority",
            "-addext", "basicConstraints=critical,CA:TRUE")  # fmt: skip
    made_by(tmp_path, "req", *key, "key.pem", "-out", "request", "-subj", f"/CN={DOMAIN}")
    made_by(tmp_path, "x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "names", "-out", "certificate.pem")  # fmt: skip
    return tmp_path


@contextlib.contextmanager
def names_lead_to(port):
    """A proxy for which every name is that port of this machine; its address, and the names it was asked for."""
    asked, listening = [], socket.create_server(("127.0.0.1", 0))

    def pump(source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def serve(near):
        head = b""
        while b"\r\n\r\n" not in head:
            head += near.recv(4096)
        asked.append(head.split()[1].decode())
        with near, socket.create_connection(("127.0.0.1", port)) as far:
            near.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            back = threading.Thread(target=pump, args=(far, near), daemon=True)
            back.start()
            pump(near, far)
            back.join()

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
        listening.shutdown(socket.SHUT_RDWR)


def test_by_host_names_with_tls(limpetd, certificates):
    tls = ("--certificate", str(certificates / "certificate.pem"), "--certificate-key", str(certificates / "key.pem"))
    gateway = Gateway(limpetd.socket, certificates, *UNLIMITED, *tls)
    key = gateway.key("create", "ada")
    gateway.start()
    try:
        with names_lead_to(gateway.port) as (proxy, asked):
            environment = {
                **os.environ, "E2B_DOMAIN": DOMAIN, "E2B_API_KEY": key, "SSL_CERT_FILE": str(certificates / "ca.pem"),
            }  # fmt: skip
            command = [sys.executable, "-c", PROGRAM, proxy]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr + gateway.said()
        assert f"api.{DOMAIN}:443" in asked and all(name.endswith(f".{DOMAIN}:443") for name in asked)
        assert {name.partition("-")[0] for name in asked} >= {"49983", "49999"}
    finally:
        gateway.stop()
