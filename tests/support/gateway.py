"""Gateways, each a process with a directory of its own, and what HTTP clients of tests share."""

import atexit
import functools
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import time

import httpx
import pytest

from . import CLIENT
from .limpetd import end_with_parent
from .preloaded import Preloaded

START = STOP = 60  # seconds


@functools.cache
def preloaded():
    directory = tempfile.TemporaryDirectory()
    made = Preloaded(directory.name, "limpet.serve._main", "uvicorn.protocols.http.httptools_impl", "uvicorn.lifespan.on")
    atexit.register(directory.cleanup)
    atexit.register(made.close)
    return made


class Gateway:
    """`limpet serve` for the controller behind a socket; `options` are its own, `environment` is added to ours, and
    `module` is what Python runs. A copy of a process that has imported it stands for one that is not `whole`."""

    def __init__(self, socket, directory, *options, environment=None, module="limpet.serve", whole=False):
        self.directory = pathlib.Path(directory)
        self.state = self.directory / "gateway"
        self.audit = self.directory / "audit"
        self.log = self.directory / "log"
        self.environment = {
            **os.environ, "PYTHONPATH": str(CLIENT), "LIMPET_AUTOSTART": "0", "LIMPET_SOCKET": socket,
            "LIMPET_SERVE_STATE_DIR": str(self.state), **(environment or {}),
        }  # fmt: skip
        self.options = options
        self.whole = whole or module != "limpet.serve" or "PYTHONPATH" in (environment or {})
        self.module = module
        self.before = ()  # words of the command that starts a whole one
        self.process = None
        self.port = 0

    def start(self, port=0):
        command = [self.module, "--port", str(port), "--audit-log", str(self.audit), *self.options]
        reading, writing = os.pipe()
        self.stdout = open(reading)
        with open(writing, "w"), open(self.log, "ab") as log, open(os.devnull) as nothing:
            streams = [nothing.fileno(), writing, log.fileno()]
            if self.whole:
                self.process = subprocess.Popen(
                    [*self.before, sys.executable, "-W", "ignore", "-m", *command], env=self.environment, stdin=streams[0],
                    stdout=streams[1], stderr=streams[2], preexec_fn=end_with_parent,
                )  # fmt: skip
            else:
                self.process = preloaded().start(streams, self.environment, *command)
        ready, _, _ = select.select([self.stdout], [], [], START)
        line = self.stdout.readline() if ready else ""
        found = re.search(r"listening on (https?)://\S+:(\d+)", line)
        if not found:
            self.stop()
            pytest.fail(f"limpet serve did not start: {line}{self.said()}")
        self.scheme, self.port = found[1], int(found[2])
        return self

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def client(self, key=None, **options):
        headers = {"X-API-Key": key} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=httpx.Timeout(120), trust_env=False, **options)

    def async_client(self, key=None, **options):
        headers = {"X-API-Key": key} if key else {}
        limits = httpx.Limits(max_connections=200)
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=httpx.Timeout(120), trust_env=False, limits=limits, **options
        )

    def key(self, *arguments):
        """`limpet key`; what it prints."""
        serve = [sys.executable, "-m", "limpet.serve"] if self.whole else preloaded().command("limpet.serve")
        done = subprocess.run([*serve, "key", *arguments], env=self.environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def lines(self):
        """Of the audit log."""
        whole, _, _ = self.audit.read_text().rpartition("\n")  # the last one may still be written
        return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]

    def said(self):
        return self.log.read_text(errors="replace")[-4000:]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Ends it in order; returns its exit status."""
        if self.process is None or self.process.poll() is not None:
            return self.process and self.process.returncode
        self.process.terminate()
        try:
            return self.process.wait(STOP)
        finally:
            self.process.kill()
            self.process.wait()
            self.stdout.close()


def events(response):
    """Of a stream: (id, name, data), as they come."""
    fields = {}
    for line in response.iter_lines():
        if not line:
            if "data" in fields:
                yield fields.get("id"), fields.get("event", "message"), json.loads(fields["data"])
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


def until(condition, what, seconds=60):
    """What the condition returns, once that is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    pytest.fail(f"not within {seconds} s: {what}")
