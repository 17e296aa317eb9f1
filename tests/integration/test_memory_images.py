"""Sandboxes that begin with the memory of the first of their kind: as it was prepared, and otherwise as any other."""

import contextlib
import glob
import os

import pytest

from .killed import wait_for
from .pooled import Pool, pool, settings  # noqa: F401

pytestmark = pytest.mark.engine

SHARES = "'limpet-memory' in open('/proc/self/maps').read()"


@pytest.fixture
def isolated(pool):
    if not pool.limpetd.isolates:
        pytest.skip("the paths of files differ from one session to the next")
    return pool


def written(pool, times=1):
    """Waits until the memory of that many kinds is there."""

    def count():
        with open(pool.limpetd.log, encoding="utf-8", errors="replace") as log:
            return log.read().count("memory shared")

    wait_for(lambda: count() >= times, lambda: pool.limpetd.said())


@pytest.fixture
def client(isolated):
    written(isolated)
    return isolated.client


@contextlib.contextmanager
def sharing(client, count, **options):
    """So many sessions that have begun with it: the first spare has written it."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(client.open("first", **options))
        yield [stack.enter_context(client.open(f"session-{number}", **options)) for number in range(count)]


@pytest.mark.docker
def test_it_is_as_it_was_prepared_and_a_session_like_others(client, isolated):
    with sharing(client, 1, env={"COLOUR": "blue"}) as [session]:
        result = session.run(f"import os, sys; {SHARES}, 'wave' in sys.modules, os.environ['COLOUR'], os.getcwd()")
        assert result.result == "(True, True, 'blue', '/session')"
        assert (result.execution_count, result.epoch, result.state) == (1, 1, "kept")
        assert session.run("os.environ['COLOUR'] == os.popen('echo $COLOUR').read().strip()").result == "True"
        session.run("n = 41")
        session.checkpoint()
        assert session.run("import os; os._exit(1)").state == "rolled_back"
        assert session.run("n").result == "41"
        session.reset()
        assert session.run(f"'n' in globals(), {SHARES}, __import__('os').environ['COLOUR']").result == "(False, True, 'blue')"
    assert isolated.controller()["misfits"] == 0


DRAWN = """
import os, random, ssl, uuid
random.random(), uuid.uuid4().hex, ssl.RAND_bytes(8).hex(), os.urandom(8).hex()
"""


def test_nothing_that_is_drawn_repeats(client):
    with sharing(client, 3) as sessions:
        drawn = [eval(session.run(DRAWN).result) for session in sessions]
    assert all(len(set(values)) == 3 for values in zip(*drawn, strict=True)), drawn


def test_what_is_read_at_the_start_is_read(client):
    with client.open("a", env={"PYTHONHASHSEED": "0"}) as session:
        assert session.run(f"import sys; sys.flags.hash_randomization, {SHARES}").result == "(0, False)"


def test_one_without_a_spare_begins_with_it_too(client, isolated, settings):
    """While spares of another kind are made none is ready."""
    names = [f"cold-{number}" for number in range(4)]
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(client.open(name)) for name in names]
        assert [session.run(f"import sys; 'wave' in sys.modules, {SHARES}").result for session in sessions[1:]] == ["(True, True)"] * 3


def test_it_sleeps_and_is_forked(client):
    with sharing(client, 1) as [session]:
        session.run("numbers = (n for n in range(9)); next(numbers)")
        session.sleep()
        assert session.run("next(numbers)").result == "1"
        with session.fork() as fork:
            assert [each.run(f"next(numbers), {SHARES}").result for each in (fork, session)] == ["(2, True)"] * 2
            fork.sleep()
            assert fork.run(f"next(numbers), {SHARES}").result == "(3, True)"


def images(pool):
    """The files that are kept, by their paths."""
    return glob.glob(pool.path("memory-images", "*"))


@pytest.mark.docker
def test_it_sleeps_with_what_it_has_changed_alone(client, isolated):
    """And wakes though the controller was killed, and others begin with a newer image."""
    [image] = images(isolated)
    with sharing(client, 1) as [session]:
        session.run("numbers = (n for n in range(9)); next(numbers)")
        session.sleep()
        [memory] = glob.glob(isolated.path("sessions", "*", "files", ".limpet-saved-idle", "memory"))
        assert os.path.getsize(memory) < os.path.getsize(image) / 2
        isolated.again()
        wait_for(lambda: len(images(isolated)) == 2)
        result = session.run(f"next(numbers), {SHARES}")
        assert (result.result, result.state, result.restored) == ("(1, True)", "kept", [])
        assert image in images(isolated)
    wait_for(lambda: len(images(isolated)) == 1)
    assert image not in images(isolated)


def test_where_the_image_is_gone_the_variables_come_alone(client, isolated):
    with sharing(client, 1) as [session]:
        session.run("numbers = (n for n in range(9)); n = 41")
        session.sleep()
        isolated.limpetd.kill()
        for image in images(isolated):
            os.unlink(image)
        isolated.limpetd.start()
        result = session.run("n")
        assert (result.result, result.state) == ("41", "kept")
        assert [note.partition(":")[0] for note in result.restored] == ["numbers"]


def test_memory_of_a_template_is_made_once(isolated):
    written(isolated)
    isolated.client.template("made", setup="import os; born = os.urandom(8)\nnumbers = (n for n in range(9))")
    written(isolated, 2)
    with sharing(isolated.client, 2, template="made") as sessions:
        assert len({session.run("born").result for session in sessions}) == 1
        assert [session.run(f"next(numbers), {SHARES}").result for session in sessions] == ["(0, True)"] * 2


ALONE = {
    "a file": ("open('/tmp/made', 'w').write('41')", "open('/tmp/made').read()", "'41'"),
    "a process": ("import subprocess; child = subprocess.Popen(['sleep', '600'])", "child.poll() is None", "True"),
}


@pytest.mark.parametrize("case", ALONE)
def test_what_memory_alone_does_not_bring_is_made_each_time(isolated, case):
    setup, code, expected = ALONE[case]
    isolated.client.template("made", setup=setup)
    with contextlib.ExitStack() as stack:
        for name in "abc":
            session = stack.enter_context(isolated.client.open(name, template="made"))
            assert session.run(code).result == expected


def test_it_can_be_switched_off(isolated, settings):
    isolated.limpetd.stop()
    settings(memory_images="off")
    isolated.limpetd.start()
    isolated.ready()
    with sharing(isolated.client, 1) as [session]:
        assert session.run(SHARES).result == "False"
