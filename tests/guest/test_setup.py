"""Guests that run the code of a template before they have a session: what that leaves, and how it fails."""

import pytest

from tests.support.wire import CLAIM, PREPARED, RESET

from .guest_harness import REAL, needs_real

pytestmark = needs_real


@pytest.fixture
def set_up(make_guest):
    """A guest whose welcome has setup code: set_up(code, **fields)."""

    def make(code, **fields):
        guest = make_guest(REAL)
        guest.controller.welcome(imports=[], setup=code, **fields)
        return guest.controller

    return make


@pytest.fixture
def claimed(set_up):
    """The same, claimed."""

    def make(code, checkpoint="auto", claim=None, **fields):
        controller = set_up(code, **fields)
        assert controller.prepared() == []
        controller.send(CLAIM, {"env": claim or fields.get("env") or {}, "checkpoint": checkpoint})
        return controller

    return make


def failure(controller):
    kind, id, body = controller.receive()
    assert (kind, id, body["failed"]) == (PREPARED, 0, [])
    return body["error"]


def test_the_state_before_the_first_call(claimed):
    controller = claimed("import json\nx = [1, 2]\ndef double(n):\n    return 2 * n\nprint('nobody hears this')")
    record = controller.run("print(double(x[1]), json.dumps(x))")
    assert (record["status"], record["stdout"], record["stderr"]) == ("ok", "4 [1, 2]\n", "")
    assert (record["execution_count"], record["changed"]) == (1, None)


def test_a_first_call_that_is_lost_goes_back_to_it(claimed):
    controller = claimed("x = 1")
    record = controller.run("x = 2; import os; os._exit(3)")
    assert (record["state"], record["rolled_back_to"]["execution_count"]) == ("rolled_back", 0)
    assert controller.run("print(x)")["stdout"] == "1\n"


def test_so_does_a_reset(claimed):
    controller = claimed("x = 1", checkpoint="off")
    controller.run("x = 2; y = 3")
    assert controller.ask(RESET, branch=0) == {"epoch": 2}
    assert controller.run("print(x, 'y' in globals())")["stdout"] == "1 False\n"


def test_random_numbers_do_not_repeat(claimed):
    controller = claimed("import random", checkpoint="off")
    seen = set()
    for epoch in range(2, 5):
        seen.add(controller.run("print(random.random())")["stdout"])
        controller.ask(RESET, branch=0)
    assert len(seen) == 3


def test_the_environment_of_a_claim_wins(claimed):
    code = "import os; seen = os.environ['A']; os.environ['MADE'] = 'here'; os.environ['B'] = 'setup'; del os.environ['GONE']"
    env = {"A": "1", "B": "welcome", "GONE": "there"}
    controller = claimed(code, env=env)
    look = "print(seen, *(os.environ.get(name) for name in ('A', 'B', 'C', 'MADE', 'GONE')))"
    assert controller.run(look)["stdout"] == "1 1 setup None here None\n"
    controller.ask(RESET, branch=0)
    assert controller.run(look)["stdout"] == "1 1 setup None here None\n"


def test_another_environment_at_the_claim(claimed):
    code = "import os; os.environ['MADE'] = 'here'; os.environ['B'] = 'setup'"
    controller = claimed(code, claim={"A": "1", "B": "claim", "C": "3", "OMP_NUM_THREADS": "3"}, env={"A": "1", "B": "2"})
    look = "print(*(os.environ.get(name) for name in ('A', 'B', 'C', 'MADE', 'OMP_NUM_THREADS')))"
    assert controller.run(look)["stdout"] == "1 claim 3 here 3\n"


def test_figures_of_it_are_not_shown(claimed):
    pytest.importorskip("matplotlib")
    controller = claimed("import matplotlib.pyplot as plt; plt.plot([1])")
    controller.run("1")
    assert controller.events == []


@pytest.mark.parametrize(
    "code, name, message",
    [
        ("def f():\n    return 1 / 0\nf()", "ZeroDivisionError", "division by zero"),
        ("x = = 1", "SyntaxError", "invalid syntax"),
        ("import sys; sys.exit(3)", "SystemExit", "3"),
        ("input()", "RuntimeError", "cell"),
        ("await None", "TypeError", "NoneType"),
    ],
)
def test_an_exception(set_up, code, name, message):
    error = failure(set_up(code))
    assert error["name"] == name and message in error["message"]
    assert name in error["traceback"]


def test_a_traceback_has_its_lines(set_up):
    traceback = failure(set_up("def f():\n    return 1 / 0\nf()"))["traceback"]
    assert "return 1 / 0" in traceback and traceback.index("line 3") < traceback.index("line 2")
    assert "limpet_runtime" not in traceback


@pytest.mark.parametrize(
    "code, name, message",
    [
        ("import os; os._exit(4)", "Exited", "exit code 4"),
        ("import os; os.abort()", "Crashed", "signal 6"),
        ("import os; os.kill(os.getpid(), 9)", "Crashed", "signal 9"),
    ],
)
def test_the_end_of_the_interpreter(set_up, code, name, message):
    error = failure(set_up(code))
    assert error["name"] == name and message in error["message"] and error["traceback"] == ""


def test_a_fork_that_does_not_end_is_none_of_ours(set_up):
    controller = set_up("import os\nif os.fork() == 0:\n    raise SystemExit(5)\nos.wait()")
    assert controller.prepared() == []


def test_much_output_and_files(claimed):
    controller = claimed("import sys\nfor n in range(100000): print(n)\nsys.stderr.write('x' * 1000000)\nopen('f', 'w').write('1')")
    assert controller.run("print(open('f').read())")["stdout"] == "1\n"
