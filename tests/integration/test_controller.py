"""The controller as a process: how it starts, ends, and bears what reaches its socket."""

import contextlib
import fcntl
import grp
import json
import os
import re
import resource
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

import limpet
import pytest

from tests.support import ROOT

from .killed import children, wait_for


def test_shutdown_ends_everything(own_limpetd):
    own_limpetd.start()
    with own_limpetd.client() as client:
        client.open("a").run("x = 1")
        client.shutdown()
    assert own_limpetd.process.wait(60) == 0
    assert not os.path.exists(own_limpetd.socket)
    assert own_limpetd.leftovers() == {}


def test_ctrl_c_in_its_terminal_ends_everything(own_limpetd):
    own_limpetd.run_as = {"start_new_session": True}
    own_limpetd.start()
    with own_limpetd.client() as client:
        client.open("a").run("x = 1")
        os.killpg(own_limpetd.process.pid, signal.SIGINT)
        assert own_limpetd.process.wait(60) == 0
    assert own_limpetd.leftovers() == {}


def test_a_second_one_refuses_to_start(own_limpetd):
    own_limpetd.start()
    second = subprocess.run(own_limpetd.command(), capture_output=True, text=True, timeout=60)
    assert second.returncode != 0
    assert str(own_limpetd.process.pid) in second.stderr
    with own_limpetd.client() as client:
        assert client.run("6 * 7").result == "42"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's controller has a group")
@pytest.mark.parametrize("action", [(), ("--check",)])
def test_containers_reach_a_controller_with_a_group_after_another_was_tried(own_limpetd, action):
    own_limpetd.start("--group", "daemon")
    subprocess.run(own_limpetd.command("--group", "daemon", *action), capture_output=True, timeout=60)
    with own_limpetd.client() as client:
        assert client.run("6 * 7").result == "42"


@contextlib.contextmanager
def waiting(controller):
    """Somebody holds the lock, and the controller is started meanwhile; behind it, it serves."""
    with open(os.path.join(controller.directory, "state", "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        starting = threading.Thread(target=controller.start)
        starting.start()
        while not os.path.exists(controller.log) or "waiting" not in controller.said():
            assert starting.is_alive(), controller.said()
            time.sleep(0.01)
        yield
    starting.join()
    with controller.client() as client:
        assert client.sessions() == []


def test_one_that_holds_the_lock_and_does_not_answer_is_waited_for(own_limpetd):
    """It may have been killed, and its end takes the kernel a while."""
    with waiting(own_limpetd):
        assert not os.path.exists(own_limpetd.socket)


def test_one_that_was_killed_may_have_left_its_socket_to_a_child(own_limpetd):
    """For as long as that takes to execute a program."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(own_limpetd.socket)
    listener.listen()
    with waiting(own_limpetd):
        listener.close()


def test_after_it_was_killed_another_starts(own_limpetd):
    own_limpetd.start()
    with own_limpetd.client() as client:
        client.open("a").run("x = 1")
    own_limpetd.process.kill()
    own_limpetd.process.wait()
    own_limpetd.start()
    with own_limpetd.client() as client, client.open("b") as session:
        assert session.run("6 * 7").result == "42"
    assert own_limpetd.stop() == 0
    assert own_limpetd.leftovers() == {}


def test_the_socket_of_another_is_left_alone(own_limpetd, tmp_path):
    """And when somebody takes it away all the same, theirs is not removed in the end."""
    own_limpetd.start()
    command = own_limpetd.command("--state-dir", str(tmp_path))
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert own_limpetd.socket in second.stderr and "--socket" in second.stderr
    with own_limpetd.client() as client:
        assert client.run("6 * 7").result == "42"
    os.unlink(own_limpetd.socket)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(own_limpetd.socket)
        assert own_limpetd.stop() == 0
        assert os.path.exists(own_limpetd.socket)


def pid_of(own_limpetd):
    """Of a controller that is nobody's child."""
    with open(os.path.join(own_limpetd.directory, "state", "lock"), encoding="utf-8") as lock:
        return int(re.match(r"process (\d+), socket .*\n\Z", lock.read())[1])


def shut_down(own_limpetd):
    process = os.pidfd_open(pid_of(own_limpetd))
    with own_limpetd.client() as client:
        client.shutdown()
    assert select.select([process], [], [], 60)[0]
    os.close(process)


def listens(path):
    """Between the two calls that make a socket it is there, and nobody listens at it."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def test_it_serves_though_whoever_started_it_has_gone(own_limpetd):
    """It is held up at a journal that does not open, while its parent is killed."""
    held = os.path.join(own_limpetd.directory, "state", "journals", "held.journal")
    os.makedirs(os.path.dirname(held))
    os.mkfifo(held)
    parent = subprocess.Popen(own_limpetd.command("--detach"), stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: children(parent.pid))
    finally:
        parent.kill()
        parent.wait()
    # Open until it has gone, as opened once more it would hold up for ever; an empty one is nobody's, and is removed.
    with open(held, "w"), contextlib.suppress(FileNotFoundError):
        os.unlink(held)
    wait_for(lambda: listens(own_limpetd.socket))
    with own_limpetd.client() as client:
        assert client.run("6 * 7").result == "42"
    shut_down(own_limpetd)


def test_one_that_is_killed_before_it_serves_is_begun_again(own_limpetd):
    if not own_limpetd.isolates:
        pytest.skip("there is one process, and no launcher")
    own_limpetd.launch()
    wait_for(lambda: children(own_limpetd.process.pid))
    os.kill(int(children(own_limpetd.process.pid)[0]), signal.SIGKILL)
    with own_limpetd.wait().client() as client:
        assert client.run("6 * 7").result == "42"
    assert own_limpetd.stop() == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_it_detaches_without_standard_descriptors(own_limpetd, closed):
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *own_limpetd.command("--detach")]
    assert subprocess.run(command, timeout=60).returncode == 0
    names = [os.readlink(f"/proc/{pid_of(own_limpetd)}/fd/{number}") for number in range(3)]
    assert names == ["/dev/null", "/dev/null", os.path.join(own_limpetd.directory, "state", "limpetd.log")]
    shut_down(own_limpetd)
    with open(names[2], encoding="utf-8") as log:
        assert "serving" in log.read()


def test_it_starts_by_itself(own_limpetd, monkeypatch):
    directory = own_limpetd.directory
    monkeypatch.setenv("LIMPETD", own_limpetd.program)
    monkeypatch.setenv("LIMPET_ENGINE", own_limpetd.engine)
    monkeypatch.setenv("LIMPET_STATE_DIR", os.path.join(directory, "state"))
    monkeypatch.setenv("LIMPET_RUNTIME_DIR", os.path.join(directory, "run"))
    monkeypatch.setenv("LIMPET_SOCKET", own_limpetd.socket)
    monkeypatch.delenv("LIMPET_AUTOSTART", raising=False)
    with limpet.Client() as client:
        try:
            assert client.run("6 * 7").result == "42"
        finally:
            client.shutdown()


@pytest.mark.engine
@pytest.mark.proves("security: other users of the machine")
def test_sockets_are_ours_alone(limpetd):
    """And the group's, where there is one and root's controller keeps its users apart."""
    status = os.stat(limpetd.socket)
    shared = os.geteuid() == 0 and limpetd.isolates
    members = [group.gr_gid for group in grp.getgrall() if group.gr_name == "limpet" and shared]
    assert stat.S_IMODE(status.st_mode) == (0o660 if members else 0o600) and status.st_uid == os.geteuid()
    assert not members or status.st_gid == members[0]


def test_it_says_what_it_can_do(limpetd):
    with open(os.path.join(ROOT, "proto", "features.def"), encoding="utf-8") as table:
        features = re.findall(r'^FEATURE\("([^"]+)"', table.read(), re.M)
    with limpetd.client() as client:
        assert client.features() == set(features) > {"asks"}


@pytest.mark.proves("engine: isolates")
def test_the_local_engine_warns(limpetd):
    with limpetd.client() as client:
        if limpetd.isolates:
            client.sessions()
        else:
            with pytest.warns(limpet.LimpetWarning, match="isolat"):
                client.sessions()


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(1000),
        b"\xff" * 1000,
        GREETING + b"\x04\xff",
        GREETING + b"\x02" + b"\xff" * 8,
    ],
)
def test_garbage_on_the_socket(limpetd, data):
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(limpetd.socket)
        raw.sendall(data)
        with limpetd.client() as client:
            client.sessions()


@pytest.mark.parametrize(
    "payload, number",
    [
        (b"", 1001),
        (b"\xc1", 1001),
        (b"\x94\x01\x0b\x07\xdf\xff\xff\xff\xff", 1001),
        (b"\x94\x02\x01\x07\x80", 1002),
        (b"\x94\x01\x63\x07\x80", 1001),
        (b"\x94\x01\x0a\x07\x81\xa7session\x05", 1001),
        (b"\x94\x01\x0a\x07\x81\xa5other\x05", 1001),
        (b"\x94\x01\x0a\x07\x82\xa7session\xa1a\xa7session\xa1a", 1001),
    ],
)
def test_malformed_messages_are_answered_or_dropped(limpetd, payload, number):
    """An answer needs an id; what had none readable may go without."""
    from limpet._connection import _zmtp
    from limpet._protocol import _wire
    from limpet._sync.connection import Connection

    connection = Connection(limpetd.socket)
    try:
        connection.hello()
        connection._socket.sendall(_zmtp.pack(payload))
        kind, body = connection.ask(_wire.SESSIONS, {})
        assert kind == _wire.REPLY and "sessions" in body
        if payload[3:4] == b"\x07":
            connection._mail[7] = mail = []
            connection._socket.sendall(_zmtp.pack(payload))
            connection.ask(_wire.SESSIONS, {})
            assert [(kind, body["number"]) for kind, body in mail] == [(_wire.ERROR, number)]
    finally:
        connection.close()


def test_ctrl_c_interrupts_the_cell(limpetd, name):
    code = (
        "import limpet, sys\n"
        "session = limpet.Client(sys.argv[1]).open(sys.argv[2])\n"
        "try:\n"
        "    code = 'print(1, flush=True)\\nwhile True: pass'\n"
        "    session.run(code, 60, on_stdout=lambda text: print('started', flush=True))\n"
        "except KeyboardInterrupt as error:\n"
        "    print(error.limpet_result.status, session.run('6 * 7').result)\n"
        "session.close()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, limpetd.socket, name],
        env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "clients", "python", "src")},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "interrupted 42\n"
    finally:
        process.kill()
        process.wait()


VARY = ("run_id", "duration", "usage", "execution_count")
BLOCKED = "import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); time.sleep(60)"
SEGFAULT = "import ctypes; ctypes.string_at(0)"
FLOOD = "import sys\nfor _ in range(100): sys.stdout.write(('x' * 1023 + '\\n') * 1024)\nNone"
FIGURE = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])"
# Shared memory is what no limit of the process's own counts.
HOG = "import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1"


def without_addresses(value):
    """A crash names its thread by address, which differs from one life to the next."""
    return re.sub("0x[0-9a-f]+", "0x", value) if isinstance(value, str) else value


@pytest.mark.engine
@pytest.mark.parametrize(
    "code, status, exit_status",
    [
        ("print('ä'); 6 * 7", "ok", 0),
        ("1 / 0", "error", 1),
        ("import time; time.sleep(60)", "timeout", 124),
        (BLOCKED, "timeout", 124),
        ("import os; os._exit(3)", "exited", 137),
        (SEGFAULT, "crashed", 137),
        (HOG, "oom", 137),
        (FLOOD, "ok", 0),
        (FIGURE, "ok", 0),
        ("import os; os.makedirs('artifacts', exist_ok=True); open('artifacts/f', 'w').write('x')", "ok", 0),
        ("class R:\n    def _repr_png_(self): return b'\\x89'\n    def __repr__(self): return 'R'\nR()", "ok", 0),
    ],
)
def test_the_command_gives_the_same_record(limpetd, client, name, code, status, exit_status):
    """In two lives of one session, so that counts and epochs are the same."""
    if code in (HOG, FIGURE) and not limpetd.isolates:
        pytest.skip("needs a memory limit, or the image's packages")
    command = os.path.join(os.path.dirname(limpetd.program), "limpet")
    options = {"memory": "512m"} if code == HOG else {}
    timeout = 1 if status == "timeout" else 60
    with client.open(name, **options) as session:
        wait_for(session.checkpoints)  # in both lives the call is protected
        result = session.run(code, timeout=timeout)
        assert result.status == status
        result = result.to_dict()
    with client.open(name, **options) as session:
        wait_for(session.checkpoints)
        done = subprocess.run(
            [command, "run", "-s", name, "-t", str(timeout), "--json", "-c", code],
            env={**os.environ, "LIMPET_SOCKET": limpetd.socket},
            stdout=subprocess.PIPE,
            timeout=120,
        )
    printed = json.loads(done.stdout)
    assert printed.keys() == result.keys()
    for field in result.keys() - set(VARY):
        assert without_addresses(printed[field]) == without_addresses(result[field]), field
    assert done.returncode == exit_status


def test_one_whose_own_limits_are_lower_than_those_of_a_sandbox(own_limpetd):
    """As under sudo where it may not raise them again."""
    low = ["prlimit", "--core=0:0", "--msgqueue=0:0", "--sigpending=512:512"]
    plain = own_limpetd.command
    own_limpetd.command = lambda *more: [*low, *plain(*more)]
    own_limpetd.start()
    with own_limpetd.client() as client:
        assert client.run("import resource; resource.getrlimit(resource.RLIMIT_CORE)[0] < 2").result == "True"


def test_more_sessions_than_its_limit_of_descriptors_is_for(own_limpetd):
    """Programs that it starts have the limit that it was started with, which shells set low."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    own_limpetd.run_as = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))}
    with own_limpetd.start().client() as client, contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(client.open(f"many-{number}")) for number in range(40)]
        assert sessions[-1].run("6 * 7").result == "42"
        if not own_limpetd.isolates:
            assert sessions[0].run("import resource; resource.getrlimit(resource.RLIMIT_NOFILE)[0]").result == "128"
