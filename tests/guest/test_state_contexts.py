"""Contexts: branches without an origin, which begin where they are told."""

import pytest

from tests.support.wire import BRANCH, CHECKPOINT, CLOSE, COMMIT, CONTEXT, NAMESPACE, RESET

from .guest_harness import REAL, needs_real


pytestmark = needs_real


@pytest.fixture(params=["auto", "always", "off"])
def controller(request, keep):
    return keep(REAL, request.param).controller


def context(controller, number, **body):
    return controller.ask(CONTEXT, branch=number, **body)


def test_it_begins_with_nothing(controller):
    controller.run("x = 1")
    reply = context(controller, 3)
    assert (reply["execution_count"], reply["epoch"]) == (0, 1)
    record = controller.run("print('x' in globals())", branch=3)
    assert (record["stdout"], record["execution_count"], record["epoch"]) == ("False\n", 1, 1)
    controller.run("y = 2", branch=3)
    assert controller.run("print('y' in globals(), x)")["stdout"] == "False 1\n"
    controller.ask(CLOSE, branch=3)
    assert controller.run("print(x)")["stdout"] == "1\n"


def test_it_begins_there_again(controller):
    context(controller, 3, cwd="/")
    assert controller.run("import os; print(os.getcwd()); os.chdir('/tmp')", branch=3)["stdout"] == "/\n"
    controller.ask(RESET, branch=3)
    assert controller.run("import os; print(os.getcwd())", branch=3)["stdout"] == "/\n"


def refused(controller, kind, **body):
    name, message = controller.ask(kind, **body)
    return message


def test_what_is_refused(controller):
    context(controller, 3)
    for body, words in (
        ({"branch": 3}, "branch 3 exists"),
        ({"branch": 0}, "branch 0 exists"),
        ({"branch": 4, "cwd": "/nowhere"}, "cannot begin in '/nowhere'"),
        ({"branch": 4, "cwd": "a\0b"}, "cannot begin in"),
        ({"branch": 4, "language": "cobol"}, "there is no language 'cobol'"),
        ({"branch": 4, "language": "../bash"}, "there is no language"),
    ):
        assert words in refused(controller, CONTEXT, **body)
    for number in range(4, 19):
        context(controller, number)
    assert "at most 16" in refused(controller, CONTEXT, branch=19)


def test_another_language(controller):
    controller.run("x = 1")
    context(controller, 3, language="bash")
    assert controller.run("x=5; echo $x", branch=3)["stdout"] == "5\n"
    assert "there are no checkpoints of bash" in refused(controller, CHECKPOINT, branch=3)
    assert "there are no checkpoints of bash" in refused(controller, BRANCH, **{"branch": 4, "from": 3})
    assert "not committed" in refused(controller, COMMIT, **{"branch": 0, "from": 3})
    assert "not listed" in refused(controller, NAMESPACE, branch=3)
    record = controller.run("exit 7", branch=3)
    assert (record["status"], record["state"], record["exit_code"]) == ("exited", "lost", 7)
    record = controller.run("echo [$x]", branch=3)
    assert (record["stdout"], record["epoch"]) == ("[]\n", 2)
    assert controller.run("print(x)")["stdout"] == "1\n"


@pytest.mark.parametrize("following", ["call", "kept busy"])
def test_a_state_is_kept_while_other_contexts_are_busy(keep, following):
    controller = keep(REAL).controller
    context(controller, 3)
    controller.run("x = 0")
    controller.protected(1)
    for count in (2, 3):
        controller.run(f"x = {count}")
        controller.run("import time; time.sleep(0.3)", branch=3)
        if following == "kept busy":
            controller.run("time.sleep(0.01)", branch=3)
        record = controller.run("import os; os._exit(3)")
        assert record["state"] == "rolled_back"
        assert controller.run("print(x)")["stdout"] == f"{count}\n"
        assert record["rolled_back_to"]["execution_count"] == record["execution_count"] - 1
