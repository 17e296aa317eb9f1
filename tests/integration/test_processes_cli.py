"""`limpet start`, `ps`, `attach`, `kill` and `shell`, on a real controller and in a real terminal."""

import fcntl
import json
import os
import signal
import struct
import subprocess
import termios

import pytest

from tests.cli.terminal import COLUMNS, ROWS, Terminal

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")


@pytest.fixture
def environment(limpetd):
    return os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0", "TERM": "vt220"}


@pytest.fixture
def limpet(environment):
    def limpet(*words, given=b""):
        """Exit status and both streams, without the warning that an engine does not isolate."""
        done = subprocess.run([LIMPET, *words], input=given, capture_output=True, env=environment, timeout=120)
        own = [line for line in done.stderr.splitlines(True) if not line.startswith(b"limpet: warning: ")]
        return done.returncode, done.stdout.decode(), b"".join(own).decode()

    return limpet


@pytest.fixture
def terminal(environment, tmp_path):
    opened = []

    def terminal(*words):
        opened.append(Terminal([LIMPET, *words], environment, tmp_path))
        return opened[-1]

    yield terminal
    for each in opened:
        each.close()


def rows(limpet, name):
    return json.loads(limpet("ps", "--json", name)[1])["processes"]


def test_from_start_to_end(limpet, session, name):
    status, id, err = limpet("start", "-s", name, "-n", "web", "-c", "while read x; do echo got $x; done; echo e >&2; exit 3")
    assert (status, err, len(id)) == (0, "", 33)
    [row] = rows(limpet, name)
    assert (row["run_id"], row["name"], row["running"], row["kind"]) == (id.strip(), "web", True, "process")
    assert limpet("attach", "-i", name, "web", given=b"one\ntwo\n") == (3, "got one\ngot two\n", "e\n")
    assert limpet("attach", name, id[:6]) == (3, "got one\ngot two\n", "e\n")  # what is kept, once more
    head, line = limpet("ps", name)[1].splitlines()
    assert head.split() == ["ID", "NAME", "KIND", "PID", "STATUS", "AGE", "COMMAND"]
    assert line.split()[:3] == [id[:8], "web", "process"] and " exit 3 " in line


def test_input_stays_open_unless_it_is_sent(limpet, session, name):
    limpet("start", "-s", name, "-n", "reader", "-c", "read x; echo got $x")
    session.process("reader").send("all\n")
    assert limpet("attach", name, "reader") == (0, "got all\n", "")


def test_signals(limpet, session, name):
    limpet("start", "-s", name, "-n", "sleeper", "--", "sleep", "1000")
    assert limpet("kill", "-s", "sigkill", name, "sleeper")[0] == 0
    assert limpet("attach", name, "sleeper")[0] == 128 + signal.SIGKILL
    status, _, err = limpet("kill", name, "sleeper")
    assert status == 125 and "NoSuchRun" in err
    assert limpet("kill", name, "nobody")[0] == 2
    assert limpet("kill", "-s", "NONSENSE", name, "sleeper")[0] == 2


def test_what_was_left_behind(limpet, session, name):
    limpet("exec", "-s", name, "-c", "sleep 1000 &")
    [orphan] = rows(limpet, name)
    assert (orphan["kind"], orphan.get("run_id")) == ("orphan", None)
    assert limpet("kill", "-s", "9", name, str(orphan["pid"]))[0] == 0


def test_commands_that_say_too_little(limpet, session, name):
    assert limpet("start", "-c", "true")[0] == 2
    assert limpet("start", "-s", name)[0] == 2
    status, _, err = limpet("shell", name)
    assert status == 2 and "terminal" in err


def test_shell(terminal, session, name, limpet):
    shell = terminal("shell", name)
    shell.expect(r"[$#] ")
    shell.enter("stty size; echo $TERM")
    shell.expect(rf"{ROWS} {COLUMNS}\s+vt220")
    shell.expect(r"[$#] ")  # on the way there bash writes the size that it has read
    fcntl.ioctl(shell.master, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 101, 0, 0))
    shell.enter("until [[ $(stty size) = '31 101' ]]; do :; done; echo res''ized")
    shell.expect("resized")
    shell.enter("sh -c 'echo rea''dy; exec sleep 1000'")
    shell.expect("ready")
    shell.type("\x03")
    shell.expect(r"[$#] ")
    shell.enter("echo sta''tus $?")
    shell.expect("status 130")
    shell.enter("exit 7")
    assert shell.ends() == 7
    assert rows(limpet, name)[0]["exit_code"] == 7


def test_a_shell_that_is_left_goes_on(terminal, session, name, limpet):
    shell = terminal("shell", name, "--", "bash", "--norc")
    shell.expect(r"[$#] ")
    shell.enter("here=5")
    shell.expect(r"[$#] $")
    shell.type("\x1d")
    assert shell.ends() == 0
    [row] = rows(limpet, name)
    again = terminal("attach", name, row["run_id"][:8])
    again.enter("echo $((here * here))")
    again.expect("25")
    again.expect(r"[$#] ")  # before that the terminal is not yet the shell's again
    again.type("\x04")
    assert again.ends() == 0


def test_a_shell_ends_with_its_terminal(terminal, session, name, limpet):
    shell = terminal("shell", name)
    shell.expect(r"[$#] ")
    shell.process.send_signal(signal.SIGHUP)
    assert shell.ends() == 130
    [row] = rows(limpet, name)
    assert session.process(row["run_id"]).wait(60).signal == signal.SIGHUP


def test_the_terminal_is_as_it_was(terminal, session, name):
    shell = terminal("shell", name)
    shell.listens()
    shell.expect(r"[$#] ")
    shell.enter("exit")
    assert shell.ends() == 0
    assert termios.tcgetattr(shell.master)[3] & (termios.ICANON | termios.ECHO) == termios.ICANON | termios.ECHO
