"""Real controllers, each in a directory of its own.

LIMPETD is the path of limpetd (LIMPET_BUILD a directory that has it); the other LIMPET_* variables of limpetd
(LIMPET_IMAGE, LIMPET_DOCKER_SOCKET …) reach it as they are.
"""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import warnings

import limpet

START = STOP = 120  # seconds
# Built by `limpet image build`.
IMAGES = os.environ.get("LIMPET_TEST_IMAGES") or os.path.join(
    os.environ.get("LIMPET_STATE_DIR", "/var/lib/limpet"), "images"
)


PR_SET_PDEATHSIG = 1


class NotStarted(Exception):
    """A controller does not run; says why."""


def end_with_parent():
    """Whoever started it may be killed: its controller then ends its sessions and itself."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def make_directory(within=None):
    """One for a controller, with the images. Its name is short: socket paths are limited."""
    directory = tempfile.mkdtemp(prefix="limpet-", dir=within)
    os.mkdir(os.path.join(directory, "state"), 0o700)
    os.chmod(directory, 0o711)  # so that sandboxes have user namespaces
    os.symlink(IMAGES, os.path.join(directory, "state", "images"))
    return directory


class Limpetd:
    """A controller that a test or benchmark starts and ends; `within` is where its directory is made."""

    def __init__(self, engine="local", within=None, program=None):
        self.engine = engine
        self.isolates = engine != "local"
        self.program = program or os.environ.get("LIMPETD") or shutil.which(
            "limpetd", path=os.environ.get("LIMPET_BUILD")
        )
        if not self.program:
            raise NotStarted("limpetd is not in PATH; set LIMPETD to its path")
        self.directory = make_directory(within)
        self.socket = os.path.join(self.directory, "limpet.sock")
        self.log = os.path.join(self.directory, "log")
        self.process = None
        self.run_as = {}  # of subprocess.Popen: user, group, extra_groups

    def command(self, *more):
        return [
            self.program, "--engine", self.engine, "--state-dir", os.path.join(self.directory, "state"),
            "--runtime-dir", os.path.join(self.directory, "run"), "--socket", self.socket, *more,
        ]  # fmt: skip

    def launch(self, *more, environment=None):
        """Without spares unless LIMPET_POOL says otherwise: most tests are about one container."""
        environment = {"LIMPET_POOL": "0"} | os.environ | (environment or {})
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(*more), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, **self.run_as)

    def wait(self):
        """Until it answers."""
        end = time.monotonic() + START
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.sessions(reconnect_timeout=0)
                return self
            except limpet.Unavailable:
                time.sleep(0.02)
        raise NotStarted(f"limpetd did not start: {self.said()}")

    def start(self, *more):
        self.launch(*more)
        return self.wait()

    def client(self, **options):
        return limpet.Client(self.socket, autostart=False, **options)

    def sessions(self, **options):
        """By name."""
        with warnings.catch_warnings(), self.client(**options) as client:
            warnings.simplefilter("ignore")
            return {row.session: row for row in client.sessions()}

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()[-4000:]

    def stop(self):
        """Ends it in order; returns its exit status."""
        if self.process is None:
            return 0
        self.process.terminate()
        try:
            return self.process.wait(STOP)
        finally:
            self.process.kill()
            self.process.wait()
            self.process = None

    def kill(self):
        """Ends it as a crash does: its sessions are left to the next one."""
        others = controllers(self.process.pid)
        self.process.kill()
        self.process.wait()
        self.process = None
        end = time.monotonic() + STOP
        while any(map(is_limpetd, others)) and time.monotonic() < end:  # each ends with its launcher
            time.sleep(0.005)

    def send_signal(self, number):
        """To all of its processes."""
        for pid in [self.process.pid, *controllers(self.process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def leftovers(self):
        """Processes of this machine that were started with our directory."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    command = file.read().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if self.directory in command:
                found[int(pid)] = command
        return found

    def remove(self):
        for pid in self.leftovers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with open("/proc/self/mounts") as mounts:
            left = [line.split()[1] for line in mounts if f" {self.directory}/" in line]
        for path in reversed(left):
            subprocess.run(["umount", "--lazy", path])
        shutil.rmtree(self.directory, ignore_errors=True)


def name_of(pid):
    """Of a process; "" of one that has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def is_limpetd(pid):
    return name_of(pid) in ("limpetd", "limpet-files", "limpet-egress", "limpet-net")


def controllers(pid):
    """Processes that root's limpetd has for what clients and sandboxes say, and for a moment what it is about to start."""
    return [int(pid) for pid in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if is_limpetd(pid)]


@contextlib.contextmanager
def running(engine="local"):
    """One that runs; in the end nothing of it may be left."""
    controller = Limpetd(engine)
    try:
        controller.start()
        yield controller
        status = controller.stop()
        assert status == 0, f"limpetd ended with {status}: {controller.said()}"
        assert not os.path.exists(controller.socket)
        assert controller.leftovers() == {}
    finally:
        controller.stop()
        controller.remove()


@contextlib.contextmanager
def serving(engine, *options):
    """A controller that ends in order, and is removed."""
    controller = Limpetd(engine)
    try:
        yield controller.start(*options)
        assert controller.stop() == 0
    finally:
        controller.stop()
        controller.remove()
