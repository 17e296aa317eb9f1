"""The files worker stands still, as it does with its disk: who asks for files waits for them, and nobody else waits."""

import os
import pathlib
import signal

import pytest

from tests.support.limpetd import controllers, name_of

from .killed import Asking, wait_for
from .raw_peer import Client

pytestmark = pytest.mark.engine


@pytest.fixture
def worker(own_limpetd):
    own_limpetd.start()
    if not own_limpetd.isolates:
        pytest.skip("one process, in which nothing is asked of another")
    with own_limpetd.client() as client:
        client.open("first").close()  # by when the worker is there
    [pid] = [pid for pid in controllers(own_limpetd.process.pid) if name_of(pid) == "limpet-files"]
    yield pid
    os.kill(pid, signal.SIGCONT)


def test_nobody_else_waits_for_it(own_limpetd, worker):
    with own_limpetd.client() as client, client.open("asks") as session, client.open("calls") as other:
        closing = client.open("closes")
        session.exec("echo before > x")
        kept = session.checkpoint(files=True)
        session.exec("echo after > x")
        other.run("x = 0")
        os.kill(worker, signal.SIGSTOP)
        listed, back = Asking(session.checkpoints), Asking(session.rollback, kept)
        for i in range(1, 101):
            assert other.run("x += 1; x").result == str(i)
        assert listed.is_alive() and back.is_alive()
        closing.close()
        os.kill(worker, signal.SIGCONT)
        assert {row.id: row.files for row in listed.result()}[kept.id]
        back.result()
        assert session.exec("cat x").stdout == "before\n"


def test_who_opens_waits_alone(own_limpetd, worker):
    with own_limpetd.client() as client, client.open("calls") as other:
        other.run("x = 0")
        os.kill(worker, signal.SIGSTOP)
        opening = Asking(client.open, "opens")
        for i in range(1, 101):
            assert other.run("x += 1; x").result == str(i)
        assert opening.is_alive()
        os.kill(worker, signal.SIGCONT)
        assert opening.result().run("open('artifacts/a', 'w').write('x'); 1").artifacts
        client.close_session("opens")


def test_who_goes_meanwhile_leaves_nothing(own_limpetd, worker):
    """What is restored ends with who restores it. Another session of that name finds nothing of it."""
    restorer = Client(own_limpetd.socket)
    state = pathlib.Path(own_limpetd.directory, "state")
    with own_limpetd.client() as client:
        os.kill(worker, signal.SIGSTOP)
        restorer.ask("open", session="goes", restoring=True)
        restorer("sessions")  # requests are taken in order
        restorer.close()
        opening = Asking(client.open, "goes")
        client.sessions()
        os.kill(worker, signal.SIGCONT)
        opening.result().close()
    wait_for(lambda: not list(state.glob("sessions/*")) and not list(state.glob("removed/*")))
    assert not list(state.glob("journals/*"))
