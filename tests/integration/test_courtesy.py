"""A session that computes for long steps aside while others are called: the kernel says of its control group whether
it does."""

import contextlib
import os
import signal

import pytest

from .killed import Asking, go, host, supervisor, wait_for  # noqa: F401
from .pooled import pool, settings  # noqa: F401
from .raw_peer import Client

pytestmark = pytest.mark.engine


def group(pid, controller="cpu"):
    """The directory of its control group, in version 1 or 2."""
    with open(f"/proc/{pid}/cgroup") as file:
        groups = {part: path for _, names, path in (line.strip().split(":", 2) for line in file) for part in names.split(",")}
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    for mount in mounts:
        kind, options = mount[mount.index("-") + 1], mount[-1].split(",")
        if kind == ("cgroup" if controller in groups else "cgroup2") and (kind == "cgroup2" or controller in options):
            return mount[4] + groups.get(controller, groups.get("", "/"))
    pytest.skip("no control groups are mounted")


def idle(pid):
    try:
        with open(os.path.join(group(pid), "cpu.idle")) as file:
            return file.read().strip() == "1"
    except FileNotFoundError:
        pytest.skip("control groups cannot be idle here")


@pytest.fixture
def sessions(host):
    if not host.limpetd.isolates or os.geteuid() != 0:
        pytest.skip("only a controller that is root sets containers aside")
    with host.client.open("busy") as busy, host.client.open("other") as other:
        assert not idle(supervisor(host, "busy")) and not idle(supervisor(host, "other"))
        yield busy, other


COMPUTE = "open('/session/began', 'w').close()\nimport os\nwhile not os.path.exists('/session/go'): pass\n"


def begin(host, busy, code=COMPUTE, **options):
    running = Asking(busy.run, code, **options)
    wait_for(lambda: os.path.exists(host.files("busy", "began")))
    return running


def called(other):
    return other.run("1").status == "ok"


def step_aside(host, busy, other, code=COMPUTE, **options):
    running = begin(host, busy, code, **options)
    pid = supervisor(host, "busy")
    wait_for(lambda: called(other) and idle(pid))
    assert not idle(supervisor(host, "other"))
    return running, pid


@pytest.mark.docker
def test_it_is_back_when_its_call_has_ended(host, sessions):
    running, pid = step_aside(host, *sessions)
    go(host, "busy")
    assert running.result().status == "ok"
    assert not idle(pid)


def test_it_is_back_when_it_was_interrupted(host, sessions):
    running, pid = step_aside(host, *sessions)
    wait_for(sessions[0].interrupt)
    assert running.result().status == "interrupted"
    assert not idle(pid)


def test_it_is_back_when_it_has_crashed(host, sessions):
    running, pid = step_aside(host, *sessions, COMPUTE + f"os.kill(os.getpid(), {signal.SIGKILL})")
    go(host, "busy")
    assert running.result().status == "crashed"
    assert not idle(pid)


@pytest.mark.long
def test_it_is_back_at_its_deadline(host, sessions):
    running, pid = step_aside(host, *sessions, timeout=30)
    assert running.result().status == "timeout"
    assert not idle(pid)


def test_it_is_back_when_nobody_else_is_called_any_more(host, sessions):
    running, pid = step_aside(host, *sessions)
    wait_for(lambda: not idle(pid))
    assert running.is_alive()
    wait_for(lambda: called(sessions[1]) and idle(pid))
    go(host, "busy")
    assert running.result().status == "ok"


def test_what_only_waits_comes_back(host, sessions):
    """It could not tell the time it waits from one in which it gets no processor."""
    code = COMPUTE + "import time\nwhile not os.path.exists('/session/end'): time.sleep(0.1)\n"
    running, pid = step_aside(host, *sessions, code)
    go(host, "busy")
    wait_for(lambda: called(sessions[1]) and not idle(pid))
    assert running.is_alive()
    open(host.files("busy", "end"), "w").close()
    assert running.result().status == "ok"


def test_alone_it_does_not_step_aside(host, sessions):
    busy, other = sessions
    other.close()
    code = "import time\nseen = []\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\n"
    pid = supervisor(host, "busy")
    running = Asking(busy.run, code)
    while running.is_alive():
        assert not idle(pid)
    assert running.result().status == "ok"


def killed_while_aside(host, other, pid):
    """On a machine with much else to do it may have come back just before."""
    if not called(other) or not idle(pid):
        return False
    host.limpetd.kill()
    if not idle(pid):
        host.limpetd.start()
        return False
    return True


@pytest.mark.proves("engine: set_idle")
def test_the_next_controller_takes_it_back(host, sessions):
    busy, other = sessions
    running, pid = step_aside(host, busy, other)
    wait_for(lambda: killed_while_aside(host, other, pid))
    host.limpetd.start()
    wait_for(lambda: not idle(pid))
    assert running.is_alive()
    wait_for(lambda: called(other) and idle(pid))
    go(host, "busy")
    assert running.result().status == "ok"
    assert not idle(pid)


def test_the_next_controller_takes_it_back_when_the_call_has_ended_meanwhile(host, sessions):
    running, pid = step_aside(host, *sessions)
    wait_for(lambda: killed_while_aside(host, sessions[1], pid))
    go(host, "busy")
    host.limpetd.start()
    assert running.result().status == "ok"
    assert not idle(pid)


def test_what_is_left_to_the_next_controller_is_taken_back(host, sessions):
    running, pid = step_aside(host, *sessions)
    with contextlib.closing(Client(host.limpetd.socket)) as raw:
        raw("shutdown", keep=True)
    assert host.limpetd.process.wait() == 0
    assert not idle(pid)
    host.limpetd.start()
    go(host, "busy")
    assert running.result().status == "ok"


def some_but_at_most_one(aside):
    count = sum(aside)
    assert count <= 1
    return count == 1


def test_spares_do_not_step_aside(pool):
    if not pool.limpetd.isolates or os.geteuid() != 0:
        pytest.skip("only a controller that is root sets containers aside")
    with pool.client.open("busy") as busy:
        pool.ready()
        with pool.client.open("other") as other:
            pool.ready()
            pids = list(pool.supervisors().values())
            assert len(pids) == 3
            running = Asking(busy.run, "while True: pass")
            wait_for(lambda: called(other) and some_but_at_most_one(map(idle, pids)))
            wait_for(busy.interrupt)
            assert running.result().status == "interrupted"
            assert not any(map(idle, pids))
