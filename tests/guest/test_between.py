"""What is written between two calls: told in the next record, apart from that call's own."""

import pytest

from tests.support.wire import RESET

from .guest_harness import FAKE, REAL, needs_real, wait_for

# A thread writes when a file is there, and makes another one; a copy of the thread does not do it again.
LATER = """
import os, sys, threading, time
def later(text, number=1):
    while not os.path.exists('go'): time.sleep(0.005)
    if os.path.exists('written'): return
    os.write(number, text)
    open('written', 'w')
threading.Thread(target=later, args=({text!r},), daemon=True).start()
"""


def wait_until_written(guest):
    (guest.directory / "go").touch()
    wait_for((guest.directory / "written").exists, "the thread has not written")


def test_it_is_in_the_next_record_alone(guest):
    run = guest.controller.run
    assert "between" not in run(LATER.format(text=b"of the thread\xff"))
    wait_until_written(guest)
    record = run("print('mine')")
    assert record["stdout"] == "mine\n"
    assert record["between"] == {"stdout": "of the thread\N{REPLACEMENT CHARACTER}", "stderr": "", "dropped": 0}
    assert "between" not in run("1")


def test_it_is_bounded(guest):
    run = guest.controller.run
    run(LATER.format(text=b"x" * 200_000))
    wait_until_written(guest)
    between = run("1")["between"]
    assert between == {"stdout": "x" * 65536, "stderr": "", "dropped": 200_000 - 65536}


@needs_real
def test_a_print_between_two_calls(make_guest):
    guest = make_guest(REAL)
    guest.controller.welcome()
    guest.controller.run(
        LATER.format(text=b"").replace("os.write(number, text)", "print('out'); print('err', file=sys.stderr)")
    )
    wait_until_written(guest)
    assert guest.controller.run("1")["between"] == {"stdout": "out\n", "stderr": "err\n", "dropped": 0}


def test_a_child_of_an_earlier_call(guest):
    run = guest.controller.run
    run(
        "import subprocess; spawned = True\n"
        "child = subprocess.Popen('while [ ! -e go ]; do sleep 0.01; done; echo late', shell=True)"
    )
    assert "between" not in run("print('mine')")
    (guest.directory / "go").touch()
    meanwhile, after = run("child.wait(); print('still mine')"), run("1")
    assert meanwhile["stdout"] == "still mine\n"
    assert [record["between"]["stdout"] for record in (meanwhile, after) if "between" in record] == ["late\n"]  # it may be first


@pytest.mark.parametrize("ending", ["crash", "reset"])
def test_what_was_written_before_an_end(keep, interpreter, ending):
    """A crash takes nothing of it; a reset is asked for, and takes all."""
    guest = keep(interpreter)
    controller = guest.controller
    controller.run(LATER.format(text=b"before"))
    wait_until_written(guest)
    if ending == "reset":
        controller.ask(RESET, branch=0)
        assert "between" not in controller.run("1")
    else:
        assert controller.run("import os; os._exit(3)")["between"]["stdout"] == "before"
        assert "between" not in controller.run("1")


def test_a_call_that_was_not_begun_leaves_it(keep):
    guest = keep(FAKE, "off")
    guest.controller.run(LATER.format(text=b"kept") + "handlers[CHECKPOINT] = ignore")
    wait_until_written(guest)
    assert "between" not in guest.controller.run("1", on_error="rollback", timeout=0.2)
    assert guest.controller.run("1")["between"]["stdout"] == "kept"
