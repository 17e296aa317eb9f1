"""The launcher stands still: who needs something of it waits, and nobody else waits."""

import signal

import pytest

from tests.support import index as indexes

from .killed import Asking

pytestmark = pytest.mark.engine

@pytest.fixture
def launcher(own_limpetd):
    """It is the first process."""
    with indexes.serving() as index:
        index.add("tone")
        own_limpetd.start("--package-index", f"{index.url}/simple")
        if not own_limpetd.isolates:
            pytest.skip("one process, in which nothing is asked of another")
        yield own_limpetd.process
        own_limpetd.process.send_signal(signal.SIGCONT)


def calls_are_answered(session):
    session.run("x = 0")
    for i in range(1, 101):
        assert session.run("x += 1; x").result == str(i)


def test_who_installs_waits_alone(own_limpetd, launcher):
    with own_limpetd.client() as client, client.open("calls") as other, client.open("installs") as session:
        other.install(["tone"])
        launcher.send_signal(signal.SIGSTOP)
        installing = Asking(session.install, ["tone"])
        calls_are_answered(other)
        assert installing.is_alive()
        launcher.send_signal(signal.SIGCONT)
        assert installing.result().cached
        assert session.run("import tone; tone.__name__").result == "'tone'"
