"""Controllers of the benchmark's own, each in a directory of its own."""
import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import limpet
from limpet import _wire
from limpet._requests import Request

from runner import LeftOut

PR_SET_PDEATHSIG = 1
START, STOP, FILL = 60, 120, 60  # seconds
POLL = 0.02


def end_with_parent():
    """A benchmark that is killed leaves no controller: it ends its sessions on SIGTERM."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Controller:
    """A limpetd that has the images of the standard one. Not in our process group: Ctrl-C is for us to handle."""

    def __init__(self, bench, engine, variables):
        self.bench, self.engine = bench, engine
        self.directory = Path(tempfile.mkdtemp(prefix="c", dir=bench.scratch))
        state = self.directory / "state"
        state.mkdir(0o700)
        images = Path(os.environ.get("LIMPET_STATE_DIR", "/var/lib/limpet"), "images")
        (state / "images").symlink_to(images)
        self.runtime = self.directory / "run"
        self.env = {
            **os.environ, "LIMPET_ENGINE": engine, "LIMPET_SOCKET": f"{self.directory}/s", "LIMPET_POOL": "0",
            "LIMPET_STATE_DIR": str(state), "LIMPET_RUNTIME_DIR": str(self.runtime), "LIMPET_AUTOSTART": "0",
            "LIMPET_LOG_LEVEL": "warn", **bench.engine_variables(engine), **variables,
        }
        self.client = limpet.Client(self.env["LIMPET_SOCKET"], autostart=False, reconnect_timeout=0)
        with open(self.directory / "log", "wb") as log:
            self.process = subprocess.Popen([bench.build / "limpetd"], env=self.env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True,
                                            preexec_fn=end_with_parent)

    def wait(self):
        if self.engine != self.bench.engine:  # a floor: that it does not isolate is known
            warnings.simplefilter("ignore", limpet.LimpetWarning)
        end = time.monotonic() + START
        while self.process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(limpet.Unavailable):
                self.client.sessions()
                return self
            time.sleep(POLL)
        raise LeftOut(f"a controller with the engine {self.engine} does not start: {self.said()}")

    def said(self):
        """The end of its log."""
        return " | ".join((self.directory / "log").read_text(errors="replace").splitlines()[-3:])

    def stop(self):
        """Ends its sessions and it."""
        self.client.close()
        self.process.terminate()
        try:
            self.process.wait(STOP)
        finally:
            self.process.kill()
            self.process.wait()

    @contextlib.contextmanager
    def session(self, name, **options):
        with contextlib.closing(self.client.open(name, **options)) as opened:
            yield opened

    def async_client(self):
        return limpet.AsyncClient(self.env["LIMPET_SOCKET"], autostart=False, reconnect_timeout=0)

    def row(self, name):
        """What `limpet ls` says of a session."""
        return next(row for row in self.client.sessions() if row.session == name)

    def spares(self):
        """How many containers wait for a session; None from a controller that does not know of such."""
        request = Request(_wire.SESSIONS, {}, lambda body: body["controller"].get("spares"))
        return self.client._request(request)

    def wait_for_spares(self, count):
        end = time.monotonic() + FILL
        while count > 0 and (ready := self.spares() or 0) < count:
            if self.spares() is None:
                raise LeftOut("this controller keeps no containers ready: its reply to `sessions` has no `spares`")
            if time.monotonic() > end:
                raise RuntimeError(f"{ready} of {count} containers were ready after {FILL} s: {self.said()}")
            time.sleep(POLL)
