"""What a session writes is bounded, whatever it writes, and its end leaves nothing of it."""

import os
import signal
import subprocess

import limpet
import pytest

from .killed import Asking, host, supervisor, wait_for  # noqa: F401
from .pooled import pool, settings  # noqa: F401

pytestmark = pytest.mark.engine

MIB = 1 << 20

# What was written until there was no more room, and why there was none.
FILL = """
import errno, os
def fill(path, block=b'x' * (1 << 20)):
    size = 0
    try:
        with open(path, 'wb', buffering=0) as file:
            while True:
                size += file.write(block)
    except OSError as error:
        return size, errno.errorcode[error.errno]
def make(directory, count=10**6):
    made = 0
    try:
        os.makedirs(directory, exist_ok=True)
        for made in range(count):
            open(f'{directory}/{made}', 'w').close()
    except OSError as error:
        return made, errno.errorcode[error.errno]
"""
FULL = ("ENOSPC", "EDQUOT")


def disks(limpetd):
    """What there is of disks on this machine that is of this controller: mounts, devices, images."""
    mounts = [line.split()[1] for line in open("/proc/mounts") if limpetd.directory + "/" in line and "/mapped/images " not in line]
    devices = subprocess.run(["losetup", "--list", "--noheadings", "--output", "BACK-FILE"], capture_output=True, text=True, check=True).stdout
    images = [os.path.join(at, "disk") for at, _, names in os.walk(os.path.join(limpetd.directory, "state")) if "disk" in names]
    return mounts + [line for line in devices.splitlines() if limpetd.directory + "/" in line] + images


@pytest.fixture(autouse=True)
def bounded(request):
    limpetd = request.getfixturevalue("limpetd" if "client" in request.fixturenames else "own_limpetd")
    if not limpetd.isolates or os.geteuid() != 0:
        pytest.skip("nothing bounds what is written here")


@pytest.fixture
def small(client, name):
    with client.open(name, disk="32m", files=1000) as session:
        session.run(FILL)
        yield session


def value(session, code):
    result = session.run(code, timeout=300)
    assert result.ok, (result, result.error and result.error.message)
    return eval(result.result)


@pytest.mark.docker
@pytest.mark.proves("security: too many or too large files")
def test_one_huge_file(small, client, name):
    other = client.open(name + "-other")
    size, why = value(small, "fill('/session/huge')")
    assert why in FULL and 30 * MIB < size <= 33 * MIB
    assert value(other, "open('/session/mine', 'w').write('x' * 100000)") == 100000
    assert value(small, "x = 1; x") == 1  # and the session is told no more of it than the code was
    small.run("os.remove('/session/huge')")
    assert value(small, "open('/session/after', 'w').write('x' * 100000)") == 100000
    other.close()


@pytest.mark.docker
@pytest.mark.proves("security: too many or too large files")
def test_many_small_files(small, client, name):
    made, why = value(small, "make('/session/many')")
    assert why in FULL and 900 <= made <= 1100
    assert value(small, "import shutil; shutil.rmtree('/session/many'); open('/session/one', 'w').write('x')") == 1


def test_one_huge_file_by_default(session):
    """No other limit is met first."""
    session.run(FILL)
    size, why = value(session, "fill('/session/huge')")
    assert why in FULL and (1 << 30) * 0.98 < size < (1 << 30) * 1.02
    assert "larger disk=" in session.run("open('/session/more', 'wb').write(b'x' * (1 << 20))").error.traceback


def test_files_are_bounded_by_default(session):
    session.run(FILL)
    made, why = value(session, "make('/session/a') if make('/session/b', 90000) is None else None")
    assert why in FULL and 9000 <= made <= 11000
    assert "larger files=" in session.run("open('/session/more', 'w')").error.traceback
    assert value(session, "import shutil; shutil.rmtree('/session/b'); open('/session/one', 'w').write('x')") == 1


def test_a_hole_is_no_room(small):
    small.run("file = open('/session/holes', 'wb'); file.truncate(1 << 29)")
    size, why = value(small, "fill('/session/huge')")
    assert why in FULL and size > 30 * MIB
    code = "try:\n    file.write(b'x' * (1 << 20)); file.flush(); said = ''\nexcept OSError as error: said = errno.errorcode[error.errno]\nsaid"
    assert value(small, code) in FULL


def test_all_that_is_below(small):
    """Sub-directories, artifacts, and what is spilled of long output count together."""
    value(small, "os.makedirs('/session/a/b'); open('/session/a/b/c', 'wb').write(bytes(16 << 20))")
    size, why = value(small, "fill('/session/artifacts/d')")
    assert why in FULL and size <= 17 * MIB
    result = small.run("for i in range(300000): print('a line that makes this long')")
    assert result.ok and result.truncated
    small.run("os.remove('/session/a/b/c')")
    assert small.run("'again'").result == "'again'"


def test_a_call_of_its_own(client):
    code = FILL + "fill('/session/huge'), fill('/work/huge')"
    result = client.run(code, disk="32m", timeout=120)
    (one, why), (two, _) = eval(result.result)
    assert why in FULL and one + two <= 33 * MIB


def test_what_the_host_writes_there(small, tmp_path):
    """An upload that does not fit is refused as a whole, and one that does arrives."""
    large, little = tmp_path / "large", tmp_path / "little"
    large.write_bytes(b"x" * (40 * MIB))
    little.write_bytes(b"y" * MIB)
    with pytest.raises(limpet.Error):
        small.put(large, "/session/large")
    small.put(little, "/session/little")
    assert value(small, "os.listdir('/session/.limpet'), os.path.getsize('/session/little')")[1] == MIB
    small.get("/session/little", tmp_path / "back")
    assert (tmp_path / "back").stat().st_size == MIB


def test_checkpoints_of_a_full_disk(small):
    """It can be kept and gone back to; where the copy has no room beside what is there, that is said."""
    small.run("open('/session/first', 'w').write('one'); x = 1")
    point = small.checkpoint("before", files=True)
    small.run("open('/session/first', 'w').write('two'); x = 2")
    assert value(small, "fill('/session/huge', b'x' * 4096)")[1] in FULL
    full = small.checkpoint("full", files=True)
    with pytest.raises(limpet.Error):
        small.rollback(full)
    assert value(small, "x, open('/session/first').read()") == (2, "two")
    small.run("os.remove('/session/huge')")
    small.rollback(point)
    assert value(small, "x, open('/session/first').read(), os.path.exists('/session/huge')") == (1, "one", False)


def test_filled_while_a_checkpoint_is_made(small):
    """By a process of its own: what the interpreter has open its checkpoints have open, too."""
    small.run("open('/session/first', 'w').write('one'); import subprocess; p = subprocess.Popen('cat /dev/zero > /session/huge', shell=True)")
    point = small.checkpoint("meanwhile", files=True)
    small.run("p.wait(); os.remove('/session/huge')")
    small.rollback(point)
    assert value(small, "open('/session/first').read()") == "one"


def test_other_sizes_attach_to_nothing(client, name):
    with client.open(name, disk="32m", files=1000) as session:
        assert session.options["disk"] == 32 * MIB and session.options["files"] == 1000
        client.open(name, disk="32m")
        with pytest.raises(limpet.OptionsDiffer, match="disk, files"):
            client.open(name, disk="64m", files=2000)


def test_reset_and_branches_have_the_same(small):
    value(small, "fill('/session/huge')")
    branch = small.branch("b")
    assert value(branch, "fill('/session/other')")[1] in FULL
    branch.close()
    small.reset()
    small.run(FILL)
    assert value(small, "fill('/session/more')")[1] in FULL


@pytest.mark.docker
def test_nothing_is_left(host):  # noqa: F811
    session = host.client.open("a", disk="32m")
    host.client.run("1")
    assert len(disks(host.limpetd)) >= 3  # a mount, a device, an image
    session.close()
    assert_gone(host.limpetd)


def assert_gone(limpetd):
    wait_for(lambda: disks(limpetd) == [])


def test_a_killed_controller_finds_it_again(host):  # noqa: F811
    session = host.client.open("a", disk="32m", files=1000)
    session.run(FILL + "open('/session/kept', 'w').write('kept')")
    host.again()
    assert value(session, "open('/session/kept').read()") == "kept"
    assert value(session, "fill('/session/huge')")[1] in FULL
    session.run("os.remove('/session/huge')")
    assert list(session.run("open('/session/artifacts/a', 'w').write('x')").artifacts) == ["/session/artifacts/a"]
    session.close()
    assert_gone(host.limpetd)


def kill_both(host):  # noqa: F811
    """A controller, and the container of its session `a`."""
    host.client.open("a", disk="32m").run("1")
    pid = supervisor(host, "a")
    host.limpetd.kill()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_container_that_ended_without_a_controller(host):  # noqa: F811
    """The next controller unmounts and removes what is left of it."""
    kill_both(host)
    assert disks(host.limpetd)
    host.limpetd.start()
    assert_gone(host.limpetd)


def test_an_image_that_a_restart_of_the_machine_left(host):  # noqa: F811
    """Nothing is mounted any more, and no container runs."""
    kill_both(host)
    while subprocess.run(["umount", "--lazy", host.files("a")], capture_output=True).returncode == 0:
        pass
    assert os.path.exists(host.path("sessions", "a", "disk"))
    host.limpetd.start()
    assert_gone(host.limpetd)
    wait_for(lambda: not os.path.exists(host.path("sessions", "a")))


def test_killed_while_disks_are_made(host):  # noqa: F811
    asking = [Asking(host.client.open, f"s{number}", disk="32m") for number in range(4)]
    wait_for(lambda: disks(host.limpetd))
    host.limpetd.kill()
    host.limpetd.start()
    for each in asking:
        each.join()  # opened by the one or the other, or told that nobody was there
    for row in host.client.sessions():
        host.client.open(row.session).close()
    assert_gone(host.limpetd)


def test_closed_while_disks_are_made(host):  # noqa: F811
    asking = [Asking(host.client.open, f"s{number}", disk="32m") for number in range(4)]
    wait_for(lambda: disks(host.limpetd))
    assert host.limpetd.stop() == 0
    assert_gone(host.limpetd)
    host.limpetd.start()
    for each in asking:
        each.join()
    for row in host.client.sessions():
        host.client.open(row.session).close()
    assert_gone(host.limpetd)


@pytest.mark.docker
def test_a_spare_has_one(pool):  # noqa: F811
    with pool.client.open("a") as session:
        assert pool.was_claimed(session)
        session.run(FILL)
        available = value(session, "s = os.statvfs('/session'); s.f_bavail * s.f_frsize")
        assert 0.98 * (1 << 30) < available < 1.02 * (1 << 30)


def test_spares_of_another_size(pool):  # noqa: F811
    """They are a kind of their own, made once they are asked for."""
    with pool.client.open("a", disk="32m") as session:
        assert not pool.was_claimed(session)
    pool.ready(2)
    with pool.client.open("b", disk="32m") as session:
        assert pool.was_claimed(session)
        session.run(FILL)
        assert value(session, "fill('/session/huge')")[0] <= 33 * MIB


# ---- published copies


def published(path):
    return sum(os.lstat(os.path.join(at, name)).st_blocks * 512 for at, _, names in os.walk(path) for name in names)


def test_published_copies_are_bounded(small, limpetd, name):
    """Files that come and go leave copies on the host; they are bounded like the disk that they came from."""
    code = "import os\nfor old in os.listdir('/session/artifacts'): os.remove('/session/artifacts/' + old)\nopen('/session/artifacts/{}', 'wb').write(os.urandom(8 << 20))"
    skipped, kept = {}, []
    for i in range(8):
        result = small.run(code.format(i))
        assert result.ok and result.state == "kept"
        skipped |= result.skipped
        kept += result.artifacts.values()
    assert 3 <= len(kept) <= 4 and len(skipped) == 8 - len(kept)
    assert all("options disk and files" in why for why in skipped.values())
    copies = os.path.join(limpetd.directory, "state", "sessions", name, "artifacts")
    assert published(copies) <= 36 * MIB
    # one that takes the place of an earlier copy has its room
    again = small.run(code.format(0))
    assert list(again.artifacts) == ["/session/artifacts/0"]
    # and what is removed on the host makes room
    os.remove(kept[1])
    assert list(small.run(code.format("new")).artifacts) == ["/session/artifacts/new"]


def test_published_files_are_bounded(small):
    """Not only their bytes: names are room, too."""
    code = "import os, shutil\nshutil.rmtree('/session/artifacts/d', True)\nos.makedirs('/session/artifacts/d/{0}')\nfor i in range(400): open(f'/session/artifacts/d/{0}/{{i}}', 'w').write('x')"
    results = [small.run(code.format(i)) for i in range(4)]
    assert all(result.ok for result in results)
    assert 1000 <= sum(len(result.artifacts) for result in results) <= 1125
    assert results[3].skipped
    assert small.run("1").result == "1"


def test_links_in_artifacts(small):
    """They are not what they point to, on the disk or off it."""
    result = small.run("os.symlink('/etc/passwd', '/session/artifacts/a'); os.symlink('/session', '/session/artifacts/b'); os.symlink('../../..', '/session/artifacts/c'); open('/session/artifacts/d', 'w').write('x')")
    assert list(result.artifacts) == ["/session/artifacts/d"]
    assert {os.path.basename(path) for path in result.skipped} == {"a", "b", "c"}
