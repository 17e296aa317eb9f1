"""What the processes of root's limpetd may do, read from the kernel."""

import ctypes
import os
import pathlib
import subprocess
import sys

import pytest

from .killed import children, read

pytestmark = pytest.mark.engine

FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3  # CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER


def start(limpetd):
    """With all its processes, which a session needs."""
    limpetd.start()
    if not limpetd.isolates:
        pytest.skip("one process, with the rights of its user")
    with limpetd.client() as client:
        client.open("first").close()


def statuses(limpetd):
    """By name: what /proc says of each process besides the launcher."""
    found = {}
    for pid in children(limpetd.process.pid):
        lines = (line.split(":", 1) for line in read(f"/proc/{pid}/status").splitlines())
        status = {name: value.strip() for name, value in lines}
        found[status.get("Name")] = status  # None: it has ended
    return found


@pytest.mark.docker
@pytest.mark.parametrize(("name", "capabilities"), [("limpetd", 0), ("limpet-files", FILES)])
def test_a_process_has_only_the_rights_it_needs(own_limpetd, name, capabilities):
    start(own_limpetd)
    status = statuses(own_limpetd)[name]
    assert [int(status[which], 16) for which in ("CapEff", "CapPrm")] == [capabilities] * 2
    assert [int(status[which], 16) for which in ("CapInh", "CapBnd", "CapAmb")] == [0] * 3
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert set(status["Uid"].split()) == {"20002"}


def test_what_a_limpetd_of_one_process_left_is_given_away(own_limpetd):
    """But not what root has elsewhere, and somebody has linked to."""
    if not own_limpetd.isolates or os.geteuid() != 0:
        pytest.skip("one process, with the rights of its user")
    secret = pathlib.Path(own_limpetd.directory, "secret")
    ended = pathlib.Path(own_limpetd.directory, "state", "ended")
    ended.mkdir()
    for path in (ended / "left", secret):
        path.touch(0o600)
    os.link(secret, ended / "linked")
    left = os.open(ended / "left", os.O_RDONLY)
    own_limpetd.start()
    assert os.fstat(left).st_uid == 20002
    assert secret.stat().st_uid == 0
    os.close(left)


WATCHES = pathlib.Path("/proc/sys/fs/inotify/max_user_instances")
TAKE_ALL = """
import ctypes, os
os.setuid(20002)
libc = ctypes.CDLL(None)
for _ in range(128): libc.inotify_init1(0)
print("taken", flush=True)
input()
"""


def test_more_sessions_are_watched_than_the_kernel_lets_a_user(own_limpetd):
    """What a call leaves is found without looking at all that is there, also where other sessions take what the kernel gives."""
    if not own_limpetd.isolates or os.geteuid() != 0:
        pytest.skip("one process, with the rights of its user")
    WATCHES.write_text("128")
    own_limpetd.start()
    with subprocess.Popen([sys.executable, "-c", TAKE_ALL], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as others:
        assert others.stdout.readline() == b"taken\n"
        with own_limpetd.client() as client, client.open("watched") as session:
            session.run("open('/session/artifacts/a', 'w').close()").check()
            [worker] = [pid for pid in children(own_limpetd.process.pid) if read(f"/proc/{pid}/comm") == "limpet-files\n"]
            assert "anon_inode:inotify" in [os.readlink(entry) for entry in pathlib.Path(f"/proc/{worker}/fd").iterdir()]
        others.communicate(b"\n")


def read_bytes(pid):
    """By its threads: what its children have read would count for the process."""
    return sum(int(io.read_text().split()[1]) for io in pathlib.Path(f"/proc/{pid}/task").glob("*/io"))


def test_the_launcher_reads_no_more_where_more_is_mounted(own_limpetd, tmp_path):
    """Each session has mounts: reading them all for each takes longer the more there are."""
    if not own_limpetd.isolates or os.geteuid() != 0:
        pytest.skip("one process, with the rights of its user")
    own_limpetd.start()
    mounts, libc, amounts = 300, ctypes.CDLL(None, use_errno=True), []
    place = os.fsencode(tmp_path)
    with own_limpetd.client() as client:
        client.open("first").close()
        try:
            for more in (0, mounts):
                for _ in range(more):
                    assert libc.mount(b"none", place, b"tmpfs", 0, b"size=4k") == 0, os.strerror(ctypes.get_errno())
                before = read_bytes(own_limpetd.process.pid)
                client.open("second").close()
                amounts.append(read_bytes(own_limpetd.process.pid) - before)
        finally:
            while libc.umount2(place, 0) == 0:
                pass
    assert amounts[1] - amounts[0] < 50 * mounts, amounts  # of a line about each


def addresses(pid):
    """Where the kernel has put the program, and its stack."""
    lines = read(f"/proc/{pid}/maps").splitlines()
    return {lines[0].split("-")[0], next(line.split("-")[0] for line in lines if line.endswith("[stack]"))}


def test_a_process_knows_nothing_of_the_memory_of_another(own_limpetd):
    start(own_limpetd)
    launcher = own_limpetd.process.pid
    found = [addresses(pid) for pid in (launcher, *children(launcher)) if read(f"/proc/{pid}/comm").startswith("limpet")]
    assert len(found) == 3
    assert len(set.union(*found)) == 6
