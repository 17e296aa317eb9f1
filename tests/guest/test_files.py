"""The files process, asked without a controller: what it is, and what becomes of it."""

import os
import pathlib
import signal

import pytest

from tests.support.wire import ERROR, FILE_FAILED, FILES, REPLY

from .guest_harness import FAKE, OTHER_UID, needs_root, wait_for

EACCES, EINVAL, EIO, ENOENT = 13, 22, 5, 2


@pytest.fixture
def guest(keep):
    return keep(FAKE, "off")


@pytest.fixture
def ask(guest):
    """Asks, and gives what came: the body of a reply, or the errno of a failure."""
    numbers = iter(range(1000, 2000))

    def ask(what, **fields):
        number = next(numbers)
        guest.controller.send(FILES, {what: fields}, number)
        kind, answered, body = guest.controller.receive()
        assert answered == number and kind in (REPLY, FILE_FAILED), (kind, body)
        return body if kind == REPLY else body["error"]

    return ask


def processes(guest):
    """Of those below the guest, the ones for files."""
    return [pid for pid in guest.children() if b"files" in command(pid)]


def command(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def test_it_is_started_when_it_is_needed(guest, ask):
    assert processes(guest) == []
    assert ask("stat", path=b"none") == ENOENT
    assert len(processes(guest)) == 1
    ask("stat", path=b".")
    assert len(processes(guest)) == 1


def test_a_killed_one_fails_what_was_asked_and_is_replaced(guest, ask):
    ask("mkdir", path=b"w")
    watch = ask("watch", path=b"w")["watch"]
    (first,) = processes(guest)
    guest.controller.send(FILES, {"events": {"watch": watch}}, 7)
    ask("stat", path=b".")  # and so it has been asked before that
    os.kill(first, signal.SIGKILL)
    assert guest.controller.receive() == (FILE_FAILED, 7, {"error": EIO})
    assert ask("stat", path=b"w")["entry"]["type"] == "directory"
    (second,) = processes(guest)
    assert second != first


def test_it_survives_the_end_of_an_interpreter(guest, ask):
    ask("stat", path=b".")
    before = processes(guest)
    assert guest.controller.run("os._exit(1)")["status"] == "exited"
    assert processes(guest) == before


def test_too_much_at_once_is_refused(guest, ask):
    ask("mkdir", path=b"w")
    watches = [ask("watch", path=b"w")["watch"] for _ in range(16)]
    for number, watch in enumerate(watches, 1):
        guest.controller.send(FILES, {"events": {"watch": watch}}, number)
    guest.controller.send(FILES, {"events": {"watch": watches[0]}}, 99)
    kind, answered, body = guest.controller.receive()
    assert (kind, answered, body["name"]) == (ERROR, 99, "Busy")
    guest.controller.send(FILES, {"unwatch": {"watch": watches[3]}}, 100)
    assert {guest.controller.receive()[:2] for _ in range(2)} == {(FILE_FAILED, 4), (REPLY, 100)}


@pytest.mark.parametrize("ask_for", [{}, {"stat": {"path": b"a"}, "list": {"path": b"a"}}, {"stat": {}}, {"chmod": {}}])
def test_what_makes_no_sense_is_refused(guest, ask, ask_for):
    guest.controller.send(FILES, ask_for, 3)
    kind, answered, body = guest.controller.receive()
    assert (kind, answered, body["name"]) == (ERROR, 3, "BadRequest")
    assert ask("stat", path=b".")["entry"]["type"] == "directory"


def test_an_upload_that_is_broken_off_leaves_nothing(guest, ask):
    ask("write", path=b"f", data=b"old", last=True)
    upload = ask("write", path=b"f", data=b"x" * 1000)["upload"]
    assert ask("write", upload=upload, offset=1000, data=b"y")["size"] == 1001
    [first] = processes(guest)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{first}"), "its end was not seen")
    assert ask("read", path=b"f")["data"] == b"old"
    assert ask("write", upload=upload, offset=1001, data=b"z", last=True) != 0
    assert [entry["path"] for entry in ask("list", path=b".")["entries"]] in (
        [b"/session/f", b"/session/.limpet"], [b"/session/.limpet", b"/session/f"])  # fmt: skip


@needs_root
def test_it_has_the_rights_of_the_code_and_no_more(make_guest):
    guest = make_guest(FAKE, "--uid", OTHER_UID)
    guest.controller.welcome()
    guest.controller.send(FILES, {"stat": {"path": b"/root/.bashrc"}}, 1)
    assert guest.controller.receive()[2]["error"] == EACCES
    (pid,) = processes(guest)
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    assert set(status["Uid"].split() + status["Gid"].split()) == {OTHER_UID} and not status["Groups"].strip()
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert b"LEAKED" not in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    opened = {int(fd.name): os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    assert {opened.pop(fd) for fd in (0, 1, 2)} == {"/dev/null"}
    assert opened.pop(3).startswith("socket:") and all(kind.startswith("anon_inode:") for kind in opened.values())


def test_when_it_was_modified(ask):
    entry = {"path": b"a", "type": "file", "data": b"1", "modified": 1_000_000_000.25}
    assert ask("store", path=b".", entries=[entry]) == {}
    assert ask("stat", path=b"a")["entry"]["modified"] == 1_000_000_000.25
    upload = ask("write", path=b"b", data=b"1", modified=7.0)["upload"]
    assert ask("write", upload=upload, offset=1, data=b"2", last=True) == {"size": 2}
    assert ask("stat", path=b"b")["entry"]["modified"] == 7
    assert ask("write", path=b"c", data=b"", last=True, modified=1e300) == EINVAL
    assert ask("store", path=b".", entries=[{**entry, "path": b"c", "modified": 1e300}]) == EINVAL
    assert ask("stat", path=b"c") == ENOENT
