"""The files worker stands still, as it does with its disk: who asks for files waits for them, and nobody else waits."""

import os
import signal

import pytest

from tests.support.limpetd import controllers, name_of

from .killed import Asking

pytestmark = pytest.mark.engine


@pytest.fixture
def worker(own_limpetd):
    own_limpetd.start()
    if not own_limpetd.isolates:
        pytest.skip("one process, in which nothing is asked of another")
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
