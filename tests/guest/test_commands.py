"""Commands: programs that the supervisor runs beside the cells."""

import os
import signal
import time

import pytest

from tests.support.wire import CREDIT, ERROR, EXEC, EXECUTED, INTERRUPT, OUTPUT, SETTLED

from .guest_harness import FAKE, Controller, as_process_1, needs_root, wait_for

MIB = 1 << 20


def run_id(number):
    return f"{number:032x}"


def start(guest, number=7, timeout=15.0, stream=False, **program):
    body = {
        "branch": 0, "run_id": run_id(number), "code_hash": 5, "timeout": timeout, "stream": stream, "program": program,
    }  # fmt: skip
    guest.controller.send(EXEC, body, number)


def execute(guest, number=7, **options):
    start(guest, number, **options)
    record = guest.controller.record(number)
    guest.controller.send(SETTLED, {}, number)
    return record


def ending(record):
    return record["status"], record["exit_code"], record["signal"], (record["error"] or {}).get("name")


def refusal(guest, number=7, **program):
    start(guest, number, **program)
    kind, answered, body = guest.controller.receive()
    assert (kind, answered) == (ERROR, number)
    return body["name"], body["message"]


def test_a_line_and_a_list(fake):
    record = execute(fake, command="echo out; echo err >&2; exit 3")
    assert (record["stdout"], record["stderr"]) == ("out\n", "err\n")
    assert ending(record) == ("error", 3, None, "ExitStatus")
    assert (record["run_id"], record["code_hash"], record["state"]) == (run_id(7), 5, "kept")
    assert ending(execute(fake, argv=["true"])) == ("ok", 0, None, None)
    assert execute(fake, argv=["printf", "%s|", "a b", "$HOME", ""])["stdout"] == "a b|$HOME||"


def test_no_signal_is_blocked_or_ignored(make_guest):
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # which whoever is started from here inherits
    try:
        guest = make_guest(FAKE)
    finally:
        signal.signal(signal.SIGUSR1, before)
    guest.controller.welcome()
    lines = execute(guest, argv=["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"])["stdout"].splitlines()
    assert [int(line.split()[1], 16) for line in lines] == [0, 0]


def test_where_and_with_what(fake):
    (fake.directory / "below").mkdir()
    assert execute(fake, command="pwd")["stdout"] == f"{fake.directory}\n"
    for name in ("below", "/session/below", str(fake.directory / "below")):
        assert execute(fake, command="pwd", cwd=name)["stdout"] == f"{fake.directory}/below\n"
    assert execute(fake, command="cat")["stdout"] == ""
    assert execute(fake, command="wc -c", stdin=b"x" * (3 * MIB))["stdout"] == f"{3 * MIB}\n"
    assert ending(execute(fake, command="true", stdin=b"x" * (3 * MIB))) == ("ok", 0, None, None)
    record = execute(fake, command="echo $HOME $A $LEAKED; ls -l /proc/self/fd | wc -l", env={"A": "1"})
    assert record["stdout"] == f"{fake.directory} 1\n5\n"  # a total, three descriptors, that of ls


def test_bytes_that_are_no_text(fake):
    name = b"\xff\xfe name"
    assert ending(execute(fake, argv=["touch", name])) == ("ok", 0, None, None)
    assert name in os.listdir(os.fsencode(fake.directory))
    assert execute(fake, command="printf '\\xff\\xc3'")["stdout"] == "\ufffd\ufffd"


@pytest.mark.parametrize(
    "program, ends",
    [
        ({"argv": ["no-such-program"]}, ("error", 127, None, "ExitStatus")),
        ({"argv": ["/etc/passwd"]}, ("error", 126, None, "ExitStatus")),
        ({"command": "true", "cwd": "/nowhere"}, ("error", 126, None, "ExitStatus")),
        ({"command": "kill -SEGV $$"}, ("crashed", None, 11, "Crashed")),
        ({"command": "kill -9 $$"}, ("crashed", None, 9, "Crashed")),
    ],
)
def test_endings(fake, program, ends):
    assert ending(execute(fake, **program)) == ends


@pytest.mark.parametrize(
    "program, error",
    [
        ({}, "BadRequest"),
        ({"command": "x", "argv": ["x"]}, "BadRequest"),
        ({"argv": []}, "BadRequest"),
        ({"argv": [1]}, "BadRequest"),
        ({"argv": ["a\0b"]}, "BadRequest"),
        ({"command": "a\0b"}, "BadRequest"),
        ({"command": "true", "cwd": "a\0b"}, "BadRequest"),
        ({"command": "true", "env": {"A=B": "1"}}, "BadRequest"),
        ({"command": "true", "env": {"A": 1}}, "BadRequest"),
        ({"command": "true", "unknown": 1}, "BadRequest"),
        ({"command": "x" * (128 << 10)}, "TooLarge"),
        ({"argv": ["x"] * 4097}, "TooLarge"),
        ({"argv": ["x" * (128 << 10)]}, "TooLarge"),
        ({"argv": ["x" * 1000] * 1100}, "TooLarge"),
        ({"command": "true", "env": {f"A{i}": "" for i in range(129)}}, "TooLarge"),
    ],
)
def test_what_is_refused(fake, program, error):
    assert refusal(fake, **program)[0] == error
    assert execute(fake, command="echo fine")["stdout"] == "fine\n"


def test_a_deadline(fake):
    record = execute(fake, command="echo begun; sleep 1000", timeout=2.0)
    assert ending(record) == ("timeout", None, signal.SIGTERM, "Timeout") and record["stdout"] == "begun\n"
    record = execute(fake, command="trap 'echo asked; exit 5' TERM; sleep 1000 & wait", timeout=2.0)
    assert ending(record) == ("timeout", 5, None, "Timeout") and record["stdout"] == "asked\n"
    stubborn = "trap '' TERM INT; while :; do sleep 0.05; done"
    record = execute(fake, command=stubborn, timeout=2.0)
    assert ending(record) == ("timeout", None, signal.SIGKILL, "TimeoutKilled")
    assert record["duration"] >= 4
    record = execute(fake, command="kill -STOP $$", timeout=0.2)
    assert ending(record) == ("timeout", None, signal.SIGTERM, "Timeout")


def test_what_is_left_of_its_group_at_a_deadline_is_killed(fake):
    fake.controller.run("pass")
    before = set(fake.descendants())
    execute(fake, command="(trap '' TERM; sleep 1000) & sleep 1000", timeout=0.3)
    wait_for(lambda: set(fake.descendants()) <= before, "a process of the group is left")


def test_an_interrupt(fake):
    start(fake, command="echo begun; sleep 1000", stream=True)
    assert fake.controller.receive()[0] == OUTPUT
    fake.controller.send(INTERRUPT, {}, 7)
    assert ending(fake.controller.record(7)) == ("interrupted", None, signal.SIGINT, "Interrupted")
    fake.controller.send(INTERRUPT, {}, 7)  # it has ended: nothing happens
    assert fake.controller.run("print('alive')")["stdout"] == "alive\n"


def test_it_runs_beside_cells_and_others(guest):
    os.mkfifo(guest.directory / "go")
    start(guest, 8, command="read line < go; echo gone", timeout=30.0)
    assert guest.controller.run("print('cell')")["stdout"] == "cell\n"
    assert execute(guest, 9, command="echo other")["stdout"] == "other\n"
    guest.controller.start("import time; time.sleep(1000)", id=3)
    assert execute(guest, 10, command="echo beside")["stdout"] == "beside\n"
    guest.controller.send(INTERRUPT, {}, 3)
    assert guest.controller.record(3)["status"] == "interrupted"
    (guest.directory / "go").write_text("\n")
    assert guest.controller.record(8)["stdout"] == "gone\n"


def test_one_does_not_wait_for_what_it_left_running(fake):
    os.mkfifo(fake.directory / "go")
    record = execute(fake, command="(read line < go; echo late; touch ended) & echo left")
    assert record["stdout"] == "left\n"
    (fake.directory / "go").write_text("\n")
    wait_for((fake.directory / "ended").exists, "what it left was ended")  # and not by SIGPIPE


def test_much_output_is_counted_and_spilled(fake):
    record = execute(fake, command="head -c 3000000 /dev/zero | tr '\\0' x; echo y >&2")
    assert (len(record["stdout"]), record["stdout_bytes"], record["truncated"]) == (MIB, 3000000, True)
    spilled = fake.directory / ".limpet" / os.path.basename(record["stdout_file"])
    assert spilled.read_bytes() == b"x" * 3000000
    assert (record["stderr"], record["stderr_file"]) == ("y\n", None)


def test_output_as_it_comes_waits_for_credit(fake):
    start(fake, command="yes | head -c 40000000", stream=True, timeout=60.0)
    pieces = [fake.controller.receive() for _ in range(50)]
    assert {kind for kind, _, _ in pieces} == {OUTPUT}
    time.sleep(0.3)  # the pipe fills; what is under way is bounded
    while not fake.controller.quiet():
        pieces.append(fake.controller.receive())
    assert len(pieces) <= 64
    fake.controller.send(CREDIT, {"count": len(pieces)}, 7)
    record = fake.controller.record(7)
    said = sum(len(body["data"]) for _, _, body in pieces) + sum(len(body["data"]) for _, body in fake.controller.events)
    assert (record["stdout_bytes"], said) == (40000000, 40000000)


def test_64_at_once(fake):
    for number in range(100, 164):
        start(fake, number, command="sleep 1000", timeout=1000.0)
    name, message = refusal(fake, command="true")
    assert name == "Busy" and "64" in message
    for number in range(100, 164):
        fake.controller.send(INTERRUPT, {}, number)
    for _ in range(64):
        kind, number, body = fake.controller.receive()
        assert (kind, body["status"]) == (EXECUTED, "interrupted")
        fake.controller.send(SETTLED, {}, number)
    assert execute(fake, command="echo again")["stdout"] == "again\n"


def test_another_controller_is_told(fake):
    os.mkfifo(fake.directory / "go")
    start(fake, 8, command="echo first; read line < go; echo second", timeout=60.0, stream=True)
    assert fake.controller.receive()[0] == OUTPUT
    start(fake, 9, command="echo done")
    assert fake.controller.record(9)["stdout"] == "done\n"  # the controller dies before it has stored that
    fake.controller.close()
    fake.controller = Controller(fake.link)
    hello = fake.controller.welcome()
    assert {each["run_id"] for each in hello["commands"]} == {run_id(8), run_id(9)}
    assert fake.controller.record(9)["stdout"] == "done\n"
    fake.controller.send(SETTLED, {}, 9)
    (fake.directory / "go").write_text("\n")
    assert fake.controller.record(8)["stdout"] == "first\nsecond\n"


def test_a_cell_that_is_settled_is_told_of_no_more(guest):
    guest.controller.start("41", id=3)
    assert guest.controller.record(3)["status"] == "ok"
    for settled in (2, 3):  # that of another call changes nothing
        guest.controller.close()
        guest.controller = Controller(guest.link)
        guest.controller.welcome()
        assert guest.controller.record(3)["status"] == "ok"
        guest.controller.send(SETTLED, {}, settled)
    assert execute(guest, 4, command="echo after")["stdout"] == "after\n"  # now it has been read
    guest.controller.close()
    guest.controller = Controller(guest.link)
    guest.controller.welcome()
    assert execute(guest, 5, command="echo on")["stdout"] == "on\n"  # and nothing came before that


def test_a_lost_interpreter_leaves_commands_alone(guest):
    os.mkfifo(guest.directory / "go")
    start(guest, 8, command="sleep 0.1; echo lived; read line < go", timeout=60.0, stream=True)
    guest.controller.start("import os; os._exit(3)", id=3)
    record, lived = None, False
    while not (record and lived):
        kind, number, body = guest.controller.receive()
        if (kind, number) == (EXECUTED, 3):
            record = body
        lived |= (kind, number) == (OUTPUT, 8)
    assert record["status"] == "exited"
    (guest.directory / "go").write_text("\n")
    assert ending(guest.controller.record(8)) == ("ok", 0, None, None)


@needs_root
@pytest.mark.parametrize("user", ["root", "ambient"])
def test_as_process_1(make_guest, root, user):
    """No powers, a mark that stays, and daemons that live on when the interpreter's processes are ended."""
    guest = make_guest(FAKE, "--uid", "47113", prefix=as_process_1(root, user))
    os.chown(guest.directory, 47113, 47113)
    guest.controller.welcome()
    status = execute(guest, command="grep -E '^(Uid|Gid|Groups|CapEff|CapPrm|CapAmb|NoNewPrivs)' /proc/self/status")["stdout"]
    fields = {line.split(":")[0]: line.split(":")[1].split() for line in status.splitlines()}
    assert set(fields["Uid"] + fields["Gid"]) == {"47113"} and fields["Groups"] == ["47113"]
    assert {int(fields[name][0], 16) for name in ("CapEff", "CapPrm", "CapAmb")} == {0} and fields["NoNewPrivs"] == ["1"]
    execute(guest, command="setsid -f sleep 4711")
    guest.controller.run("import os; os._exit(3)")
    assert execute(guest, command="ps -eo args | grep -c '[s]leep 4711'")["stdout"] == "1\n"
