"""The browser: a program beside the interpreters, which is started when somebody asks for it at a socket."""

import contextlib
import os
import pathlib
import signal
import socket
import threading

import pytest

from .guest_harness import FAKE, OTHER_UID, PATIENCE, REAL, as_process_1, needs_real, needs_root, wait_for

READY = "echo 'DevTools listening on ws://127.0.0.1:1/x' >&2; exec sleep 1000"


@pytest.fixture
def make_browser(root):
    """Writes a program that is the browser; gives the arguments that name it."""

    def make(script):
        path = root / "limpet-browser"
        path.write_text(f"#!/bin/sh\necho $$ >>{root}/pids\n{script}\n")
        path.chmod(0o755)
        (root / "pids").touch()
        (root / "pids").chmod(0o666)
        return "--browser", str(path)

    return make


def connect(root):
    asker = socket.socket(socket.AF_UNIX)
    asker.settimeout(PATIENCE)
    wait_for((root / "browser").exists, "the socket is not there")
    asker.connect(str(root / "browser"))
    return asker


def ask(root):
    with connect(root) as asker, asker.makefile("rb") as answer:
        return answer.read().decode()


def pids(root):
    return [int(line) for line in (root / "pids").read_text().split()]


def is_alive(pid):
    with contextlib.suppress(OSError):
        return " Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    return False


def test_it_starts_once_for_all_who_ask(root, make_guest, make_browser):
    make_guest(FAKE, "--same-user", *make_browser(f"sleep 0.2; {READY}")).controller.welcome()
    answers = []
    askers = [threading.Thread(target=lambda: answers.append(ask(root))) for _ in range(50)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(PATIENCE)
    assert answers == ["at ws://127.0.0.1:1/x\n"] * 50
    assert len(pids(root)) == 1


def test_without_anyone_who_asks_it_does_not_start(root, make_guest, make_browser):
    guest = make_guest(FAKE, "--same-user", *make_browser(READY))
    guest.controller.welcome()
    guest.controller.run("print('alive')")
    assert pids(root) == []


def test_one_that_has_ended_is_started_again(root, make_guest, make_browser):
    make_guest(FAKE, "--same-user", *make_browser(READY)).controller.welcome()
    assert ask(root) == ask(root)
    [first] = pids(root)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: ask(root).startswith("at ") and len(pids(root)) == 2, "it was not started again")


@pytest.mark.parametrize(
    "script, why",
    [
        ("echo no such thing >&2; exit 3", "it ended with exit code 3: no such thing"),
        ("echo half a line; printf and-a-half; exit 0", "it ended with exit code 0: and-a-half"),
        ("kill -ABRT $$", "it was ended by signal 6: it said nothing"),
    ],
)
def test_why_it_does_not_start(root, make_guest, make_browser, script, why):
    make_guest(FAKE, "--same-user", *make_browser(script)).controller.welcome()
    assert ask(root) == f"failed {why}\n"
    assert ask(root) == f"failed {why}\n"
    assert len(pids(root)) == 2


def test_there_is_no_such_program(root, make_guest):
    make_guest(FAKE, "--same-user", "--browser", "/nonexistent").controller.welcome()
    assert "No such file" in ask(root)


def test_what_it_says_is_only_text(root, make_guest, make_browser):
    script = "head -c 100000 /dev/zero >&2; printf '\\n\\377\\033[31m\\n' >&2; printf 'DevTools listening on ws://\\001\\377x\\n' >&2; exec cat /dev/zero"
    make_guest(FAKE, "--same-user", *make_browser(script)).controller.welcome()
    assert ask(root) == "at ws://??x\n"
    assert ask(root) == "at ws://??x\n"


def test_whoever_goes_away_is_not_waited_for(root, make_guest, make_browser):
    make_guest(FAKE, "--same-user", *make_browser(f"read x <{root}/fifo; {READY}")).controller.welcome()
    os.mkfifo(root / "fifo")
    for _ in range(10):
        connect(root).close()
    wait_for(lambda: pids(root), "it was not started")
    (root / "fifo").write_text("go\n")
    assert ask(root) == "at ws://127.0.0.1:1/x\n"


@needs_real
def test_what_ends_an_interpreter_leaves_it_alone(root, make_guest, make_browser):
    guest = make_guest(REAL, "--same-user", *make_browser(READY))
    guest.controller.welcome(checkpoint="always")
    guest.controller.run("x = 41")
    ask(root)
    record = guest.controller.run("import os; os._exit(3)", id=2)
    assert record["state"] == "rolled_back"
    assert record["not_restored"] == ["the browser: its pages are left as they are"]
    assert guest.controller.run("print(x + 1)", id=3)["stdout"] == "42\n"
    ask(root)
    assert len(pids(root)) == 1


@needs_root
@needs_real
def test_it_has_a_user_of_its_own(root, make_guest, make_browser):
    browser = make_browser(f"id -u >{root}/pids; id -g >>{root}/pids; id -G >>{root}/pids; {READY}")
    guest = make_guest(
        REAL, "--uid", OTHER_UID, "--browser-uid", "47113", *browser, prefix=as_process_1(root, "root")
    )
    guest.controller.welcome()
    assert ask(root) == "at ws://127.0.0.1:1/x\n"
    assert (root / "pids").read_text().split() == ["47113", OTHER_UID, OTHER_UID]
    code = "import os, signal\ntry: os.kill(-1, signal.SIGKILL)\nexcept OSError as e: print(e)"
    guest.controller.run(code)
    assert [pid for pid in guest.descendants() if os.stat(f"/proc/{pid}").st_uid == 47113]
