"""Processes that end: calls go on, and are delivered once."""

import os
import signal
import threading

import pytest

from .door import PATIENCE, Door, opened, wait_for

SLOW = "n = globals().get('n', 0) + 1\nprint('begun', flush=True)\nimport os, time\nwhile not os.path.exists('/tmp/' + GO): time.sleep(0.01)\nos.remove('/tmp/' + GO)\nn"


@pytest.fixture
def go():
    return f"limpet-go-{os.urandom(6).hex()}"


def in_background(function):
    got = []
    thread = threading.Thread(target=lambda: got.append(function()))
    thread.start()

    def joined():
        thread.join(PATIENCE)
        return got[0]

    return joined


def begin_slow(session, go):
    """A call that waits for a file; the function waits for its record."""
    session.run(f"GO = {go!r}")
    begun = threading.Event()
    joined = in_background(lambda: session.run(SLOW, on_stdout=lambda text: begun.set()))
    assert begun.wait(PATIENCE)

    def let_go():
        open(f"/tmp/{go}", "w").close()
        return joined()

    return let_go


def test_the_network_process_is_killed_during_a_call(own_door, go):
    with own_door.limpetd.client() as local, local.open("local") as beside, own_door.client() as client, client.open("s") as session:
        let_go = begin_slow(session, go)
        pid = own_door.process()
        os.kill(pid, signal.SIGKILL)
        assert beside.run("'as before'").result == "'as before'"
        wait_for(lambda: own_door.said("process ended, starting another name=network"))
        result = let_go()
        assert (result.status, result.result, result.stdout) == ("ok", "1", "begun\n")
        assert session.run("n").result == "1"
        assert own_door.process() != pid


def test_it_comes_again_however_often_it_is_killed(own_door):
    with own_door.client() as client, client.open("s") as session:
        session.run("n = 0")
        for i in range(1, 6):
            os.kill(own_door.process(), signal.SIGKILL)
            assert session.run("n += 1; n").result == str(i)


def test_the_controller_is_killed_during_a_call(go):
    door = Door()
    try:
        door.start()
        server_key = door.server_key
        with door.client() as client, client.open("s") as session:
            let_go = begin_slow(session, go)
            door.limpetd.kill()
            door.start()
            assert door.server_key == server_key
            result = let_go()
            assert (result.status, result.result) == ("ok", "1")
            assert session.run("n").result == "1"
        assert door.limpetd.stop() == 0
    finally:
        door.limpetd.stop()
        door.limpetd.remove()


def test_a_door_that_stands_still_and_is_killed_is_another_one():
    with opened() as door, door.client() as client, client.open("s") as session:
        session.run("1")
        os.kill(door.process(), signal.SIGSTOP)
        os.kill(door.process(), signal.SIGKILL)
        assert session.run("2").result == "2"
