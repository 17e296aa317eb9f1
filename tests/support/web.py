"""Servers of this machine, for what sandboxes reach, and reaching them."""

import contextlib
import hashlib
import http.server
import json
import socket
import ssl
import subprocess
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    """Says what it was asked, and how; a few paths do more."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def answer(self, status, body, **fields):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **fields}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def stream(self):
        """Events, the second when somebody has told of the first."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for text in (b"data: one\n\n", b"data: two\n\n"):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
            self.server.heard.wait(120)
        self.wfile.write(b"0\r\n\r\n")

    def everything(self):
        self.server.requests.append(self.path)
        if self.path.endswith("/stream"):
            return self.stream()
        if self.path.endswith("/redirect"):
            return self.answer(302, b"", Location=self.server.elsewhere)
        if "/bytes/" in self.path:
            return self.answer(200, bytes(int(self.path.rpartition("/")[2])))
        body = self.body()
        said = {
            "method": self.command, "path": self.path, "headers": {name.lower(): value for name, value in self.headers.items()},
            "size": len(body), "sha256": hashlib.sha256(body).hexdigest(),
        }  # fmt: skip
        return self.answer(200, json.dumps(said).encode(), Content_Type="application/json")

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = everything


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler=Handler, certificate=None, host="127.0.0.1"):
        super().__init__((host, 0), handler)
        self.requests, self.heard, self.elsewhere = [], threading.Event(), "/"
        self.address = f"{host}:{self.server_port}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request, client_address):
        pass  # whoever asked has left


@contextlib.contextmanager
def serving(handler=Handler, certificate=None, host="127.0.0.1"):
    with Server(handler, certificate, host) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.heard.set()
            server.shutdown()
            thread.join()


def make_certificate(directory):
    """A file with a key and a certificate that nobody trusts, for 127.0.0.1."""
    key, certificate, both = directory / "key", directory / "certificate", directory / "both"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both


# By urllib, which is everywhere: through the proxy also what is on the loopback.
GET = """
import json, os, urllib.error, urllib.request

def get(url, data=None, method=None):
    os.environ.pop("no_proxy", None), os.environ.pop("NO_PROXY", None)
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=100) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError as error:
        return 0, str(error.reason)
"""


def get(session, *arguments):
    """What get() of GET returns in the session."""
    result = session.run(f"{GET}\nget(*{arguments!r})").check()
    return eval(result.result)


def is_open(stream):
    """Whether the other side has not ended the connection."""
    stream.setblocking(False)
    try:
        return bool(stream.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
