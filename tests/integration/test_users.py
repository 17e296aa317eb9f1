"""Several users of root's controller: each has sessions of their own, and reaches nothing of another."""

import contextlib
import ctypes
import grp
import itertools
import os
import re
import secrets
import shutil
import stat
import subprocess
import threading
from types import SimpleNamespace

import limpet
import pytest

from tests.support import ROOT

from .killed import Asking, wait_for
from .raw_peer import Client as RawClient
from .raw_peer import Refused as RawRefused
from .users import GROUP, Refused, User

pytestmark = pytest.mark.engine

ALICE, BOB, OUTSIDER = 61001, 61002, 61003
CLONE_NEWNS = 0x00020000
MNT_DETACH = 2


@pytest.fixture
def house(own_limpetd):
    """A controller that is not started, with two members of its group and somebody who is none."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become others")
    group = grp.getgrnam(GROUP).gr_gid
    os.chmod(own_limpetd.directory, 0o711)
    house = SimpleNamespace(limpetd=own_limpetd, directory=own_limpetd.directory)
    house.alice = User(ALICE, own_limpetd.socket, [group])
    house.bob = User(BOB, own_limpetd.socket, [group])
    house.outsider = User(OUTSIDER, own_limpetd.socket)
    house.root = own_limpetd.client()
    house.start = lambda *more: own_limpetd.start("--group", GROUP, *more)
    yield house
    house.root.close()


@pytest.fixture
def shared(house):
    """The same, which serves them."""
    if not house.limpetd.isolates:
        pytest.skip("the engine local lets root alone in")
    house.start()
    return house


def directory(house, user, name, mode=0o755):
    """One of that user with a file `who`, which sandboxed code may read where it gets to it."""
    path = os.path.join(house.directory, name)
    os.mkdir(path)
    with open(os.path.join(path, "who"), "w", encoding="utf-8") as file:
        file.write(os.path.basename(name))
    for made in (path, os.path.join(path, "who")):
        os.chown(made, user.uid, user.uid)
    os.chmod(path, mode)
    return path


def hidden(house, user, name):
    """The same below a directory that nobody else enters."""
    home = directory(house, user, f"home-of-{name}", 0o700)
    return directory(house, user, os.path.join(f"home-of-{name}", name))


def refused(user, work):
    with pytest.raises(Refused) as caught:
        user.ask(work)
    return caught.value


def read_data(client, path):
    return client.run("print(open('/data/who').read(), end='')", data=path)


# ---- who is let in ----


def test_the_engine_that_does_not_isolate_lets_no_group_in(house):
    if house.limpetd.isolates:
        pytest.skip("it isolates")
    house.start()
    assert stat.S_IMODE(os.stat(house.limpetd.socket).st_mode) == 0o600
    assert refused(house.alice, lambda client: client.sessions()).name == "Unavailable"
    assert house.root.run("1").result == "1"


@pytest.mark.proves("security: other users of the machine")
def test_members_are_let_in_and_nobody_else(shared):
    assert stat.S_IMODE(os.stat(shared.limpetd.socket).st_mode) == 0o660
    assert shared.alice.names() == []
    assert refused(shared.outsider, lambda client: client.sessions()).name == "Unavailable"
    assert stat.S_IMODE(os.stat(os.path.join(shared.directory, "state")).st_mode) == 0o710


def test_without_its_group_it_is_roots_alone(house):
    house.limpetd.start("--group", "")
    assert stat.S_IMODE(os.stat(house.limpetd.socket).st_mode) == 0o600
    assert refused(house.alice, lambda client: client.sessions()).name == "Unavailable"


# ---- apart ----


def test_two_users_have_sessions_of_one_name(shared):
    shared.alice.run("conv-1", "x = 'alice'")
    shared.bob.run("conv-1", "x = 'bob'")
    assert shared.alice.run("conv-1", "x") == "'alice'"
    assert shared.bob.run("conv-1", "x") == "'bob'"
    with shared.root.open("conv-1") as root:
        assert root.run("'x' in globals()").result == "False"
        assert shared.bob.names() == ["conv-1"]
        assert [row.user for row in shared.root.sessions()] == [0]
        rows = {(row.user, row.session) for row in shared.root.sessions(all_users=True)}
        assert rows == {(0, "conv-1"), (ALICE, "conv-1"), (BOB, "conv-1")}
        listed = subprocess.run([program("limpet"), "ls", "--all"], env={"LIMPET_SOCKET": shared.limpetd.socket}, check=True, capture_output=True, text=True)
        assert sorted(line.split()[:2] for line in listed.stdout.splitlines()[1:4]) == [[str(ALICE), "conv-1"], [str(BOB), "conv-1"], ["root", "conv-1"]]
    assert shared.alice.run("conv-1", "x") == "'alice'"
    assert refused(shared.alice, lambda client: client.sessions(all_users=True)).name == "Denied"


OPERATIONS = {
    "run": {"code": "1", "run_id": "0" * 32},
    "exec": {"command": "true", "run_id": "1" * 32},
    "interrupt": {},
    "reset": {},
    "namespace": {},
    "checkpoint": {"name": "other"},
    "checkpoints": {},
    "rollback": {"checkpoint": "mark"},
    "drop": {"checkpoint": "mark"},
    "branch": {"name": "theirs"},
    "fork": {"names": ["theirs"]},
    "sleep": {},
    "context": {"language": "bash"},
    "commit": {"branch": "try"},
    "put": {"path": "f", "offset": 0, "data": b"theirs", "last": True},
    "get": {"path": "f", "offset": 0, "size": 10},
    "files": {"ask": {"stat": {"path": b"f"}}},
    "start": {"command": "true", "run_id": "2" * 32},
    "processes": {},
    "process": {"ask": {"process": "web", "output": {}}},
    "connect": {"port": 80},
    "set_network": {"allow": ["*"]},
    "close": {},
    "open": {"attach": True},
    "template": {"name": "theirs"},
    "save": {"path": "/session/.limpet-saved-0"},
    "load": {"path": "/session/.limpet-saved-0", "execution_count": 1},
    "export": {},
    "install": {"packages": "theirs"},
}

OTHERS = {"artifact", "hello", "sessions", "result", "shutdown", "credit", "answer", "templates", "remove_template"}


def test_every_operation_on_a_session_is_tried():
    messages = (ROOT / "proto/messages.def").read_text(encoding="utf-8")
    assert OPERATIONS.keys() | OTHERS == set(re.findall(r'"(\w+)", "[^"]*c>h', messages))


def try_everything(house, *names):
    """What becomes of each operation on sessions of these names."""
    client = RawClient(house.limpetd.socket)
    told = {}
    for kind, body in OPERATIONS.items():
        for name in names:
            try:
                client(kind, session=name, **body)
                told[kind] = "done"
            except RawRefused as error:
                told[kind] = error.name
    return told


def save(house, user, name):
    """A session of theirs that is idle."""

    def make(client):
        client.open(name, ttl=0.3, ttl_action="save").run("x = 41")

    user.ask(make)
    wait_for(lambda: (user.uid, name, "saved") in {(row.user, row.session, row.status) for row in house.root.sessions(all_users=True)})


def test_a_saved_session_of_another_is_not_there_either(shared):
    save(shared, shared.alice, "mine")
    assert shared.bob.do(lambda: try_everything(shared, "mine")) == dict.fromkeys(OPERATIONS, "NoSuchSession")
    assert [row.status for row in shared.root.sessions(all_users=True)] == ["saved"]
    assert shared.bob.run("mine", "'x' in globals()") == "False"
    assert shared.alice.run("mine", "x") == "41"


def test_a_saved_session_counts_when_it_is_woken(house):
    if not house.limpetd.isolates:
        pytest.skip("the engine local lets root alone in")
    house.start("--user-sessions", "1", "--user-disk", "2g", "--disk", "1g")
    save(house, house.alice, "a")
    assert house.alice.run("b", "1") == "1"
    assert refused(house.alice, lambda client: client.attach("a").run("x")).name == "LimitReached"
    assert refused(house.alice, lambda client: client.open("c")).name == "LimitReached"
    house.alice.ask(lambda client: client.close_session("b"))
    assert refused(house.alice, lambda client: client.open("c", disk="1.5g")).name == "LimitReached"
    assert house.alice.run("a", "x") == "41"


@pytest.mark.proves("security: other users of the same controller")
def test_a_session_of_another_is_not_there(shared):
    def make(client):
        session = client.open("mine")
        session.run("x = 1; open('f', 'w').write('secret')")
        session.checkpoint(name="mark")
        session.branch("try")

    shared.alice.ask(make)
    assert shared.bob.do(lambda: try_everything(shared, "mine", "mine/try")) == dict.fromkeys(OPERATIONS, "NoSuchSession")
    assert shared.root.sessions() == []
    with pytest.raises(limpet.NoSuchSession):
        shared.root.attach("mine")
    assert shared.alice.names() == ["mine", "mine/try"]
    assert shared.alice.run("mine", "x, open('f').read()") == "(1, 'secret')"
    marks = shared.alice.ask(lambda client: [c.name for c in client.attach("mine").checkpoints()])
    assert marks.count("mark") == 1 and "other" not in marks


def test_an_id_of_a_call_is_that_of_its_user(shared):
    run_id = secrets.token_hex(16)
    shared.alice.ask(lambda client: client.open("a").run("'secret'", run_id=run_id).result)
    assert refused(shared.bob, lambda client: client.result(run_id)).name == "NoSuchRun"
    assert shared.bob.ask(lambda client: client.open("a").run("'other code'", run_id=run_id).result) == "'other code'"
    assert shared.alice.ask(lambda client: client.result(run_id).result) == "'secret'"
    with pytest.raises(limpet.NoSuchRun):
        shared.root.result(run_id)


def test_nobody_interrupts_a_call_of_another(shared):
    run_id = secrets.token_hex(16)
    began = os.path.join(shared.directory, "began")

    def run(client):
        session = client.open("a")
        return session.run(
            "import time; print('now', flush=True); time.sleep(600)", run_id=run_id, timeout=600,
            on_stdout=lambda text: open(began, "w").close(),
        ).status  # fmt: skip

    os.chmod(shared.directory, 0o1777)
    call = Asking(shared.alice.ask, run)
    wait_for(lambda: os.path.exists(began))
    assert refused(shared.bob, lambda client: client.interrupt(run_id)).name == "NoSuchRun"
    with pytest.raises(limpet.NoSuchRun):
        shared.root.interrupt(run_id)
    assert shared.alice.ask(lambda client: client.interrupt(run_id)) is True
    assert call.result() == "interrupted"


def test_only_root_ends_the_controller(shared):
    shared.alice.run("a", "x = 1")
    assert refused(shared.alice, lambda client: client.shutdown()).name == "Denied"
    assert shared.alice.run("a", "x") == "1"


# ---- files ----


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("pool", ["0", "1"])
@pytest.mark.proves("security: other users of the same controller")
def test_published_files_are_their_users(shared, pool):
    def make(client):
        code = "open('artifacts/f', 'w').write('secret')"
        return [next(iter(made.artifacts.values())) for made in (client.open("a").run(code), client.run(
            "open('/session/artifacts/f', 'w').write('secret')"))]  # fmt: skip

    if pool != "0":
        shared.limpetd.stop()
        shared.limpetd.start("--group", GROUP, "--pool", pool)
        wait_for(lambda: spares(shared) > 0)
    for path in shared.alice.ask(make):
        assert shared.alice.do(lambda path=path: read(path)) == "secret"
        with pytest.raises(Refused) as caught:
            shared.bob.do(lambda path=path: read(path))
        assert caught.value.name == "PermissionError"
        with pytest.raises(Refused):
            shared.alice.do(lambda path=path: open(path, "a").close())
        assert read(path) == "secret"
    sessions = os.path.join(shared.directory, "state", "sessions")
    for live in os.listdir(sessions):
        for user in shared.alice, shared.bob:
            with pytest.raises(Refused):
                user.do(lambda live=live: os.listdir(os.path.join(sessions, live, "files")))
    with pytest.raises(Refused):
        shared.alice.do(lambda: os.listdir(sessions))


def spares(house):
    return house.limpetd.client()._request(limpet._protocol._requests.Request(
        limpet._protocol._wire.SESSIONS, {}, lambda body: body["controller"]["spares"]))  # fmt: skip


def test_get_writes_as_the_user(shared):
    target = os.path.join(directory(shared, shared.bob, "bobs"), "stolen")

    def get(client):
        session = client.open("a")
        session.put(b"x", "f")
        session.get("f", target)

    assert refused(shared.alice, get).name == "PermissionError"
    assert not os.path.exists(target)


# ---- data= ----


@pytest.mark.docker
@pytest.mark.proves("security: paths that change after a check")
def test_data_is_what_the_user_may_read(shared):
    bobs, alices = hidden(shared, shared.bob, "bob"), hidden(shared, shared.alice, "alice")
    assert shared.alice.ask(lambda client: read_data(client, alices).stdout) == "alice"
    assert shared.root.run("1", data=bobs).status == "ok"
    told = refused(shared.alice, lambda client: read_data(client, bobs))
    assert told.name == "BadRequest" and "Permission denied" in str(told)
    link = os.path.join(os.path.dirname(alices), "link")
    os.symlink(bobs, link)
    assert refused(shared.alice, lambda client: read_data(client, link)).name == "BadRequest"
    assert refused(shared.alice, lambda client: client.open("a", data=bobs)).name == "BadRequest"
    assert shared.alice.names() == []


@pytest.mark.proves("security: paths that change after a check")
def test_data_is_a_directory_that_is_not_the_hosts_own(shared):
    home = directory(shared, shared.alice, "home")
    os.mkfifo(os.path.join(home, "fifo"))
    os.chown(os.path.join(home, "fifo"), ALICE, ALICE)
    for path in os.path.join(home, "fifo"), os.path.join(home, "who"), "/dev/null", "home", "/proc/self/fd/3":
        assert refused(shared.alice, lambda client, path=path: read_data(client, path)).name == "BadRequest"
    for path in "/", "/proc", shared.directory:
        assert refused(shared.alice, lambda client, path=path: read_data(client, path)).name in ("Denied", "BadRequest")
    assert refused(shared.alice, lambda client: read_data(client, "/")).name == "Denied"


@pytest.mark.proves("security: paths that change after a check")
def test_a_path_that_is_exchanged_leads_nowhere_else(shared):
    bobs, alices = hidden(shared, shared.bob, "bob"), hidden(shared, shared.alice, "alice")
    links = os.path.join(os.path.dirname(alices), "links")
    os.mkdir(links)
    data = os.path.join(links, "data")
    over = threading.Event()

    def swap():
        for target in itertools.cycle([alices, bobs]):
            os.symlink(target, data + ".new")
            os.rename(data + ".new", data)
            if over.is_set():
                return

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        seen = [outcome(shared.alice, lambda client: read_data(client, data).stdout) for _ in range(12)]
    finally:
        over.set()
        swapper.join()
    assert set(seen) <= {"alice", "BadRequest", "EngineError"}


def program(name):
    return shutil.which(name, path=os.environ.get("LIMPET_BUILD")) or name


def outcome(user, work):
    try:
        return user.ask(work)
    except Refused as error:
        return error.name


def test_nothing_stays_mounted(shared):
    alices = directory(shared, shared.alice, "alice")
    assert shared.alice.ask(lambda client: read_data(client, alices).stdout) == "alice"
    shared.alice.ask(lambda client: client.open("a", data=alices).run("1").result)
    shared.limpetd.kill()
    shared.limpetd.start("--group", GROUP)
    assert shared.alice.run("a", "open('/data/who').read()") == "'alice'"
    assert shared.limpetd.stop() == 0
    assert shared.directory not in read("/proc/self/mountinfo")


@contextlib.contextmanager
def dead_mount(path):
    """A file system that answers nothing."""
    libc, where = ctypes.CDLL(None, use_errno=True), os.fsencode(path)
    device = os.open("/dev/fuse", os.O_RDWR)
    try:
        if libc.mount(b"dead", where, b"fuse", 0, f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()):
            pytest.skip(f"no FUSE here: {os.strerror(ctypes.get_errno())}")
        yield
    finally:
        os.close(device)
        libc.umount2(where, MNT_DETACH)


def test_a_directory_that_never_answers_delays_its_user_alone(shared):
    dead, bobs = directory(shared, shared.alice, "dead"), directory(shared, shared.bob, "bob")
    client = RawClient(shared.limpetd.socket)
    with dead_mount(dead):
        asked = [client.ask("open", session=name, data=data) for name, data in (("a", dead), ("b", bobs))]
        assert client("sessions")["sessions"] == []  # so that both have come
        assert shared.bob.ask(lambda client: read_data(client, bobs).stdout) == "bob"
        assert shared.root.run("1").result == "1"
    with pytest.raises(RawRefused, match="cannot use the data directory"):
        client.answer(asked[0])
    assert client.answer(asked[1])["session"] == "b"  # which waited for it
    client.close()


# ---- limits ----


def test_limits_are_each_users_own(house):
    if not house.limpetd.isolates:
        pytest.skip("the engine local lets root alone in")
    house.start("--user-sessions", "2", "--user-memory", "512m", "--memory", "128m", "--user-disk", "1g", "--disk", "100m")
    house.alice.ask(lambda client: [client.open(name) for name in ("a", "b")] and None)
    told = refused(house.alice, lambda client: client.open("c"))
    assert told.name == "LimitReached" and "user_sessions" in str(told)
    assert house.bob.run("a", "1") == "1"
    assert house.root.run("1").result == "1"
    house.alice.ask(lambda client: client.close_session("b"))
    told = refused(house.alice, lambda client: client.open("c", memory="400m"))
    assert told.name == "LimitReached" and "user_memory" in str(told)
    told = refused(house.alice, lambda client: client.open("c", disk="1g"))
    assert told.name == "LimitReached" and "user_disk" in str(told)
    assert [house.alice.ask(lambda client: client.run("1").result) for _ in range(3)] == ["1"] * 3
    assert house.alice.run("c", "1") == "1"


def test_a_fork_counts_with_its_memory(house):
    if not house.limpetd.isolates:
        pytest.skip("the engine local lets root alone in")
    options = "--user-disk", "350m", "--disk", "100m", "--memory", "128m"
    house.start(*options)
    house.alice.run("a", "x = 1")
    house.alice.ask(lambda client: client.attach("a").fork("b") and None)
    house.limpetd.kill()
    house.start(*options)
    assert house.alice.run("b", "x") == "1"
    told = refused(house.alice, lambda client: client.open("c"))
    assert told.name == "LimitReached" and "300 MiB of disk" in str(told)


# ---- another controller ----


def test_the_next_controller_knows_whose_they_are(shared):
    run_id = secrets.token_hex(16)
    shared.alice.run("a", "x = 'alice'")
    shared.bob.run("a", "x = 'bob'")
    shared.root.open("a").run("x = 'root'")
    shared.alice.ask(lambda client: client.attach("a").branch("try") and None)
    shared.alice.ask(lambda client: client.open("gone").run("'secret'", run_id=run_id).result)
    shared.alice.ask(lambda client: client.close_session("gone"))
    shared.limpetd.kill()
    shared.start()
    assert shared.alice.names() == ["a", "a/try"]
    assert [user.run("a", "x") for user in (shared.alice, shared.bob)] == ["'alice'", "'bob'"]
    assert shared.root.attach("a").run("x").result == "'root'"
    assert shared.alice.ask(lambda client: client.result(run_id).result) == "'secret'"
    assert refused(shared.bob, lambda client: client.result(run_id)).name == "NoSuchRun"
    (path,) = shared.alice.ask(lambda client: list(client.attach("a").run("open('artifacts/f', 'w')").artifacts.values()))
    assert shared.alice.do(lambda: read(path)) == ""
    with pytest.raises(Refused):
        shared.bob.do(lambda: read(path))


# ---- finding it ----


def test_a_member_finds_roots_controller(shared):
    """Where it is by default, in a place of the test's own."""
    command = shutil.copy(program("limpet"), shared.directory)
    shared.alice.run("a", "x = 'alice'")

    def look(user):
        def find():
            with limpet.Client() as client:
                names = [row.session for row in client.sessions()]
                done = subprocess.run([command, "run", "-s", "a", "-c", "print(x)"], capture_output=True, text=True)
                return names, client.address, done.stdout, done.stderr

        return user.do(find)

    def in_a_place_of_its_own():
        unshare_mounts()
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
        os.mkdir("/run/limpet", 0o711)
        os.symlink(shared.limpetd.socket, "/run/limpet/limpet.sock")
        for name in "LIMPET_SOCKET", "XDG_RUNTIME_DIR":
            os.environ.pop(name, None)
        os.environ["TMPDIR"] = shared.directory
        os.environ["LIMPETD"] = "/nonexistent"
        found = look(shared.alice)
        try:
            look(shared.outsider)
        except Refused as error:
            return found, error.name

    found, outsider = User(0, None).do(in_a_place_of_its_own)
    assert found == (["a"], "/run/limpet/limpet.sock", "alice\n", "")
    assert outsider == "Unavailable"


def unshare_mounts():
    """What os.unshare() does in newer versions of Python."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) < 0:
        raise OSError(ctypes.get_errno(), "unshare")
