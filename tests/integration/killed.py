"""A controller that is killed at a chosen moment, for the tests of what the next one makes of it."""

import contextlib
import os
import subprocess
import threading
import time

import pytest

PATIENCE = 300  # seconds


def wait_for(condition, said=lambda: ""):
    """Looks again at once where it may only last a moment, and less often where it takes long. `said` is told where it does not happen."""
    end, pause = time.monotonic() + PATIENCE, 0.002
    while not condition():
        assert time.monotonic() < end, f"it did not happen\n{said()}"
        time.sleep(pause)
        pause = min(1.1 * pause, 0.02)


class Asking(threading.Thread):
    """Something a client asks for and waits for, from a thread of its own."""

    def __init__(self, ask, *args, **options):
        super().__init__(daemon=True)
        self.ask, self.args, self.options = ask, args, options
        self.answer = self.error = None
        self.start()

    def run(self):
        try:
            self.answer = self.ask(*self.args, **self.options)
        except BaseException as error:
            self.error = error

    def result(self):
        self.join(PATIENCE)
        assert not self.is_alive(), "no answer"
        if self.error:
            raise self.error
        return self.answer


class Host:
    """A controller, one client, and what both leave on the host."""

    def __init__(self, limpetd):
        self.limpetd = limpetd
        self.client = limpetd.client()

    def path(self, *parts):
        return os.path.join(self.limpetd.directory, "state", *parts)

    def files(self, session, *parts):
        return self.path("sessions", session, "files", *parts)

    def code(self, text):
        """Where nothing isolates, the session's directory is the current one."""
        return text if self.limpetd.isolates else text.replace("/session/", "")

    def again(self, times=1):
        for _ in range(times):
            self.limpetd.kill()
            self.limpetd.start()


@pytest.fixture
def host(own_limpetd):
    host = Host(own_limpetd.start())
    try:
        yield host
    finally:
        host.client.close()
        if not own_limpetd.process:
            own_limpetd.start()  # a test that failed has left sessions to the next one
        status = own_limpetd.stop()
    assert status == 0, own_limpetd.said()
    assert own_limpetd.leftovers() == {}
    assert not os.path.isdir(host.path("removed")) or os.listdir(host.path("removed")) == []
    assert os.listdir(host.path("journals")) == []
    assert not os.path.exists(os.path.join(own_limpetd.directory, "run", "guests"))


@contextlib.contextmanager
def small_state(limpetd):
    """The controller runs while its state directory is a filesystem of 24 MiB."""
    state = os.path.join(limpetd.directory, "state")
    images = os.readlink(os.path.join(state, "images"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", state], check=True)
    try:
        os.symlink(images, os.path.join(state, "images"))
        limpetd.start()
        yield state
    finally:
        limpetd.stop()
        # A container that another program is just making has its mounts, and so what is open here, a moment longer.
        wait_for(lambda: subprocess.run(["umount", state]).returncode == 0)


COUNT = "open('/session/count', 'a').write('x')\n"  # how often it was executed
HOLD = "import os, time\nwhile not os.path.exists('/session/go'): time.sleep(0.01)\n"  # until the test says go


def go(host, session):
    open(host.files(session, "go"), "w").close()


def times_executed(host, session):
    with open(host.files(session, "count")) as file:
        return len(file.read())


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""  # it has ended


def is_supervisor(pid, directory):
    """Of the session with that directory: it is mounted there, or where nothing isolates named on the command line."""
    if read(f"/proc/{pid}/comm") != "limpet-guest\n":
        return False
    if directory in read(f"/proc/{pid}/cmdline").split("\0"):
        return True
    try:
        return os.path.samefile(f"/proc/{pid}/root/session", directory)
    except OSError:
        return False  # one of them is gone


def parent(pid):
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1:2]


def supervisors(directory):
    """Those of a session with that directory: one or none. What it is just starting looks the same for a moment."""
    pids = [pid for pid in os.listdir("/proc") if pid.isdigit() and is_supervisor(pid, directory)]
    of = {pid: parent(pid) for pid in pids}
    return [int(pid) for pid in pids if of[pid] and of[pid][0] not in pids]


def supervisor(host, session):
    """Process 1 of a session, as the host sees it."""
    [pid] = supervisors(host.files(session))
    return pid


def children(pid):
    return read(f"/proc/{pid}/task/{pid}/children").split()


def number_inside(pid):
    """As its own container numbers a process."""
    return read(f"/proc/{pid}/status").partition("NSpid:")[2].partition("\n")[0].split()[-1:]
