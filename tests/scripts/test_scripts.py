"""The scripts that run the tests: what they are asked for they do, and what they start they end."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


def run(*command):
    return subprocess.run([SCRIPTS / command[0], *command[1:]], capture_output=True, text=True, timeout=120)


def test_the_help_names_options_and_suites():
    done = run("test", "--help")
    assert done.returncode == 0
    for word in ("--quick", "--engines", "--stress N", "sessions-oci", "python", "cli-sanitized", "wire"):
        assert word in done.stdout


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["nothing-like-it"], "there is no suite 'nothing-like-it'; there are: "),
        (["--stress", "2"], "--stress is for suites that are named"),
        (["--stress", "none", "wire"], "not 'none'"),
        (["--stress"], "lacks its value"),
        (["--fast"], "unknown option --fast"),
    ],
)
def test_what_it_does_not_know_is_refused_before_anything_begins(arguments, says):
    done = run("test", *arguments)
    assert done.returncode == 1 and says in done.stderr and done.stdout == ""


def test_ctrl_c_works_whoever_starts_the_tests():
    """As of a shell that started this in the background."""
    program = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"

    def ignore():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    command = [SCRIPTS / "interruptible", sys.executable, "-c", program]
    assert subprocess.run(command, preexec_fn=ignore, capture_output=True, text=True).stdout == "True\n"


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_load_leaves_nothing_behind(tmp_path, how):
    load = subprocess.Popen([SCRIPTS / "load", tmp_path], stdout=subprocess.PIPE, text=True)
    assert load.stdout.readline() == "busy\n"
    busy = children(load.pid)
    assert len(busy) == len(os.sched_getaffinity(0)) + 1 and all(map(alive, busy))
    load.send_signal(how)
    assert load.wait(60) == -how
    end = time.monotonic() + 60
    while any(map(alive, busy)):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert list(tmp_path.iterdir()) == []
