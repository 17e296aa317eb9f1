"""The scripts that run the tests: what they are asked for they do, and what they start they end."""

import os
import pathlib
import re
import shutil
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
    for word in ("--full", "--changed", "--quick", "--without WHAT", "--stress N", "sessions-oci", "python", "cli-sanitized", "wire"):
        assert word in done.stdout


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["nothing-like-it"], "there is no suite 'nothing-like-it'; there are: "),
        (["--stress", "2"], "--stress is for suites that are named"),
        (["--stress", "none", "wire"], "not 'none'"),
        (["--stress"], "lacks its value"),
        (["--without", "everything"], "--without takes one of docker oci network browser shells cluster, not 'everything'"),
        (["--without", "docker", "sessions-docker"], "no suite is left"),
        (["--fast"], "unknown option --fast"),
        (["--changed", "wire"], "--changed finds the suites itself"),
    ],
)
def test_what_it_does_not_know_is_refused_before_anything_begins(arguments, says):
    done = run("test", *arguments)
    assert done.returncode == 1 and says in done.stderr and done.stdout == ""


class Tree:
    """The scripts in a tree of their own, with suites of the test's and nothing to build or to install."""

    def __init__(self, directory):
        self.directory = directory
        self.scripts = directory / "scripts"
        self.scripts.mkdir()
        for name in ("test", "suite", "lib.sh", "docker.sh", "interruptible", "junit-total", "changed-suites"):
            shutil.copy(SCRIPTS / name, self.scripts)
        for name in ("leftovers", "install-deps", "cmake"):
            self.program(name, "exit 0")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("LIMPET_TEST")}
        self.environment["PATH"] = f"{self.scripts}:{os.environ['PATH']}"

    def program(self, name, *lines):
        path = self.scripts / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)

    def start(self, *arguments, **suites):
        """Suites are the words of their lines behind the name."""
        lines = [f"{name} {rest}\n" for name, rest in suites.items()]
        (self.scripts / "suites.txt").write_text("".join(lines))
        return subprocess.Popen([self.scripts / "test", *arguments], env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip

    def run(self, *arguments, **suites):
        """The exit status and what was said."""
        process = self.start(*arguments, **suites)
        said = process.communicate(timeout=120)[0]
        return process.returncode, said


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


TESTCASES = """<testsuite><testcase classname="a" name="one" time="{}"/><testcase classname="a" name="two" time="2">
{}</testcase><testcase classname="a" name="three" time="1"><skipped/></testcase></testsuite>"""


def writes(time="3", second=""):
    """A command that leaves the file pytest would leave."""
    return f"cat >build/test-results/$PYTEST_NAME.xml <<<'{TESTCASES.format(time, second)}'".replace("\n", " ")


def test_suites_are_shown_as_a_whole_and_their_tests_are_counted(tree):
    status, said = tree.run(one=f"2 quick echo from one; {writes()}", two="1 nothing echo from two")
    assert status == 0
    assert "\n== one\nfrom one\n-- one: " in said and "\n== two\nfrom two\n-- two: " in said
    assert "     3.0 s  one: a one\n     2.0 s  one: a two\n" in said
    assert said.splitlines()[-1] == "3 passed, 0 failed, 1 skipped"


def test_time_is_told_for_each_suite(tree):
    status, said = tree.run(one="2 quick true", two="1 quick true")
    for name in "one", "two":
        assert re.search(rf"^{name} +=.*\(1 test\)$", said, re.M)


@pytest.mark.parametrize(
    "fails, says, counts",
    [
        ("false", "failed: ctest: bad", "1 passed, 1 failed, 0 skipped"),
        (f"{writes(second='<failure/>')}; false", "failed: bad: a two", "2 passed, 1 failed, 1 skipped"),
        (f"{writes()}; false", "failed: ctest: bad", "3 passed, 1 failed, 1 skipped"),
    ],
)
def test_one_that_fails_does_so_for_the_whole_run(tree, fails, says, counts):
    status, said = tree.run(bad=f"1 quick {fails}", good="1 quick true")
    assert status == 1 and says in said and "The following tests FAILED" in said
    assert said.splitlines()[-1] == counts


def test_what_fails_before_the_suites_is_told(tree):
    tree.program("cmake", "case $* in *asan*) echo broken; exit 3 ;; *) seq 100000 ;; esac")
    status, said = tree.run(one="1 asan true")
    assert status == 1 and "✗ build with AddressSanitizer" in said
    assert "    == build with AddressSanitizer and UBSan\n    broken\n" in said


def test_what_is_left_behind_is_a_failure(tree):
    tree.program("leftovers", '[ $# -eq 0 ] || { echo "process: limpetd"; exit 1; }')
    status, said = tree.run(good="1 quick true")
    assert status == 1 and "process: limpetd" in said


def test_quick_leaves_out_what_needs_anything_and_installs_nothing(tree):
    tree.program("install-deps", "echo installing")
    status, said = tree.run("--quick", quick="1 quick true", slow="1 nothing true", other="1 docker true")
    assert status == 0 and "installing" not in said and said.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"


def test_full_adds_what_every_change_need_not_pass(tree):
    suites = {"short": "1 nothing true", "long": "1 full true"}
    for options, count in ([], 1), (["--full"], 2), (["long"], 1):
        status, said = tree.run(*options, **suites)
        assert status == 0 and said.splitlines()[-1] == f"{count} passed, 0 failed, 0 skipped"


FAILS_AT_FIRST = f"""results=build/test-results
if [ -z "$LIMPET_TEST_ONLY" ]; then
    echo tests/test_a.py::two >$results/one.failed
    cat >$results/one.xml <<'END'
{TESTCASES.format("3", "<failure/>")}
END
    exit 1
fi
grep -qx tests/test_a.py::two "$LIMPET_TEST_ONLY" || exit 2
echo '<testsuite><testcase classname="a" name="two" time="1"/></testsuite>' >$results/one.again.xml"""


def test_what_fails_by_chance_is_told_and_recorded(tree):
    tree.program("by-chance", FAILS_AT_FIRST)
    status, said = tree.run(one="1 quick scripts/by-chance", two="1 quick true")
    assert status == 0 and "\nfailed, then passed alone: one: a two\n" in said
    assert said.splitlines()[-1] == "3 passed, 0 failed, 1 skipped"
    assert (tree.directory / "build/flaky.txt").read_text() == "one: a two\n"


def test_what_fails_by_chance_again_fails(tree):
    (tree.directory / "tests").mkdir()
    (tree.directory / "tests/flaky.txt").write_text("a two  # once before\n")
    tree.program("by-chance", FAILS_AT_FIRST)
    status, said = tree.run(one="1 quick scripts/by-chance")
    assert status == 1 and "failed, then passed alone: one: a two: not for the first time" in said
    assert said.splitlines()[-1] == "1 passed, 1 failed, 1 skipped"


def test_what_differs_from_main_chooses_the_suites(tree):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", tree.directory, *identity, *arguments], check=True, capture_output=True)

    (tree.scripts / "changed.txt").write_text("./ other\nhost/ one\nhost/part/ two\ntests/ other\n")
    suites = {name: "1 nothing true" for name in ("one", "two", "other", "unasked")}
    suites["tests"] = "1 nothing echo tests/a only $(cat $LIMPET_TEST_ONLY)"
    (tree.directory / ".gitignore").write_text("build\nscripts\n")
    git("init", "--quiet", "--initial-branch", "main")
    git("add", ".")
    git("commit", "--quiet", "--message", "before")
    assert "Nothing that differs" in tree.run("--changed", **suites)[1]
    for path in ("host/part/x.c", "tests/a/test_new.py"):
        (tree.directory / path).parent.mkdir(parents=True)
        (tree.directory / path).touch()
    status, said = tree.run("--changed", **suites)
    ran = re.findall(r"^== (\S+)$", said, re.M)
    assert status == 0 and sorted(ran) == ["other", *(f"tests-{round}" for round in range(1, 6)), "two"]
    assert said.count("\ntests/a only tests/a/test_new.py\n") == 5


def test_without_leaves_out_what_cannot_do_without(tree):
    tree.program("install-deps", 'echo "installing: $*"')
    tells = "1 quick,docker?,oci echo without $LIMPET_TEST_WITHOUT"
    status, said = tree.run("--without", "docker", needs="1 docker true", uses=tells)
    assert status == 0 and "\nwithout docker\n" in said and "installing: build run test\n" in said
    assert said.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"


def test_stress_runs_suites_again(tree):
    tree.program("load", "sleep 60")
    status, said = tree.run("--stress", "2", "one", one="1 quick echo here", two="1 quick true")
    assert status == 0 and "\n== one-1\nhere\n" in said and "\n== one-2\nhere\n" in said
    assert said.splitlines()[-1] == "2 passed, 0 failed, 0 skipped"


SLOW = """trap 'sleep 0.5; echo >ended; exit 1' INT
echo >begun.new; mv begun.new begun
while :; do sleep 0.05; done"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_suites_have_ended_when_it_has(tree, how):
    (tree.scripts / "slow").write_text(SLOW)
    process = tree.start(slow="1 quick scripts/interruptible bash scripts/slow")
    until((tree.directory / "begun").exists)
    process.send_signal(how)
    assert process.wait(60) in (-how, 128 + how)
    assert (tree.directory / "ended").exists()


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


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
    until(lambda: not any(map(alive, busy)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_a_load_without_a_directory_explains_itself_and_starts_nothing(arguments):
    done = run("load", *arguments)
    assert done.returncode == 1 and "usage: scripts/load DIRECTORY" in done.stderr and done.stdout == ""
