"""A session that was a spare before is as one whose container was made for it, but for the time it took."""

import contextlib
import os

import limpet
import pytest

from .killed import wait_for
from .pooled import CLAIMED, Pool, pool, settings  # noqa: F401
from .raw_peer import Client

pytestmark = pytest.mark.engine

# What a cell can see of itself.
FACTS = """
import gc, os, resource, signal, sys, threading
{
    "cwd": os.getcwd() if ISOLATED else "", "files": sorted(os.listdir()), "umask": os.umask(0o022),
    "env": {k: v for k, v in os.environ.items() if ISOLATED or k not in ("PWD", "HOME", "MPLCONFIGDIR", "LIMPET_POOL")},
    "environ of the process": os.popen("env | sort").read() if ISOLATED else "",
    "argv": sys.argv, "path": [p for p in sys.path if ISOLATED or "/sessions/" not in p], "name": __name__,
    "names": sorted(globals()), "threads": threading.active_count(), "gc": (gc.isenabled(), gc.get_threshold()),
    "limits": [resource.getrlimit(n) for n in range(resource.RLIM_NLIMITS)],
    "signals": [str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)],
    "uid": (os.getuid(), os.getgid(), os.getgroups()), "niceness": os.nice(0),
    "descriptors": sorted(int(n) for n in os.listdir("/proc/self/fd"))[:3],
    "recursion": sys.getrecursionlimit(), "encoding": (sys.stdout.encoding, sys.stdin.encoding),
    "memory": open("/sys/fs/cgroup/memory.max").read() if os.path.exists("/sys/fs/cgroup/memory.max") else "",
    "data": os.listdir("/data") if ISOLATED else "",
}
"""


def facts(session, isolated):
    return session.run(f"ISOLATED = {isolated}\n" + FACTS).result


@pytest.mark.docker
def test_it_is_claimed_and_replaced(pool):
    assert pool.raw("open", session="a")["created"] is True
    with contextlib.closing(pool.client.attach("a")) as session:
        assert pool.was_claimed(session)
        [row] = pool.client.sessions()
        assert (row.session, row.status, row.execution_count, row.epoch) == ("a", "idle", 1, 1)
        pool.ready()
        assert pool.raw("open", session="a")["created"] is False
    assert pool.client.sessions() == []
    pool.ready()


@pytest.mark.docker
def test_what_it_sees_is_the_same(pool, settings):
    options = {"env": {"COLOUR": "blue", "TZ": "Asia/Tokyo"}, "timeout": 70, "ttl": 90}
    isolated = pool.limpetd.isolates
    with pool.client.open("a", **options) as session:
        assert pool.was_claimed(session)
        of_spare, said = facts(session, isolated), session.options
    pool.limpetd.stop()
    settings(pool=0)
    pool.limpetd.start()
    with pool.client.open("a", **options) as session:
        assert not pool.was_claimed(session)
        assert facts(session, isolated) == of_spare
        assert session.options == said
    settings(pool=1)


def test_local_time_is_that_of_env(pool):
    with pool.client.open("a", env={"TZ": "Asia/Tokyo"}) as session:
        assert session.run("import time; time.tzname[0]").result == "'JST'"


def test_env_that_counts_at_start(pool):
    with pool.client.open("a", env={"OMP_NUM_THREADS": "3"}) as session:
        code = "import os; os.environ['OMP_NUM_THREADS'], b'OMP_NUM_THREADS=3' in open('/proc/self/environ', 'rb').read()"
        assert session.run(code).result == "('3', True)"


@pytest.mark.docker
def test_data_is_there_and_read_only(pool, tmp_path):
    if not pool.limpetd.isolates:
        pytest.skip("the engine local has no /data")
    (tmp_path / "table.csv").write_text("1,2")
    tmp_path.chmod(0o755)
    with pool.client.open("a", data=str(tmp_path)) as session:
        assert session.run("open('/data/table.csv').read()").result == "'1,2'"
        assert session.run("open('/data/new', 'w')").error.name in ("OSError", "PermissionError")
        assert session.options["data"] == str(tmp_path)
        assert pool.raw("open", session="a", data=str(tmp_path))["created"] is False
        with pytest.raises(limpet.OptionsDiffer):
            pool.client.open("a", data="/")
        assert session.run("import os; os._exit(1)").status == "exited"
        session.reset()
        assert session.run("open('/data/table.csv').read()").result == "'1,2'"
    with pool.client.open("b") as session:
        assert session.run("import os; os.listdir('/data')").result == "[]"


def test_artifacts(pool):
    prefix = "/session/" if pool.limpetd.isolates else ""
    write = "open('%sartifacts/%s', 'w').write('%s')"
    for life in "first", "second":
        pool.ready()
        with pool.client.open("a") as session:
            assert pool.was_claimed(session)
            result = session.run(write % (prefix, life, life))
            assert result.artifacts == {f"/session/artifacts/{life}": pool.path("sessions", "a", "artifacts", life)}
            assert session.run("1").artifacts == {}
            assert list(session.run(write % (prefix, "other", life)).artifacts) == ["/session/artifacts/other"]
    for name in "first", "second":
        with open(pool.path("sessions", "a", "artifacts", name)) as file:
            assert file.read() == name


def test_nothing_of_an_earlier_life_is_there(pool):
    with pool.client.open("a") as session:
        session.run("open('left', 'w').close()")
    pool.ready()
    with pool.client.open("a") as session:
        assert pool.was_claimed(session)
        assert "left" not in session.run("import os; os.listdir()").result
    wait_for(lambda: not os.path.exists(pool.path("sessions", "a")))


def test_put_and_get(pool, tmp_path):
    (tmp_path / "here").write_bytes(bytes(3 << 20))
    with pool.client.open("a") as session:
        session.put(tmp_path / "here", "/session/there")
        assert session.run("import os; os.path.getsize('there')").result == str(3 << 20)
        session.get("/session/there", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == bytes(3 << 20)


def test_long_output_is_stored(pool, tmp_path):
    with pool.client.open("a") as session:
        result = session.run("print('x' * (2 << 20))")
        assert result.truncated
        session.get(result.stdout_file, tmp_path / "whole")
    assert (tmp_path / "whole").stat().st_size == (2 << 20) + 1


@pytest.mark.parametrize("checkpoint, state", [("always", "rolled_back"), ("off", "lost")])
def test_checkpoints(pool, checkpoint, state):
    with pool.client.open("a", checkpoint=checkpoint) as session:
        assert pool.was_claimed(session)
        session.run("x = 1")
        result = session.run("import os; os._exit(3)")
        assert (result.status, result.state, result.epoch) == ("exited", state, 2)
        assert session.run("'x' in globals()").result == str(state == "rolled_back")


def test_branches_and_checkpoints_by_hand(pool):
    with pool.client.open("a") as session:
        session.run("x = 1; open('f', 'w').write('1')")
        session.checkpoint("before", files=True)
        session.run("x = 2; open('f', 'w').write('2')")
        branch = session.branch("b")
        branch.run("x = 3")
        session.rollback("before")
        assert (session.run("x, open('f').read()").result, branch.run("x").result) == ("(1, '1')", "3")


def test_reset_gives_the_fresh_state(pool):
    with pool.client.open("a", env={"COLOUR": "blue"}) as session:
        session.run("x = 1; import os; os.environ['COLOUR'] = 'red'; open('kept', 'w').close()")
        session.reset()
        result = session.run("import os; 'x' in globals(), os.environ['COLOUR'], os.path.exists('kept')")
        assert (result.error, result.result, result.epoch) == (None, "(False, 'blue', True)", 2)
        assert pool.was_claimed(session)


def test_a_call_in_a_container_of_its_own(pool):
    prefix = "/work/" if pool.limpetd.isolates else ""
    assert pool.client.run(CLAIMED).result == "False"  # the first of its kind
    pool.ready(2)
    result = pool.client.run(CLAIMED + f"\nopen('{prefix}artifacts/a', 'w').write('1')\n" + CLAIMED)
    assert (result.result, result.session, result.execution_count) == ("True", None, 1)
    [path] = result.artifacts.values()
    assert path.startswith(pool.path("outputs", result.run_id))
    with open(path) as file:
        assert file.read() == "1"
    wait_for(lambda: not pool.client.sessions())
    pool.ready(2)


def test_each_kind_has_its_own(pool):
    with pool.client.open("a", memory="700m") as session:
        assert not pool.was_claimed(session)
        pool.ready(2)
        with pool.client.open("b", memory="700m") as other:
            assert pool.was_claimed(other) and other.options["memory"] == 700 << 20


def test_no_modules_where_memory_is_scarce(pool):
    with pool.client.open("a", memory="128m"):
        pool.ready(2)
        with pool.client.open("b", memory="128m") as other:
            assert other.run("'x' in globals()").result == "False"
            assert not pool.was_claimed(other)


def test_many_at_once(own_limpetd, settings):
    settings(pool=2, memory_images="off")
    pool = Pool(own_limpetd.start())
    pool.ready(2)
    with contextlib.closing(Client(own_limpetd.socket)) as peer:
        for opening in [peer.ask("open", session=f"s{n}") for n in range(4)]:
            peer.answer(opening)
    sessions = [pool.client.open(f"s{n}") for n in range(4)]
    assert sum(pool.was_claimed(session) for session in sessions) == 2
    assert len({row.container for row in pool.client.sessions()}) == 4
    pool.ready(4)  # more were wanted than there were
    for session in sessions:
        session.close()
    pool.client.close()
    assert own_limpetd.stop() == 0 and own_limpetd.leftovers() == {}


@pytest.mark.parametrize("name", ["default", "mine"])
def test_an_image_that_is_made_again_under_its_name(own_limpetd, settings, name):
    """A spare of the image that had that name before is given to nobody."""
    if own_limpetd.engine != "oci":
        pytest.skip("only oci has its images in this directory")
    images = os.path.join(own_limpetd.directory, "state", "images")
    image = os.path.realpath(os.path.join(images, os.environ.get("LIMPET_IMAGE", "default")))
    os.unlink(images)
    os.mkdir(images)
    for link, target in {"one": image, "two": image, "default": "one", "mine": "one"}.items():
        os.symlink(target, os.path.join(images, link))
    settings(memory_images="off", image="")
    pool = Pool(own_limpetd.start())
    pool.ready()
    options = {} if name == "default" else {"image": name}
    with pool.client.open("a", **options):
        pool.ready(1 + len(options))
        os.symlink("two", os.path.join(images, "new"))
        os.rename(os.path.join(images, "new"), os.path.join(images, name))
        with pool.client.open("b", **options) as session:
            assert not pool.was_claimed(session)
    pool.client.close()
    assert own_limpetd.stop() == 0 and own_limpetd.leftovers() == {}


def test_opened_while_a_spare_is_being_born(own_limpetd, settings):
    pool = Pool(own_limpetd.start())
    wait_for(pool.spare_directories)
    with pool.client.open("a") as session:
        assert session.run("6 * 7").result == "42"
        pool.ready()
        with pool.client.open("b") as other:
            assert pool.was_claimed(other)
    pool.client.close()
    assert own_limpetd.stop() == 0 and own_limpetd.leftovers() == {}


def test_spares_count_for_no_limit(own_limpetd, settings):
    settings(max_sessions=1)
    pool = Pool(own_limpetd.start())
    pool.ready()
    with pool.client.open("a"):
        pool.ready()
        with pytest.raises(limpet.Busy, match="1 sessions"):
            pool.client.open("b")
    pool.client.close()
    assert own_limpetd.stop() == 0
