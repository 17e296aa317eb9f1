"""Branches: lines of state of their own in one container, and commits of them."""

import os

import pytest

from tests.support.wire import BRANCH, CLOSE, COMMIT, GUEST_HELLO, INTERRUPT, OUTPUT, REPLY, RESET, ROLLBACK

from .guest_harness import FAKE, Controller

MODES = ["auto", "always", "off"]


@pytest.fixture(params=MODES)
def guest(request, keep, interpreter):
    return keep(interpreter, request.param)


@pytest.fixture
def controller(guest):
    return guest.controller


def branch(controller, number, origin=0, **body):
    return controller.ask(BRANCH, branch=number, **{"from": origin}, **body)


def commit(controller, number, origin=0):
    return controller.ask(COMMIT, branch=origin, **{"from": number})


def value(controller, number=0):
    return controller.run("print(x)", branch=number)["stdout"].strip()


def test_branch_of_this_moment(controller):
    controller.run("x = 1")
    reply = branch(controller, 3)
    assert (reply["execution_count"], reply["epoch"], reply["not_restored"]) == (1, 1, [])
    kept = {c["id"] for c in controller.checkpoints()}
    assert reply["checkpoint"] in kept or (reply["checkpoint"] is None and not kept)
    record = controller.run("x += 10; print(x)", branch=3)
    assert (record["stdout"], record["branch"], record["epoch"]) == ("11\n", 3, 1)
    assert record["execution_count"] == 2
    assert value(controller) == "1"
    assert controller.run("x += 1")["execution_count"] == 3
    assert (value(controller, 3), value(controller)) == ("11", "2")


def test_branch_of_a_checkpoint(controller):
    controller.run("x = 1")
    kept = controller.checkpoint(name="a")
    controller.run("x = 2")
    for number in (1, 2):
        reply = branch(controller, number, checkpoint="a")
        assert (reply["execution_count"], reply["checkpoint"]) == (2, kept["id"])
        assert value(controller, number) == "1"
    assert value(controller) == "2"


def test_branch_of_a_branch(controller):
    controller.run("x = [0]")
    for number in range(1, 5):
        branch(controller, number, number - 1)
        controller.run(f"x.append({number})", branch=number)
    for number in range(5):
        assert value(controller, number) == str(list(range(number + 1)))


def test_a_branch_is_protected_from_its_first_call(guest, controller, request):
    mode = request.node.callspec.params["guest"]
    controller.run("x = 1")
    branch(controller, 1)
    record = controller.run("x = 2; import os; os._exit(1)", branch=1)
    assert record["epoch"] == 2
    if mode == "off":
        assert record["state"] == "lost"
    else:
        assert (record["state"], record["rolled_back_to"]["execution_count"]) == ("rolled_back", 1)
        assert value(controller, 1) == "1"
    record = controller.run("print(x)")
    assert (record["stdout"], record["epoch"], record["state"]) == ("1\n", 1, "kept")


def test_losses_stay_in_their_branch(keep, interpreter):
    controller = keep(interpreter, "always").controller
    controller.run("import subprocess, os; x = 0")
    for number in (1, 2):
        branch(controller, number)
    for number in (0, 1, 2):
        controller.run(
            f"x = {number}; child = subprocess.Popen(['sleep', '60']); spawned = True", branch=number
        )
    for number in (1, 0, 2, 1):
        record = controller.run("os.kill(os.getpid(), 11)", branch=number)
        assert (record["status"], record["state"]) == ("crashed", "rolled_back")
        if number:
            assert "1 process was ended" in record["not_restored"] or record["epoch"] > 2
        others = {0, 1, 2} - {number}
        for other in others:
            assert value(controller, other) == str(other)
    # The one whose interpreter was never lost still has its child: it waits for it in vain.
    branch(controller, 5)
    record = controller.run("child = subprocess.Popen(['sleep', '60']); spawned = True", branch=5)
    controller.run("os.kill(os.getpid(), 11)", branch=2)
    assert controller.run("print(child.poll())", branch=5)["stdout"] == "None\n"


def test_each_branch_has_its_automatic_checkpoint(keep, interpreter):
    controller = keep(interpreter).controller
    controller.run("x = 1")
    controller.protected(1)
    branch(controller, 4)
    controller.run("x = 2", branch=4)
    controller.protected(2, branch=4)
    controller.run("x = 3")
    controller.protected(2)
    rows = controller.checkpoints()
    assert sorted((c["branch"], c["execution_count"], c["automatic"]) for c in rows) == [
        (0, 2, True),
        (4, 2, True),
    ]


def test_a_branch_keeps_what_it_stands_on_when_one_made_of_it_moves_on(keep, interpreter):
    """A call that may go back there would go further back otherwise."""
    controller = keep(interpreter, "always").controller
    controller.run("x = 1")
    branch(controller, 1)
    for value in (2, 3):
        controller.run(f"x = {value}", branch=1)
    assert [(c["branch"], c["execution_count"]) for c in controller.checkpoints()] == [(0, 1), (1, 2)]
    controller.run("x = 4")
    controller.run("x = 5")
    assert [(c["branch"], c["execution_count"]) for c in controller.checkpoints()] == [(1, 2), (0, 2)]


def test_commit(controller):
    controller.run("x = 1")
    branch(controller, 7)
    controller.run("x = 2", branch=7)
    controller.run("x = 3", branch=7)
    controller.run("y = 1")
    assert commit(controller, 7) == {"execution_count": 3, "epoch": 2}
    record = controller.run("print(x, 'y' in globals())")
    assert (record["stdout"], record["execution_count"], record["epoch"]) == ("3 False\n", 4, 2)
    assert record["state"] == "kept"
    controller.start("1", branch=7, id=9)
    kind, id, body = controller.receive()
    assert (id, body["name"]) == (9, "NoSuchSession")
    assert commit(controller, 7)[0] == "NoSuchSession"


def test_commit_counts_never_go_back(controller):
    branch(controller, 7)
    for _ in range(4):
        controller.run("x = 1")
    controller.run("x = 5", branch=7)
    assert commit(controller, 7) == {"execution_count": 4, "epoch": 2}
    assert value(controller) == "5"


def test_after_a_commit_a_loss_goes_back_in_the_committed_line(keep, interpreter):
    controller = keep(interpreter, "always").controller
    controller.run("x = 1")
    branch(controller, 1)
    controller.run("x = 2", branch=1)
    controller.run("x = 9")
    commit(controller, 1)
    record = controller.run("import os; os._exit(1)")
    assert (record["state"], record["rolled_back_to"]["execution_count"]) == ("rolled_back", 2)
    assert value(controller) == "2"


def test_commit_into_a_branch(controller):
    controller.run("x = 0")
    branch(controller, 1)
    branch(controller, 2, 1)
    controller.run("x = 2", branch=2)
    assert commit(controller, 2, 1)["epoch"] == 2
    assert (value(controller, 1), value(controller)) == ("2", "0")


def test_close(guest, controller):
    controller.run("x = 1")
    branch(controller, 1)
    controller.run("x = 2", branch=1)
    pinned = controller.checkpoint(branch=1, name="pinned")
    assert pinned["branch"] == 1
    assert controller.ask(CLOSE, branch=1) == {}
    assert controller.ask(CLOSE, branch=1)[0] == "NoSuchSession"
    assert all(not c["automatic"] or c["branch"] == 0 for c in controller.checkpoints())
    assert value(controller) == "1"
    # What was kept of it by hand stays.
    controller.ask(ROLLBACK, branch=0, checkpoint="pinned")
    assert value(controller) == "2"


def test_close_ends_its_call(controller):
    branch(controller, 1)
    controller.start("print('in', flush=True)\nimport time; time.sleep(60)", stream=True, branch=1)
    assert controller.receive()[0] == OUTPUT
    controller.send(CLOSE, {"branch": 1}, 500)
    record = controller.record()
    assert (record["status"], record["state"], record["error"]["name"]) == ("failed", "lost", "SessionClosed")
    assert controller.answer() == {}
    assert controller.run("1")["status"] == "ok"


def test_reset_of_a_branch(controller):
    controller.run("x = 1")
    branch(controller, 1)
    controller.send(RESET, {"branch": 1}, 9)
    assert controller.receive() == (REPLY, 9, {"epoch": 2})
    assert controller.run("print('x' in globals())", branch=1)["stdout"] == "False\n"
    assert value(controller) == "1"


def test_interrupt_means_the_running_call(controller):
    branch(controller, 1)
    controller.start("print('in', flush=True)\nimport time; time.sleep(60)", stream=True, branch=1)
    assert controller.receive()[0] == OUTPUT
    controller.send(INTERRUPT, {})
    record = controller.record()
    assert (record["status"], record["branch"], record["state"]) == ("interrupted", 1, "kept")


def test_hello_lists_the_branches(guest, controller):
    controller.run("x = 1")
    branch(controller, 12)
    controller.run("x = 2", branch=12)
    branch(controller, 3)
    commit(controller, 3)
    controller.close()
    guest.controller = Controller(guest.link)
    kind, _, hello = guest.controller.receive()
    assert kind == GUEST_HELLO and hello["running"] is None
    assert hello["branches"] == [
        {"branch": 0, "epoch": 2, "execution_count": 1},
        {"branch": 12, "epoch": 1, "execution_count": 2},
    ]


def test_limits_and_refusals(keep):
    controller = keep(FAKE, "off").controller
    for number in range(1, 17):
        assert branch(controller, number)["epoch"] == 1
    name, text = branch(controller, 17)
    assert name == "TooLarge" and "16" in text
    assert branch(controller, 3)[0] == "BranchExists"
    assert branch(controller, 18, 99)[0] == "NoSuchSession"
    assert controller.ask(CLOSE, branch=16) == {}
    assert branch(controller, 17, checkpoint="none")[0] == "NoSuchCheckpoint"
    assert branch(controller, 17)["epoch"] == 1
    assert commit(controller, 0)[0] == "BadRequest"
    assert commit(controller, 3, 3)[0] == "BadRequest"
    assert commit(controller, 99)[0] == "NoSuchSession"
    assert controller.ask(CLOSE, branch=0)[0] == "BadRequest"
    assert controller.run("1", branch=17)["status"] == "ok"


def test_output_files_of_branches_do_not_meet(keep, interpreter):
    guest = keep(interpreter, "off", output_limit=10)
    controller = guest.controller
    branch(controller, 5)
    first = controller.run("print('a' * 100)")
    second = controller.run("print('b' * 100)", branch=5)
    assert first["execution_count"] == second["execution_count"] == 1
    assert first["stdout_file"] != second["stdout_file"]
    for record, letter in ((first, "a"), (second, "b")):
        with open(guest.directory / ".limpet" / os.path.basename(record["stdout_file"])) as file:
            assert file.read() == letter * 100 + "\n"


def test_reset_and_close_of_a_branch_in_the_making(keep):
    controller = keep(FAKE, "off").controller
    controller.run("def slow(id, body, fds): time.sleep(60)\nhandlers[67 + 1] = slow")
    controller.checkpoint(name="a")
    for kind in (RESET, CLOSE):
        controller.send(BRANCH, {"branch": 1, "from": 0, "checkpoint": "a"}, 500)
        assert controller.ask(kind, id=501, branch=1)[0] == "NoSuchSession"
        controller.send(RESET, {"branch": 0}, 502)
        assert "epoch" in controller.answer(502)
        assert controller.answer(500)[0] == "CheckpointFailed"  # it has taken too long
        assert controller.run("1")["status"] == "ok"


def test_branch_whose_copy_cannot_be_made(keep):
    controller = keep(FAKE, "off").controller
    controller.run("def refuse(id, body, fds): send(66, {'error': 'no room'}, id)\nhandlers[67 + 1] = refuse")
    controller.checkpoint(name="a")
    name, text = branch(controller, 1, checkpoint="a")
    assert name == "CheckpointFailed" and "no room" in text
    name, text = branch(controller, 1)
    assert name == "CheckpointFailed" and "no room" in text
    assert [c["name"] for c in controller.checkpoints()] == ["a"]
    assert controller.run("1", branch=0)["status"] == "ok"
    name, text = controller.ask(ROLLBACK, branch=0, checkpoint="a")
    assert name == "CheckpointFailed" and "no room" in text and "variables are lost" in text
    record = controller.run("1")
    assert (record["status"], record["state"], record["epoch"]) == ("ok", "lost", 2)
