"""Controllers of the benchmark's own, each in a directory of its own."""
import contextlib
import os
import time
import warnings
from pathlib import Path

import limpet
from limpet._protocol import _wire
from limpet._protocol._requests import Request
from runner import LeftOut

from tests.support.limpetd import Limpetd, NotStarted, controllers, end_with_parent

FILL = 60  # seconds
POLL = 0.02


class Controller:
    """A limpetd that has the images of the standard one. Not in our process group: Ctrl-C is for us to handle."""

    def __init__(self, bench, engine, variables):
        self.bench, self.engine = bench, engine
        self.env = {**os.environ, "LIMPET_POOL": "0", "LIMPET_AUTOSTART": "0", "LIMPET_LOG_LEVEL": "warn",
                    **bench.engine_variables(engine), **variables}
        self.limpetd = Limpetd(engine, within=bench.scratch, program=bench.build / "limpetd")
        self.limpetd.run_as = {"start_new_session": True, "preexec_fn": end_with_parent}
        self.env["LIMPET_SOCKET"] = self.limpetd.socket
        self.client = self.limpetd.client(reconnect_timeout=0)
        self.limpetd.launch(environment=self.env)

    @property
    def process(self):
        return self.limpetd.process

    def pids(self):
        """Of its processes: root's limpetd is several."""
        return [self.process.pid, *controllers(self.process.pid)]

    @property
    def runtime(self):
        return Path(self.limpetd.directory, "run")

    def wait(self):
        if self.engine != self.bench.engine:  # a floor: that it does not isolate is known
            warnings.simplefilter("ignore", limpet.LimpetWarning)
        try:
            self.limpetd.wait()
        except NotStarted as reason:
            raise LeftOut(f"a controller with the engine {self.engine} does not start: {reason}") from None
        return self

    def said(self):
        """The end of its log."""
        return " | ".join(self.limpetd.said().splitlines()[-3:])

    def stop(self):
        """Ends its sessions and it."""
        self.client.close()
        self.limpetd.stop()

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
