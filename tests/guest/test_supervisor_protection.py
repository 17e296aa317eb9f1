"""What code that means harm can do to limpet-guest: nothing."""


import pytest

from tests.support.wire import STOP

from .guest_harness import (
    AS_PROCESS_1,
    FAKE,
    OTHER_UID,
    REAL,
    as_process_1,
    assert_works,
    needs_real,
    needs_root,
    wait_for,
)

pytestmark = pytest.mark.sanitize


def test_environment(guest):
    record = guest.controller.run(
        "import os; print(sorted(os.environ)); print(os.environ['GREETING'], os.getcwd())"
    )
    assert "LEAKED" not in record["stdout"] and "LIMPET_GUEST_LOG" not in record["stdout"]
    assert record["stdout"].endswith(f"hello {guest.directory}\n")


def test_descriptors(fake):
    record = fake.controller.run("import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")
    # 4: the directory that is being listed; 5: what Python holds of the rings it was given as 4
    assert record["stdout"] == "[0, 1, 2, 3, 4, 5]\n"


@needs_real
def test_exec_of_something_that_stays(make_guest):
    guest = make_guest(REAL)
    guest.controller.welcome()
    record = guest.controller.run("import os; os.execv('/bin/sleep', ['sleep', '60'])")
    assert (record["status"], record["state"]) == ("crashed", "lost")
    assert "replaced its process" in record["error"]["message"]
    assert_works(guest, 2)


@pytest.mark.parametrize(
    "code, reason",
    [
        ("channel.sendall(b'\\0\\0\\0\\5hello')", "protocol"),
        ("channel.sendall(b'\\xff\\xff\\xff\\xff')", "32 MiB"),
        ("send(63, {'cpu': float('nan')})", "cpu"),
        ("send(63, {'result': None, 'more': 1})", "more"),
        ("send(63, {'result': 'x' * (1 << 20) + 'x'})", "result"),
        ("send(63, {'error': {'message': 'no name'}})", "name"),
        ("send(63, {'displays': [{'data': {}}] * 257})", "257"),
        ("send(63, {}, id=7)", "call"),
        ("send(65, {'peer': 'again'})", "ready"),
        ("send(41, {'data': {'text/plain': 'a'}, 'evil': 1})", "evil"),
        ("send(41, {'data': {1: 'a'}})", "text"),
        ("send(62, {})", "execute"),
        ("channel.close()", "channel"),
    ],
)
def test_broken_protocol(fake, code, reason):
    record = fake.controller.run(f"import os, time; os.write(1, b'said'); {code}; time.sleep(60)")
    assert (record["status"], record["state"], record["error"]["name"]) == ("crashed", "lost", "Crashed")
    assert "protocol" in record["error"]["message"] and record["stdout"] == "said"
    assert record["signal"] is None
    assert_works(fake, 2)


@pytest.mark.proves("security: forged answers")
def test_second_executed_is_a_violation(fake):
    record = fake.controller.run("channel.sendall(pack(63, {}) * 2); import time; time.sleep(60)")
    assert (record["status"], record["epoch"]) == ("ok", 1)
    assert_works(fake, 2)


FORK_BOMB = """
import os, time
def bomb(deep):
    os.setsid() if deep % 2 else None
    while True:
        try:
            if os.fork() == 0: deep += 1
        except OSError: time.sleep(0.001)
import resource
resource.setrlimit(resource.RLIMIT_NPROC, (MANY, MANY))
print('boom', flush=True)
if os.fork() == 0:
    try: bomb(0)
    finally: os._exit(0)
while True:
    try: time.sleep(60)
    except BaseException: pass
"""


@needs_root
def test_fork_bomb(make_guest):
    """As an ordinary user, whose processes the kernel counts; as root there would be no limit to the bomb."""
    guest = make_guest(FAKE, "--uid", OTHER_UID)
    guest.controller.welcome()
    guest.controller.run("pass")
    record = guest.controller.run(FORK_BOMB.replace("MANY", "64"), timeout=1)
    assert (record["status"], record["state"]) == ("timeout", "lost"), record
    assert_works(guest, 2)
    wait_for(lambda: len(guest.descendants()) == 1, "processes of the bomb are left")


@needs_root
@pytest.mark.proves("security: other processes")
def test_identity(make_guest):
    guest = make_guest(FAKE, "--uid", OTHER_UID)
    guest.controller.welcome()
    record = guest.controller.run(
        "print(open('/proc/self/status').read())\n"
        "try: open('/proc/%d/mem' % __import__('os').getppid()); print('OPENED')\n"
        "except OSError as e: print('refused')\n"
        "__import__('os').kill(__import__('os').getppid(), 9)"
    )
    status = dict(line.split(":\t", 1) for line in record["stdout"].splitlines() if ":\t" in line)
    assert status["Uid"].split() == status["Gid"].split() == [OTHER_UID] * 4
    assert status["Groups"].strip() == "" and status["NoNewPrivs"] == "1"
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert "refused" in record["stdout"]
    assert record["error"]["name"] == "PermissionError"
    assert_works(guest, 1)


@needs_root
@pytest.mark.parametrize("user", AS_PROCESS_1)
@pytest.mark.proves("security: gaining rights")
def test_as_process_1(make_guest, root, user):
    guest = make_guest(FAKE, "--uid", OTHER_UID, prefix=as_process_1(root, user))
    guest.controller.welcome()
    record = guest.controller.run(
        "import os, signal\n"
        "print(os.getppid(), [l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')][:3])\n"
        "for number in (9, 15, 19):\n"
        "  try: os.kill(1, number); print('could')\n"
        "  except PermissionError: pass"
    )
    assert record["stdout"] == f"1 {['0' * 16] * 3}\n", record
    record = guest.controller.run(FORK_BOMB.replace("MANY", "64"), timeout=1)
    assert (record["status"], record["error"]["name"]) == ("timeout", "TimeoutKilled")
    assert_works(guest, 2)
    processes = "import os; print(sum(name.isdigit() for name in os.listdir('/proc')))"
    wait_for(lambda: guest.controller.run(processes)["stdout"] == "2\n", "processes of the bomb are left")
    guest.controller.send(STOP, {})
    assert guest.process.wait(20) == 0


def test_sigterm_of_the_cell_is_ignored(guest):
    record = guest.controller.run("import os; os.kill(os.getppid(), 15); print('sent')")
    assert record["stdout"] == "sent\n"
    assert_works(guest, 1)
