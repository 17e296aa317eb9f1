"""Sessions that begin as another one is, in sandboxes of their own."""

import ast
import os

import limpet
import pytest

from .killed import Asking, go, host, wait_for  # noqa: F401
from .test_idle import row

STATE = """
import os, sqlite3, threading
n, squares = 41, (n * n for n in range(100)); next(squares)
database = sqlite3.connect(":memory:"); database.execute("create table t as select 41 as x")
lock, file = threading.Lock(), open("/session/file", "w+")
lock.acquire(); file.write("0123456789"); file.flush(); file.seek(4)
os.makedirs("/session/artifacts/deep"); open("/session/artifacts/deep/a", "w").write("made")
open("/tmp/t", "w").write("tmp"); open(os.path.expanduser("~/h"), "w").write("home")
"""
READ = "n, next(squares), database.execute('select x from t').fetchone(), lock.locked(), file.read(), open('/tmp/t').read(), open(os.path.expanduser('~/h')).read()"


def left(host, session):
    """What is on its way to a fork."""
    return [found for found in os.listdir(host.files(session)) if found.startswith(".limpet-saved-fork")]


@pytest.mark.engine
@pytest.mark.docker
def test_a_fork_has_everything_of_its_own(own_limpetd):
    with own_limpetd.start().client() as client, client.open("origin") as origin:
        if not own_limpetd.isolates:
            pytest.skip("memory has the paths of another session where nothing isolates")
        origin.run(STATE).check()
        with origin.fork("other") as other:
            assert (other.name, other.options["ttl_action"]) == ("other", "save")
            result = other.run(READ)
            assert result.result == "(41, 1, (41,), True, '456789', 'tmp', 'home')"
            assert (result.state, result.restored, result.execution_count, result.epoch) == ("kept", [], 2, 1)
            assert result.artifacts == {}
            assert other.run("open('/session/artifacts/deep/a').read()").result == "'made'"
            other.run("n = 0; open('/session/file', 'w').write('changed'); os.remove('/tmp/t')").check()
            assert origin.run(READ).result == "(41, 1, (41,), True, '456789', 'tmp', 'home')"
            assert origin.run("open('/session/file').read()").result == "'0123456789'"
            for each in (origin, other):
                wait_for(lambda: each.run("sorted(os.listdir('/session'))").result == "['.limpet', 'artifacts', 'file']")
            assert other.run("os._exit(1)").state == "rolled_back"
            assert other.run("lock.locked()").result == "True"


def test_the_variables_come_where_memory_cannot(host):
    """The engine that does not isolate has other paths in each session."""
    with host.client.open("origin") as origin:
        origin.run(host.code("import threading\nn, lock = 41, threading.Lock()\nopen('/session/f', 'w').write('file')"))
        with origin.fork() as other:
            result = other.run(host.code("n, open('/session/f').read()"))
            assert (result.result, result.state) == ("(41, 'file')", "kept")
            if not host.limpetd.isolates:
                assert [note.partition(":")[0] for note in result.restored] == ["lock"]
        wait_for(lambda: left(host, "origin") == [])


def test_several_from_one_state(host):
    with host.client.open("origin") as origin:
        origin.run("import random\nrandom.seed(1)\nn = [41]")
        made = origin.fork(3)
        assert len({each.name for each in made}) == 3
        assert {each.options["ttl_action"] for each in made} == {"close"}
        for number, each in enumerate(made):
            assert each.run(f"n.append({number}); n").result == f"[41, {number}]"
        assert len({each.run("random.random()").result for each in (origin, *made)}) == 4
        assert origin.run("n").result == "[41]"
        named = origin.fork(["a", "b"])
        assert [each.name for each in named] == ["a", "b"]
        for each in (*made, *named):
            each.close()
        assert [found.session for found in host.client.sessions()] == ["origin"]


MEMORY = """
import os
[line.split()[3:5] for line in open("/proc/self/maps") if "/memory-" in line][:1], os.statvfs("/session").f_bavail
"""


@pytest.mark.engine
@pytest.mark.docker
def test_what_nobody_changes_they_share(host):
    """On no disk of theirs, and where none of them can write to."""
    if not host.limpetd.isolates:
        pytest.skip("memory has the paths of another session where nothing isolates")
    with host.client.open("origin", disk="128m") as origin:
        free = int(origin.run("import os, zlib\ndata = bytearray(os.urandom(64 << 20))\nos.statvfs('/session').f_bavail").check().result)
        made = origin.fork(3)
        seen = [ast.literal_eval(each.run(MEMORY).check().result) for each in made]
        assert len({str(file) for file, _ in seen}) == 1 and seen[0][0]
        assert min(left for _, left in seen) > free - (1 << 20 >> 12)
        made[0].run("data[:] = bytes(len(data))").check()
        made.pop(0).close()
        assert len({each.run("zlib.crc32(data)").result for each in (origin, *made)}) == 1
        for each in made:
            each.close()


@pytest.mark.engine
def test_memory_larger_than_the_disk_is_told_and_stays_where_it_is(host):
    if not host.limpetd.isolates:
        pytest.skip("memory has the paths of another session where nothing isolates")
    with host.client.open("origin", disk="64m") as origin:
        origin.run("import os, signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\ndata = os.urandom(96 << 20)").check()
        with origin.fork() as other:
            assert [note.partition(":")[0] for note in other.run("os").check().restored] == ["data"]
        assert origin.run("os._exit(1)").state == "rolled_back"
        assert origin.run("len(data)").result == str(96 << 20)
        assert [found.session for found in host.client.sessions()] == ["origin"]


def test_a_branch_is_forked_too(host):
    with host.client.open("origin") as origin:
        origin.run("n = 1")
        branch = origin.branch("try")
        branch.run("n = 2")
        with branch.fork("other") as other:
            assert other.run("n").result == "2"
        with pytest.raises(limpet.BadRequest, match="bash"):
            origin.context("bash", language="bash").fork()
        assert origin.run("n").result == "1"


def test_all_are_made_or_none(host):
    with host.client.open("origin") as origin, host.client.open("taken"):
        origin.run("n = 41")
        with pytest.raises(limpet.SessionExists, match="'taken' is open"):
            origin.fork(["new", "taken"])
        wait_for(lambda: sorted(found.session for found in host.client.sessions()) == ["origin", "taken"])
        with pytest.raises(limpet.BadRequest):
            origin.fork([])
        with pytest.raises(limpet.BadRequest):
            origin.fork("not/a name")
        assert origin.run("n").result == "41"
        with origin.fork("new") as new:
            assert new.run("n").result == "41"


def test_it_waits_for_the_call_that_runs(host):
    with host.client.open("origin") as origin:
        call = Asking(origin.run, host.code("import os, time\nwhile not os.path.exists('/session/go'): time.sleep(0.01)\nn = 41"))
        wait_for(lambda: row(host.client, origin).status == "running")
        forking = Asking(origin.fork, "other")
        go(host, "origin")
        assert call.result().ok
        with forking.result() as other:
            assert other.run("n").result == "41"


def test_a_fork_of_one_that_sleeps(host):
    with host.client.open("origin") as origin:
        origin.run("n = 41")
        origin.sleep()
        with origin.fork("other") as other:
            other.sleep()
            assert other.run("n").result == "41"


SLOW = """
import os, time
class Slow:
    def __reduce__(self):
        while not os.path.exists('/session/go'): time.sleep(0.01)
        return int, ()
slow, n = Slow(), 41
"""


def test_a_controller_that_is_killed_meanwhile_leaves_no_half_of_one(host):
    if host.limpetd.isolates:
        pytest.skip("memory is written too fast to be in the way of")
    with host.client.open("origin", ttl=600) as origin:
        origin.run(host.code(SLOW)).check()
        with host.limpetd.client(reconnect_timeout=0) as client:
            forking = Asking(client.attach("origin").fork, "other")
            wait_for(lambda: left(host, "origin"))
            host.limpetd.kill()
            with pytest.raises(limpet.Unavailable):
                forking.result()
        host.limpetd.start()
        go(host, "origin")
        wait_for(lambda: [found.session for found in host.client.sessions()] == ["origin"])
        assert origin.run("n").result == "41"


def test_a_client_that_goes_meanwhile_takes_them_along(host):
    if host.limpetd.isolates:
        pytest.skip("memory is written too fast to be in the way of")
    with host.client.open("origin", ttl=600) as origin:
        origin.run(host.code(SLOW)).check()
        client = host.limpetd.client(reconnect_timeout=0)
        forking = Asking(client.attach("origin").fork, "other")
        wait_for(lambda: left(host, "origin"))
        client.close()
        go(host, "origin")
        with pytest.raises(limpet.Error):
            forking.result()
        wait_for(lambda: [found.session for found in host.client.sessions()] == ["origin"])
        assert origin.run("n").result == "41"
