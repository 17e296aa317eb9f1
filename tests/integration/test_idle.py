"""Sessions with `ttl_action="save"`: idle ones go to disk, and whoever uses them wakes them."""

import asyncio
import os
import secrets
import shutil
import signal
import threading

import limpet
import pytest

from .killed import Asking, go, host, supervisor, supervisors, wait_for  # noqa: F401
from .raw_peer import Client as RawClient


TTL = 0.3  # seconds
PLACE = ".limpet-saved-idle"


def row(client, session):
    """As `limpet ls` has it."""
    return next((found for found in client.sessions() if found.session == session.name), None)


def wait_saved(client, session):
    wait_for(lambda: row(client, session).status == "saved")


def wait_gone(host, session):
    """Until its container is."""
    wait_saved(host.client, session)
    wait_for(lambda: supervisors(host.files(session.name)) == [])


# Variables of a session whose memory cannot be kept.
SHARED = "from multiprocessing import shared_memory\nshared = shared_memory.SharedMemory(create=True, size=4096)\n"


@pytest.fixture
def idle(host, name):
    """Opens sessions that are saved when they are idle; in the end all are closed, also those that sleep."""
    made = []

    def open_one(which=0, ttl=TTL, **options):
        session = host.client.open(f"{name}-{which}", ttl=ttl, ttl_action="save", **options)
        made.append(session.name)
        return session

    yield open_one
    open_ones = {found.session for found in host.client.sessions()}
    for each in made:
        if each in open_ones:
            host.client.close_session(each)


def saved(host, idle, code="n = 41", memory=True, **options):
    """Without `memory` the pickled variables are all there is of it."""
    session = idle(**options)
    session.run(host.code(code)).check()
    wait_gone(host, session)
    if not memory:
        os.unlink(host.files(session.name, PLACE, "memory"))
    return session


def times_woken(host):
    return host.limpetd.said().count("session woken")


@pytest.mark.engine
def test_an_idle_session_has_no_container(host, idle):
    session = saved(host, idle)
    found = row(host.client, session)
    assert (found.status, found.memory, found.container, found.execution_count) == ("saved", 0, None, 1)
    wait_for(lambda: supervisors(host.files(session.name)) == [])
    assert os.path.isdir(host.files(session.name, PLACE))


@pytest.mark.engine
@pytest.mark.docker
def test_a_call_wakes_it(host, idle):
    session = saved(host, idle, "import math as m\nn = 41\nopen('/session/f', 'w').write('file')\ndef f(): return n + 1", ttl=5)
    result = session.run(host.code("f(), m.pi > 3, open('/session/f').read()"))
    assert (result.result, result.state, result.epoch) == ("(42, True, 'file')", "kept", 1)
    assert (result.execution_count, result.restored) == (2, [])
    assert session.run("f()").restored is None
    assert row(host.client, session).status == "idle"
    wait_for(lambda: not os.path.exists(host.files(session.name, PLACE)))


def test_sessions_with_a_name_are_saved_unless_told_otherwise(host, name):
    options = {"ttl": TTL}
    named, told = host.client.open(name, **options), host.client.open(f"{name}-1", ttl_action="close", **options)
    anonymous = host.client.open(**options)
    wait_saved(host.client, named)
    wait_for(lambda: row(host.client, told) is row(host.client, anonymous) is None)
    named.close()


def test_it_sleeps_and_wakes_again(host, idle):
    session = saved(host, idle, "n = 0")
    for turn in range(1, 4):
        result = session.run("n += 1; n")
        assert (result.result, result.state, result.execution_count) == (str(turn), "kept", turn + 1)
        wait_saved(host.client, session)


EVERYTHING = """
import sqlite3, threading, time
try:
    import numpy, pandas
    frame = pandas.DataFrame({"n": numpy.arange(1000000)})
    total = lambda: int(frame.n.sum()) + len(frame.groupby(frame.n % 7).sum())
except ImportError:
    total = lambda: 499999500007
numbers = iter(range(100)); squares = (n * n for n in numbers); next(squares)
database = sqlite3.connect(":memory:", check_same_thread=False); database.execute("create table t as select 41 as x")
lock, ticks, file = threading.Lock(), 0, open("/session/file", "w+")
lock.acquire(); file.write("0123456789"); file.flush(); file.seek(4)
def tick():
    global ticks
    while True:
        time.sleep(0.001)
        ticks += 1
threading.Thread(target=tick, daemon=True).start()
"""

IS_THERE = """
before = ticks
while ticks == before: time.sleep(0.001)
total(), next(squares), database.execute("select x from t").fetchone(), lock.locked(), file.read()
"""


@pytest.mark.engine
@pytest.mark.docker
def test_everything_is_there(host, idle):
    """Also under another controller, and after it has slept more than once."""
    session = saved(host, idle, EVERYTHING)
    for turn in range(2):
        host.again()
        result = session.run(IS_THERE)
        assert result.result == f"(499999500007, {(turn + 1) ** 2}, (41,), True, {'456789' if turn == 0 else ''!r})"
        assert (result.state, result.restored, result.epoch, result.execution_count) == ("kept", [], 1, turn + 2)
        wait_gone(host, session)
    result = session.run("import os; os._exit(1)")
    assert (result.state, result.rolled_back_to.execution_count) == ("rolled_back", 3)
    assert session.run("next(squares)").result == "9"


@pytest.mark.engine
def test_where_memory_does_not_fit_the_variables_come(host, idle):
    session = saved(host, idle, "import threading\nn, lock = 41, threading.Lock()")
    with open(host.files(session.name, PLACE, "memory"), "r+b") as file:
        file.seek(32)  # what is said of the processor
        file.write(b"another.")
    result = session.run("n, 'lock' in globals()")
    assert (result.result, result.state, result.epoch) == ("(41, False)", "kept", 1)
    assert len(result.restored) == 1 and result.restored[0].startswith("lock: it was not saved: TypeError")


@pytest.mark.parametrize("make", (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)), ids=("pipe", "directory", "link"))
def test_what_is_no_file_of_memory_is_not_loaded(host, idle, make):
    session = saved(host, idle, "n = 41", memory=False)
    make(host.files(session.name, PLACE, "memory"))
    assert session.run("n").result == "41"


def test_what_could_not_be_saved_is_told(host, idle):
    session = saved(host, idle, "import threading\nn, lock = 41, threading.Lock()", memory=False)
    result = session.run("n, 'lock' in globals()")
    assert (result.result, result.state) == ("(41, False)", "kept")
    assert len(result.restored) == 1 and result.restored[0].startswith("lock: it was not saved: TypeError")


def test_what_is_restored_is_protected(host, idle):
    session = saved(host, idle, ttl=3)
    result = session.run("n = 0; import os; os._exit(3)")
    assert (result.status, result.state, result.rolled_back_to.execution_count) == ("exited", "rolled_back", 1)
    assert session.run("n").result == "41"


def test_the_epoch_goes_on(host, idle):
    session = idle()
    session.run("n = 1")
    session.reset()
    assert session.run("n = 2").epoch == 2
    wait_saved(host.client, session)
    result = session.run("n")
    assert (result.result, result.epoch, result.execution_count) == ("2", 2, 3)


def test_whatever_is_asked_of_it_wakes_it(host, idle, tmp_path):
    session = idle(ttl=60)
    session.run(host.code("n = 41\nopen('/session/f', 'w').write('file')")).check()
    (tmp_path / "local").write_text("put")
    uses = {
        "attach": lambda: host.client.attach(session.name).name == session.name,
        "open": lambda: host.client.open(session.name).created is False,
        "exec": lambda: session.exec("cat f").stdout == "file",
        "files": lambda: session.files.read("f") == b"file",
        "put": lambda: session.put(str(tmp_path / "local"), "local") is None,
        "get": lambda: session.get("f") == b"file",
        "namespace": lambda: [found.name for found in session.namespace()] == ["n"],
        "start": lambda: session.start("cat f").wait().stdout == "file",
        "checkpoint": lambda: session.checkpoint("c").name == "c",
        "set_network": lambda: session.set_network({"allow": []}) is None,
        "context": lambda: session.run("cat f", language="bash").stdout == "file",
    }
    for name, use in uses.items():
        session.sleep()
        wait_gone(host, session)
        before = times_woken(host)
        assert use(), name
        assert times_woken(host) > before, name
    assert session.run("n").result == "41"


def test_many_who_come_at_once_wake_it_once(host, idle):
    session = saved(host, idle, "import os\nn, pid = 0, None", ttl=5)
    before, results = times_woken(host), []

    def call():
        results.append(session.run("n += 1; n").result)

    async def also():
        async with limpet.AsyncClient(host.limpetd.socket, autostart=False) as client:
            again = await client.attach(session.name)
            return [result.stdout for result in await asyncio.gather(*(again.exec("echo one") for _ in range(5)))]

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert asyncio.run(also()) == ["one\n"] * 5
    for thread in threads:
        thread.join()
    assert sorted(results, key=int) == [str(n) for n in range(1, 9)]
    assert times_woken(host) == before + 1


def test_what_asks_nothing_of_it_lets_it_sleep(host, idle):
    session = saved(host, idle)
    run_id = session.run("n").run_id
    wait_saved(host.client, session)
    assert session.interrupt() is False
    assert host.client.result(run_id).result == "41"
    assert row(host.client, session).status == "saved"


def test_it_is_closed_without_being_woken(host, idle):
    session = saved(host, idle)
    before = times_woken(host)
    session.close()
    assert row(host.client, session) is None
    assert times_woken(host) == before
    wait_for(lambda: not os.path.exists(host.files(session.name)))
    with pytest.raises(limpet.NoSuchSession):
        host.client.attach(session.name)
    with host.client.open(session.name) as other:
        assert other.run("'n' in globals()").result == "False"


def test_options_hold_after_it(host, idle):
    session = saved(host, idle, env={"COLOUR": "blue"}, timeout=7, checkpoint="off", cpus=1.0)
    before = session.options
    again = host.client.open(session.name, env={"COLOUR": "blue"}, timeout=7)
    assert again.options == before and before["ttl_action"] == "save"
    assert again.run("import os; os.environ['COLOUR']").result == "'blue'"


def test_other_options_differ(host, idle):
    session = saved(host, idle)
    with pytest.raises(limpet.OptionsDiffer, match="ttl_action"):
        host.client.open(session.name, ttl_action="close")


@pytest.mark.engine
def test_background_processes_keep_it(host, idle):
    session = idle()
    process = session.start("sleep 600")
    wait_for(lambda: row(host.client, session).idle > 4 * TTL)
    assert row(host.client, session).status == "idle"
    process.send_signal(signal.SIGKILL)
    wait_saved(host.client, session)


@pytest.mark.engine
def test_what_a_command_left_behind_keeps_it(host, idle):
    session = idle()
    session.exec("sleep 600 & echo $!")
    wait_for(lambda: "commands or processes run" in host.limpetd.said() or not host.limpetd.isolates)
    [orphan] = [found for found in session.processes() if found.kind == "orphan"] or [None]
    if orphan is None:
        pytest.skip("this engine does not see it")
    assert row(host.client, session).status != "saved"
    session.exec(["kill", str(orphan.pid)])
    wait_saved(host.client, session)


def test_branches_end_first(host, idle):
    session = idle()
    session.run("n = 41")
    branch = session.branch("b")
    wait_saved(host.client, session)
    with pytest.raises(limpet.NoSuchSession, match="idle for its ttl"):
        branch.run("n")
    assert session.run("n").result == "41"


def test_one_that_cannot_be_saved_stays_open(host, idle):
    session = idle(checkpoint="off")
    session.run(f"{SHARED}class Deadly:\n    def __reduce__(self):\n        import os; os.kill(os.getpid(), 9)\ndeadly = Deadly()").check()
    wait_for(lambda: "idle session not saved" in host.limpetd.said())
    assert "deadly: its pickling was killed" in host.limpetd.said()
    assert row(host.client, session).status != "saved"
    wait_for(lambda: not os.path.exists(host.files(session.name, PLACE)))
    session.run("del deadly; n = 41")  # it is tried again
    wait_saved(host.client, session)
    assert session.run("n").result == "41"


@pytest.mark.parametrize("index, why", [('{"form', "JSONDecodeError"), ('{"format": 1}', "KeyError: 'variables'"), (None, "FileNotFoundError")])
def test_lost_variables_are_said_to_be_lost(host, idle, index, why):
    session = saved(host, idle, "n = 41\nopen('/session/f', 'w').write('file')", memory=False)
    if index is None:
        os.unlink(host.files(session.name, PLACE, "variables"))
    else:
        with open(host.files(session.name, PLACE, "variables.json"), "w") as file:
            file.write(index)
    result = session.run(host.code("'n' in globals(), open('/session/f').read()"))
    assert (result.result, result.status, result.state) == ("(False, 'file')", "ok", "lost")
    assert (result.epoch, result.execution_count) == (2, 2)
    assert len(result.restored) == 1 and result.restored[0].startswith(f"all variables: what was saved is damaged ({why}")
    assert session.run("n = 1; n").state == "kept"


def test_a_variable_whose_bytes_have_changed_is_lost_alone(host, idle):
    session = saved(host, idle, "a, b = bytes(10000), 'b' * 1000\nc = [b, a]", memory=False)
    with open(host.files(session.name, PLACE, "variables"), "r+b") as file:
        file.seek(5000)
        file.write(b"x")
    result = session.run("'a' in globals(), 'c' in globals(), b == 'b' * 1000")
    assert (result.result, result.state) == ("(False, False, True)", "kept")
    assert result.restored == [
        "a: it is damaged: what was saved of it has changed since",
        "c: it shares something with one that could not be restored",
    ]


def test_a_crash_while_variables_are_loaded_loses_them(host, idle):
    bomb = "class Bomb:\n    def __reduce__(self):\n        return eval, ('__import__(\"os\")._exit(1)',)\nbomb, n = Bomb(), 41"
    session = saved(host, idle, bomb, memory=False)
    result = session.run("'n' in globals()")
    assert (result.result, result.status, result.state, result.epoch) == ("False", "ok", "lost", 2)
    assert result.restored == ["all variables: the interpreter was lost before it answered"]
    assert session.run("1").state == "kept"


def test_where_it_cannot_be_woken_it_sleeps_on(host, idle, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    session = saved(host, idle, data=str(data))
    data.rename(tmp_path / "elsewhere")
    for _ in range(2):
        with pytest.raises(limpet.Error, match="data"):
            session.run("n")
        assert row(host.client, session).status == "saved"
    (tmp_path / "elsewhere").rename(data)
    assert session.run("n").result == "41"


@pytest.fixture
def guest(monkeypatch, tmp_path):
    """Where the engine local finds the supervisor."""
    path = tmp_path / "limpet-guest"
    path.symlink_to(shutil.which(os.environ.get("LIMPET_GUEST", "limpet-guest"), path=os.environ["LIMPET_BUILD"]))
    monkeypatch.setenv("LIMPET_GUEST", str(path))
    return path


@pytest.mark.engine
def test_where_its_container_does_not_start_it_sleeps_on(guest, host, idle):
    if host.limpetd.isolates:
        pytest.skip("the supervisor is in the image")
    session = saved(host, idle)
    real = guest.readlink()
    guest.unlink()
    guest.symlink_to("/bin/false")
    for _ in range(2):
        with pytest.raises(limpet.EngineError, match="the session is saved, and cannot be woken now"):
            session.run("n")
    assert row(host.client, session).status == "saved"
    guest.unlink()
    guest.symlink_to(real)
    assert session.run("n").result == "41"


# ---- other controllers ----


@pytest.mark.engine
def test_it_is_there_after_the_controller_was_killed(host, idle):
    session = saved(host, idle)
    host.again(2)
    assert row(host.client, session).status == "saved"
    assert row(host.client, session).execution_count == 1
    result = session.run("n")
    assert (result.result, result.state, result.execution_count, result.epoch) == ("41", "kept", 2, 1)
    host.again()
    assert session.run("n").state == "kept"


@pytest.mark.parametrize("keep", (False, True))
def test_it_is_there_after_the_controller_was_stopped(host, idle, keep):
    session = saved(host, idle)
    if keep:
        RawClient(host.limpetd.socket)("shutdown", keep=True)
    assert host.limpetd.stop() == 0
    host.limpetd.start()
    assert row(host.client, session).status == "saved"
    assert session.run("n").result == "41"


def test_one_that_was_open_is_closed_by_a_stop(host, idle):
    session = idle(ttl=600)
    session.run("n = 1")
    assert host.limpetd.stop() == 0
    host.limpetd.start()
    assert row(host.client, session) is None


SLOW = """
import os, time
class Slow:
    def __reduce__(self):
        while not os.path.exists('/session/go'): time.sleep(0.01)
        return int, ()
slow, n = Slow(), 41
"""

SLOW_BACK = """
class Slow:
    def __reduce__(self):
        return eval, ("[time.sleep(0.01) for _ in iter(lambda: __import__('os').path.exists('/session/go'), True)]", {"time": __import__('time')})
slow, n = Slow(), 41
"""


def test_a_controller_that_is_killed_while_it_saves_leaves_it_open(host, idle):
    session = idle()
    session.run(host.code(SHARED + SLOW)).check()
    wait_for(lambda: os.path.exists(host.files(session.name, PLACE, "variables")))
    host.again()
    assert row(host.client, session).status != "saved"
    go(host, session.name)
    assert session.run("n").result == "41"
    wait_saved(host.client, session)
    assert session.run("n, type(slow).__name__").result == "(41, 'int')"


def variables(host, session):
    return host.files(session.name, PLACE, "variables.json")


@pytest.mark.engine
def test_a_controller_that_is_killed_before_the_variables_are_written_has_them_written_by_the_next(host, idle):
    session = idle()
    session.run(host.code(SLOW)).check()
    wait_saved(host.client, session)
    host.again()
    assert row(host.client, session).status == "saved"
    assert not os.path.exists(variables(host, session))
    go(host, session.name)
    wait_gone(host, session)
    os.unlink(host.files(session.name, PLACE, "memory"))
    result = session.run("n, slow")
    assert (result.result, result.state, result.restored) == ("(41, 0)", "kept", [])


@pytest.mark.engine
def test_one_that_is_wanted_before_its_variables_are_written_goes_on(host, idle):
    session = idle(ttl=600)
    session.run(host.code(SLOW)).check()
    kept = session.checkpoint("kept")
    for turn in range(2):
        session.sleep()
        wait_for(lambda: os.path.exists(host.files(session.name, PLACE, "variables")))
        result = session.run("n += 1; n, type(slow).__name__")
        assert (result.result, result.state, result.restored, result.epoch) == (f"({42 + turn}, 'Slow')", "kept", None, 1)
        wait_for(lambda: not os.path.exists(host.files(session.name, PLACE)))
    session.rollback(kept)
    assert session.run("n").result == "41"


@pytest.mark.engine
def test_a_container_that_is_gone_before_the_variables_are_written_leaves_the_memory(host, idle):
    session = idle(ttl=600)
    session.run(host.code(SLOW)).check()
    session.sleep()
    os.kill(supervisor(host, session.name), signal.SIGKILL)
    result = session.run("n, type(slow).__name__")
    assert (result.result, result.state, result.restored) == ("(41, 'Slow')", "kept", [])


@pytest.mark.engine
def test_it_is_closed_before_the_variables_are_written(host, idle):
    session = idle(ttl=600)
    session.run(host.code(SLOW)).check()
    session.sleep()
    session.close()
    wait_for(lambda: not os.path.exists(host.files(session.name)))


def is_known(client, run_id):
    try:
        return client.result(run_id, timeout=0) is None
    except limpet.NoSuchRun:
        return False


def test_a_call_that_comes_while_it_is_saved_is_answered(host, idle):
    session = idle()
    session.run(host.code(SHARED + SLOW)).check()
    wait_for(lambda: os.path.exists(host.files(session.name, PLACE, "variables")))
    run_id = secrets.token_hex(16)
    call = Asking(session.run, "n", run_id=run_id)
    wait_for(lambda: is_known(host.client, run_id))
    go(host, session.name)
    assert (call.result().result, call.result().restored) == ("41", None)
    wait_saved(host.client, session)


@pytest.mark.engine
def test_a_controller_that_is_killed_while_it_wakes_lets_it_sleep(host, idle):
    session = saved(host, idle, SLOW_BACK, memory=False)
    for _ in range(2):
        with host.limpetd.client(reconnect_timeout=0) as client:
            opening = Asking(client.attach, session.name)
            wait_for(lambda: row(host.client, session).status == "starting")
            wait_for(lambda: supervisors(host.files(session.name)))
            host.limpetd.kill()
            with pytest.raises(limpet.Error):
                opening.result()
        host.limpetd.start()
        assert row(host.client, session).status == "saved"
    go(host, session.name)
    result = session.run("n")
    assert (result.result, result.state, result.restored) == ("41", "kept", [])
    wait_for(lambda: len(supervisors(host.files(session.name))) <= 1)  # none where it sleeps again


def test_a_stop_while_it_wakes_lets_it_sleep(host, idle):
    session = saved(host, idle, SLOW_BACK, memory=False)
    with host.limpetd.client(reconnect_timeout=0) as client:
        opening = Asking(client.attach, session.name)
        wait_for(lambda: row(host.client, session).status == "starting")
        assert host.limpetd.stop() == 0
        with pytest.raises(limpet.Unavailable):
            opening.result()
    host.limpetd.start()
    go(host, session.name)
    assert session.run("n").result == "41"


@pytest.mark.engine
def test_a_stop_while_it_returns_lets_it_sleep(host, idle):
    if not host.limpetd.isolates:
        pytest.skip("the engine local keeps no memory in a file")
    session = idle(ttl=600)
    session.run(host.code(SLOW)).check()
    session.sleep()
    os.kill(supervisor(host, session.name), signal.SIGSTOP)
    with host.limpetd.client(reconnect_timeout=0) as client:
        opening = Asking(client.attach, session.name)
        wait_for(lambda: row(host.client, session).status == "starting")
        assert host.limpetd.stop() == 0
        with pytest.raises(limpet.Unavailable):
            opening.result()
    assert "shutdown incomplete" not in open(host.limpetd.log).read()
    host.limpetd.start()
    assert session.run("n").result == "41"


def test_it_is_closed_while_it_wakes(host, idle):
    session = saved(host, idle, SLOW_BACK, memory=False)
    with host.limpetd.client() as client:
        opening = Asking(client.attach, session.name)
        wait_for(lambda: row(host.client, session).status == "starting")
        host.client.close_session(session.name)
        with pytest.raises(limpet.SessionClosed):
            opening.result()
    assert row(host.client, session) is None
