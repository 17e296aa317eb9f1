"""`limpet exec`, on a real controller."""

import json
import os
import signal
import subprocess

import pytest

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")


@pytest.fixture
def start(limpetd):
    environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}

    def start(*words, stdin=subprocess.DEVNULL):
        return subprocess.Popen(
            [LIMPET, *words], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )

    return start


@pytest.fixture
def execute(start, session, name):
    def execute(*words, given=None):
        """Exit status and both streams, as bytes, without the warning that an engine does not isolate."""
        process = start("exec", "-s", name, *words, stdin=subprocess.DEVNULL if given is None else subprocess.PIPE)
        out, err = process.communicate(given, timeout=120)
        own = [line for line in err.splitlines(True) if not line.startswith(b"limpet: warning: ")]
        return process.returncode, out, b"".join(own)

    return execute


def test_streams_and_exit_status(execute):
    assert execute("-c", "echo out; echo err >&2; exit 3") == (3, b"out\n", b"err\n")
    assert execute("--", "sh", "-c", "exit 255") == (255, b"", b"")
    assert execute("-c", "kill -SEGV $$")[0] == 128 + signal.SIGSEGV
    assert execute("-t", "0.3", "--", "sleep", "1000")[0] == 124
    status, out, err = execute("--", "no-such-program")
    assert (status, out) == (127, b"") and b"no-such-program" in err


def test_a_line_is_for_bash_and_arguments_are_not(execute):
    assert execute("-c", 'echo "$0" $((1 + 1))')[1] == b"bash 2\n"
    assert execute("--", "printf", "%s|", "a b", "$HOME", "*", "")[1] == b"a b|$HOME|*||"
    assert execute("--cwd", "artifacts", "-e", "A=1 2", "-c", 'basename "$PWD"; echo "$A"')[1] == b"artifacts\n1 2\n"


def test_standard_input(execute):
    assert execute("--", "cat", given=b"\0\xff text") == (0, b"\0\xff text", b"")
    assert execute("--", "wc", "-c", given=b"x" * (4 << 20))[1].strip() == b"%d" % (4 << 20)
    assert execute("--", "cat", given=b"") == execute("--", "cat") == (0, b"", b"")
    status, _, err = execute("--", "cat", given=b"x" * ((4 << 20) + 1))
    assert status == 125 and b"TooLarge" in err


def test_bytes_of_output_are_as_they_were_written(execute):
    data = bytes(range(256)) * 4096
    assert execute("--", "cat", given=data)[1] == data


def test_as_json(execute, name):
    status, out, err = execute("--json", "-c", "echo out; exit 2")
    record = json.loads(out)
    assert (status, record["exit_code"], record["stdout"], record["kind"]) == (2, 2, "out\n", "command")


@pytest.mark.parametrize("what", [["exec", "-s", "{}", "--", "yes"], ["run", "-s", "{}", "-c", "while True: print('y')"]])
def test_nobody_who_reads_ends_the_call(start, session, name, what):
    process = start(*(word.format(name) for word in what))
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    process.stderr.read()
    assert process.wait(60) == -signal.SIGPIPE
    assert session.interrupt() is False and session.processes() == []


def test_ctrl_c_ends_the_command(start, session, name):
    process = start("exec", "-s", name, "-c", "echo begun; exec sleep 1000")
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert session.exec("echo on").stdout == "on\n"
