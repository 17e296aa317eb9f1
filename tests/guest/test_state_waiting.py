"""Calls and orders that wait for a checkpoint which the interpreter does not make."""

import pytest

from tests.support.wire import BRANCH, CHECKPOINT, CLOSE, REPLY, RESET

from .guest_harness import FAKE, assert_works

DEAF = "handlers[CHECKPOINT] = ignore"  # nor does it answer


@pytest.fixture
def controller(keep):
    return keep(FAKE, "off").controller


def test_a_call_that_waits_for_a_checkpoint_has_its_time_limit(keep):
    controller = keep(FAKE, "off").controller
    controller.run("x = 1")
    kept = controller.checkpoint()
    controller.run(DEAF)
    record = controller.run("x = 2", on_error="rollback", timeout=0.5)
    assert (record["status"], record["state"]) == ("timeout", "rolled_back")
    assert record["rolled_back_to"] == {"checkpoint": kept["id"], "execution_count": 1}
    assert record["error"]["name"] == "TimeoutKilled"
    assert "could not begin within 0.5 s" in record["error"]["message"]
    assert "later changes are lost" in record["error"]["message"]
    assert controller.run("print(x)")["stdout"] == "1\n"


def test_such_a_call_loses_what_has_no_checkpoint(keep):
    guest = keep(FAKE, "off")
    guest.controller.run(DEAF)
    record = guest.controller.run("x = 2", on_error="rollback", timeout=0.5)
    assert (record["status"], record["state"]) == ("timeout", "lost")
    assert_works(guest, 2)


def test_a_checkpoint_that_comes_too_late_keeps_the_state(controller):
    controller.run(
        "x = 1; made = handlers[CHECKPOINT]\n"
        "def slowly(*message):\n    time.sleep(1); made(*message)\n"
        "handlers[CHECKPOINT] = slowly"
    )
    record = controller.run("x = 2", on_error="rollback", timeout=0.2)
    assert (record["status"], record["state"], record["error"]["name"]) == ("timeout", "kept", "Timeout")
    assert "was not run" in record["error"]["message"]
    assert controller.run("print(x)")["stdout"] == "1\n"


def test_a_second_checkpoint_is_refused_like_the_first(controller):
    controller.run("x = 1; " + DEAF)
    for _ in range(2):
        name, message = controller.ask(CHECKPOINT, branch=0)
        assert name == "CheckpointFailed", message
    assert "may keep it busy" in message
    assert controller.run("print(x)")["stdout"] == "1\n"


@pytest.mark.parametrize("kind", [CLOSE, RESET])
def test_what_happens_to_another_branch_does_not_cancel_an_order(controller, kind):
    controller.run("x = 1")
    controller.ask(BRANCH, branch=1, **{"from": 0})
    controller.run(
        "made = handlers[CHECKPOINT]\ndef slowly(*message):\n    time.sleep(0.5); made(*message)\nhandlers[CHECKPOINT] = slowly"
    )
    controller.send(CHECKPOINT, {"branch": 0, "name": "a"}, 7)
    controller.send(kind, {"branch": 1}, 8)
    answers = {id: (told, body) for told, id, body in (controller.receive(), controller.receive())}
    assert [answers[id][0] for id in (7, 8)] == [REPLY, REPLY], answers
    assert controller.run("print(x)")["stdout"] == "1\n"
