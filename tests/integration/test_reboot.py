"""Sessions and a restart of their machine: no container runs any more, nothing is mounted, and /run is empty."""

import contextlib
import glob
import os
import shutil
import signal
import subprocess

import limpet
import pytest

from .killed import Asking, go, host, read, supervisors, wait_for  # noqa: F401
from .test_idle import PLACE, SLOW_BACK, idle, row, saved, wait_gone, wait_saved  # noqa: F401
from .test_sleep import EVERYTHING, IS_THERE

pytestmark = pytest.mark.engine

CODE = "n = 41\nopen('/session/f', 'w').write('file')\nopen('/session/artifacts/a', 'w').write('artifact')"


def has_disks(limpetd):
    return limpetd.isolates and os.geteuid() == 0


@pytest.fixture
def disks(own_limpetd):
    if not has_disks(own_limpetd):
        pytest.skip("sessions have no disks of their own here")


def has_loop_devices(limpetd):
    return any(read(path).startswith(limpetd.directory + "/") for path in glob.glob("/sys/block/loop*/loop/backing_file"))


def unmount_all(limpetd):
    """A container that another program is just making has its mounts for a moment longer."""
    mounts = [line.split()[1] for line in open("/proc/self/mounts") if line.split()[1].startswith(limpetd.directory + "/")]
    for mount in sorted(mounts, reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=True)
    wait_for(lambda: not has_loop_devices(limpetd))


def remove_groups(limpetd):
    """A machine that starts has no control groups of the containers that were there before."""
    for bundle in glob.glob(os.path.join(limpetd.directory, "run", "*", "bundles", "*")):
        for version in ("", "*/"):
            for group in glob.glob(f"/sys/fs/cgroup/{version}{os.path.basename(bundle)}"):
                os.rmdir(group)


def go_down(host):  # noqa: F811
    """The machine is off."""
    running = [pid for name in os.listdir(host.path("sessions")) for pid in supervisors(host.files(name))]
    host.limpetd.kill()
    for pid in {*running, *host.limpetd.leftovers()}:  # the latter are of the runtime, which was removing one
        with contextlib.suppress(ProcessLookupError):  # it was being ended
            os.kill(int(pid), signal.SIGKILL)
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in running) and not host.limpetd.leftovers())
    unmount_all(host.limpetd)
    remove_groups(host.limpetd)
    shutil.rmtree(os.path.join(host.limpetd.directory, "run"))


def reboot(host):  # noqa: F811
    go_down(host)
    host.limpetd.start()


def assert_whole(host, session, calls=1):  # noqa: F811
    """It sleeps; and it wakes as what it was."""
    found = row(host.client, session)
    assert (found.status, found.execution_count, found.memory) == ("saved", calls, 0)
    result = session.run(host.code("n, open('/session/f').read(), open('/session/artifacts/a').read()"))
    assert (result.result, result.state) == ("(41, 'file', 'artifact')", "kept")
    assert (result.execution_count, result.epoch, result.restored) == (calls + 1, 1, [])
    assert list(result.artifacts) == []  # it was reported before


@pytest.mark.docker
def test_a_saved_session_is_there_again(host, idle):  # noqa: F811
    session = saved(host, idle, CODE)
    for calls in (1, 2):
        reboot(host)
        assert_whole(host, session, calls)
        wait_saved(host.client, session)


def set_clock(host, monkeypatch, seconds):  # noqa: F811
    """Of the machine, for the controllers that start from now on."""
    command = type(host.limpetd).command
    monkeypatch.setattr(host.limpetd, "command", lambda *more: ["unshare", "--time", f"--monotonic={seconds}", *command(host.limpetd, *more)])


def restart_of(path):
    """The memory is of another one from now on."""
    with open(path, "r+b") as file:
        file.seek(40)
        file.write(bytes(8))


def test_memory_goes_on_after_it(host, idle, monkeypatch):  # noqa: F811
    """The machine's clock begins anew, and that of a container does not."""
    if host.limpetd.engine != "oci":
        pytest.skip("containers have the machine's clock")
    set_clock(host, monkeypatch, 100000)
    reboot(host)
    session = saved(host, idle, EVERYTHING + "import time; deadline = time.monotonic() + 3600", ttl=2)
    restart_of(host.files(session.name, PLACE, "memory"))
    set_clock(host, monkeypatch, 0)
    reboot(host)
    result = session.run(IS_THERE)
    assert (result.result, result.state, result.restored) == ("(1, (41,), True, '456789')", "kept", [])
    assert session.run("3000 < deadline - time.monotonic() < 3600").result == "True"


def test_what_it_writes_is_bounded_as_before(host, idle, disks):  # noqa: F811
    places = ("/tmp/f", "/home/user/f")
    session = saved(host, idle, CODE + f"\nfor place in {places}: open(place, 'w').write('kept')", disk="32m", files=1000, ttl=2)
    reboot(host)
    assert_whole(host, session)
    assert session.run(f"[open(place).read() for place in {places}]").result == "['kept', 'kept']"
    space = "import os; s = os.statvfs('/session'); 30 << 20 < s.f_bavail * s.f_frsize < 34 << 20"
    wait_for(lambda: session.run(space).result == "True")  # what it has woken from is removed a moment later
    assert session.run("'nosuid,nodev' in next(line for line in open('/proc/mounts') if ' /session ' in line)").result == "True"


def test_the_controller_was_stopped_in_order(host, idle):  # noqa: F811
    session = saved(host, idle, CODE)
    assert host.limpetd.stop() == 0
    unmount_all(host.limpetd)
    host.limpetd.start()
    assert_whole(host, session)


def test_it_is_closed_without_being_woken(host, idle):  # noqa: F811
    session = saved(host, idle, CODE)
    reboot(host)
    session.close()
    assert row(host.client, session) is None
    wait_for(lambda: not os.path.exists(host.files(session.name)))
    assert host.limpetd.said().count("session woken") == 0


def test_an_open_session_ends(host, idle):  # noqa: F811
    session, other = idle(ttl=600), saved(host, idle, CODE, which=1)
    session.run("n = 1")
    reboot(host)
    wait_for(lambda: row(host.client, session) is None)
    with pytest.raises(limpet.NoSuchSession, match="its variables are gone"):
        session.run("n")
    assert_whole(host, other)


def test_a_machine_that_stops_while_it_wakes(host, idle):  # noqa: F811
    """Its container is being made, and what its supervisor connects to goes with /run."""
    session = saved(host, idle, SLOW_BACK, memory=False)
    with host.limpetd.client(reconnect_timeout=0) as client:
        opening = Asking(client.attach, session.name)
        wait_for(lambda: supervisors(host.files(session.name)))
        go_down(host)
        with pytest.raises(limpet.Error):
            opening.result()
    host.limpetd.start()
    wait_saved(host.client, session)
    waking = Asking(session.run, "n")
    wait_for(lambda: supervisors(host.files(session.name)))
    go(host, session.name)
    assert (waking.result().result, waking.result().state) == ("41", "kept")


# ---- disks


def image(host, session):  # noqa: F811
    return host.path("sessions", session.name, "disk")


def test_a_loss_of_power(host, idle, disks):  # noqa: F811
    """What was written to the image by then is all that there is, and nothing has unmounted it."""
    host.limpetd.stop()
    host.limpetd.start("--log-level", "debug")
    session = saved(host, idle, CODE, disk="32m")  # which is copied
    wait_for(lambda: open(host.limpetd.log).read().count("session synced") == 2)  # with its container, and without
    shutil.copy(image(host, session), host.path("copy"))
    go_down(host)
    os.rename(host.path("copy"), image(host, session))
    host.limpetd.start()
    assert_whole(host, session)


def damage(path):
    with open(path, "r+b") as file:
        file.write(bytes(1 << 20))


def replace_by_link(path):
    os.symlink(os.path.basename(path) + ".aside", path)


def replace_by_fifo(path):
    os.mkfifo(path, 0o600)


def give_away(path):
    shutil.copy(path + ".aside", path)
    os.chown(path, 1, 1)


def link_twice(path):
    os.link(path + ".aside", path)


def truncate(path):
    shutil.copy(path + ".aside", path)
    os.truncate(path, 4096)


def damage_copy(path):
    shutil.copy(path + ".aside", path)
    damage(path)


RUINS = {
    "gone": (lambda path: None, "its disk is gone"),
    "damaged": (damage_copy, "the disk of the session is damaged: e2fsck: "),
    "empty": (truncate, "the disk of the session is damaged: e2fsck: "),
    "a link": (replace_by_link, "cannot use the directories of the session"),
    "a pipe": (replace_by_fifo, "cannot use the directories of the session"),
    "another's": (give_away, "cannot use the directories of the session"),
    "a second name": (link_twice, "cannot use the directories of the session"),
}


def test_disks_that_cannot_be_had(host, idle, disks):  # noqa: F811
    """Their sessions stay saved, and say why, until the disks are there again; others do not suffer."""
    sessions = {name: idle(which, disk="32m") for which, name in enumerate([*RUINS, "whole"])}
    for session in sessions.values():
        session.run(host.code(CODE)).check()
    for session in sessions.values():
        wait_gone(host, session)
    go_down(host)
    paths = {name: image(host, sessions[name]) for name in RUINS}
    for name, (ruin, _) in RUINS.items():
        os.rename(paths[name], paths[name] + ".aside")
        ruin(paths[name])
    host.limpetd.start()
    for name, (_, why) in RUINS.items():
        for _ in range(2):
            with pytest.raises(limpet.Error, match=f"the session is saved, and cannot be woken now: .*{why}"):
                sessions[name].run("n")
            assert row(host.client, sessions[name]).status == "saved"
    assert_whole(host, sessions["whole"])
    for name, path in paths.items():
        os.rename(path + ".aside", path)
        if name == "a second name":  # of one file: nothing is renamed
            os.unlink(path + ".aside")
        result = sessions[name].run("n, open('/session/f').read()")
        assert (result.result, result.state) == ("(41, 'file')", "kept"), name


def test_one_whose_disk_is_damaged_is_closed(host, idle, disks):  # noqa: F811
    session = saved(host, idle, CODE)
    go_down(host)
    damage(image(host, session))
    host.limpetd.start()
    session.close()
    assert row(host.client, session) is None
    wait_for(lambda: not os.path.exists(image(host, session)))


def test_a_disk_that_is_in_use_is_not_mounted_again(host, idle, disks):  # noqa: F811
    """Two who write to one image would ruin it."""
    session = saved(host, idle, CODE)
    go_down(host)
    device = subprocess.run(["losetup", "--find", "--show", image(host, session)], capture_output=True, text=True, check=True).stdout.strip()
    try:
        host.limpetd.start()
        with pytest.raises(limpet.Error, match="Device or resource busy"):
            session.run("n")
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
    wait_for(lambda: not has_loop_devices(host.limpetd))
    assert session.run("n").result == "41"
