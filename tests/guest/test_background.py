"""Processes in the background and ports, by a controller that asks for what ours never would, or that is lost."""

import os
import socket

import pytest

from tests.support.wire import CONNECT, ERROR, EXEC, EXECUTED, INTERRUPT, PROCESS, PROCESSES, REPLY, SETTLED

from .guest_harness import Controller, wait_for

LIMIT_FILE_CHUNK = 1 << 20
LIMIT_PROCESSES = 64
LIMIT_DIALS = 64


def run_id(number):
    return f"{number:032x}"


def begin(guest, number=7, **launch):
    """What comes of a start: the body of its reply, or (name, message) of the error."""
    body = {"branch": 0, "run_id": run_id(number), "code_hash": 5, "stream": False, "program": launch}
    return guest.controller.ask(EXEC, id=number, **body)


def send_ask(guest, number, process=7, **things):
    name = process if isinstance(process, (str, bytes)) else run_id(process)
    guest.controller.send(PROCESS, {"process": name, **things}, number)


def ask(guest, process=7, **things):
    send_ask(guest, 500, process, **things)
    return guest.controller.answer(500)


def listed(guest):
    return guest.controller.ask(PROCESSES)["processes"]


def text_of(guest, process=7, since=0):
    """All that it writes until it ends."""
    text = b""
    while True:
        said = ask(guest, process, output={"since": since})
        text += b"".join(piece["data"] for piece in said["pieces"])
        since = said["next"]
        if said["ended"]:
            return text


def record_of(guest, number=7):
    record = guest.controller.record(number)
    guest.controller.send(SETTLED, {}, number)
    return record


def begin_pipe_reader(guest, number=7):
    """A process that reads what it is sent once there is a file `go`; the pipe to it is then full."""
    os.mkfifo(guest.directory / "go")
    assert begin(guest, number, command="read line < go; wc -c") == {}


def let_go(guest, fifo="go"):
    (guest.directory / fifo).write_text("\n")


MUCH = b"x" * LIMIT_FILE_CHUNK  # more than a pipe holds


def lose_controller(guest):
    guest.controller.close()
    guest.controller = Controller(guest.link)
    return guest.controller.welcome()


def descriptors(guest):
    return len(os.listdir(f"/proc/{guest.process.pid}/fd"))


# ---- what is refused ----


@pytest.mark.parametrize(
    "launch, error",
    [
        ({}, "BadRequest"),
        ({"command": "true", "argv": ["true"]}, "BadRequest"),
        ({"argv": []}, "BadRequest"),
        ({"command": 1}, "BadRequest"),
        ({"command": "true", "name": ""}, "BadRequest"),
        ({"command": "true", "name": "42"}, "BadRequest"),
        ({"command": "true", "name": 42}, "BadRequest"),
        ({"command": "true", "name": "x" * 65}, "TooLarge"),
        ({"command": "true", "terminal": True}, "BadRequest"),
        ({"command": "true", "terminal": {"rows": 1}}, "BadRequest"),
        ({"command": "true", "terminal": {"rows": 65536, "columns": 1}}, "BadRequest"),
        ({"command": "true", "terminal": {"rows": -1, "columns": 1}}, "BadRequest"),
        ({"command": "true", "unknown": 1}, "BadRequest"),
        ({"command": "x" * (128 << 10)}, "TooLarge"),
    ],
)
def test_starts_that_are_refused(fake, launch, error):
    assert begin(fake, **launch)[0] == error
    assert listed(fake) == []
    assert begin(fake, command="echo fine") == {}
    assert record_of(fake)["stdout"] == "fine\n" and text_of(fake) == b"fine\n"


ASKS = {
    "nothing": ({}, "BadRequest"),
    "two things": ({"output": {}, "send": {"data": b"x"}}, "BadRequest"),
    "all things": (
        {"output": {}, "send": {}, "signal": {"number": 1}, "resize": {"rows": 1, "columns": 1}},
        "BadRequest",
    ),
    "something else": ({"close": {}}, "BadRequest"),
    "output, no map": ({"output": 1}, "BadRequest"),
    "since, a text": ({"output": {"since": "0"}}, "BadRequest"),
    "since, negative": ({"output": {"since": -1}}, "BadRequest"),
    "timeout, a text": ({"output": {"timeout": "1"}}, "BadRequest"),
    "data, a number": ({"send": {"data": 1}}, "BadRequest"),
    "data, too much": ({"send": {"data": b"x" * (LIMIT_FILE_CHUNK + 1)}}, "TooLarge"),
    "key, too long": ({"send": {"data": b"x", "key": "k" * 33}}, "TooLarge"),
    "end, a number": ({"send": {"end": 1}}, "BadRequest"),
    "signal 0": ({"signal": {"number": 0}}, "BadRequest"),
    "signal 65": ({"signal": {"number": 65}}, "BadRequest"),
    "signal, none": ({"signal": {}}, "BadRequest"),
    "signal, a text": ({"signal": {"number": "TERM"}}, "BadRequest"),
    "size, no terminal": ({"resize": {"rows": 1, "columns": 1}}, "BadRequest"),
    "size, too large": ({"resize": {"rows": 1, "columns": 65536}}, "BadRequest"),
    "size, half": ({"resize": {"rows": 1}}, "BadRequest"),
}


def test_questions_that_are_refused(fake):
    """And that change nothing: the process goes on, and has been sent nothing."""
    assert begin(fake, command="cat") == {}
    for case, (things, error) in ASKS.items():
        answer = ask(fake, **things)
        assert isinstance(answer, tuple) and answer[0] == error, (case, answer)
    assert ask(fake, send={"data": b"fine\n", "end": True}) == {}
    assert record_of(fake)["status"] == "ok" and text_of(fake) == b"fine\n"


@pytest.mark.parametrize("process", [run_id(8), "", "nobody", "1", "99999999999999999999"])
def test_a_process_that_is_not_there(fake, process):
    assert begin(fake, command="cat") == {}
    for thing in (
        {"output": {}},
        {"send": {"data": b"x"}},
        {"signal": {"number": 15}},
        {"resize": {"rows": 1, "columns": 1}},
    ):
        assert ask(fake, process, **thing)[0] == "NoSuchRun"
    assert [row["running"] for row in listed(fake)] == [True]


def test_names_that_are_no_text_or_too_long(fake):
    assert ask(fake, b"bytes", output={})[0] == "BadRequest"
    assert ask(fake, "x" * 65, output={})[0] == "TooLarge"


def test_what_only_exec_has(fake):
    """Its input and output are the business of whoever asked for it; a signal is not."""
    body = {"branch": 0, "run_id": run_id(9), "code_hash": 5, "timeout": 60.0, "stream": False}
    fake.controller.send(EXEC, {**body, "program": {"command": "cat; sleep 1000"}}, 9)
    wait_for(lambda: [row["kind"] for row in listed(fake)] == ["command"], "it does not run")
    assert ask(fake, 9, output={})[0] == "BadRequest"
    assert ask(fake, 9, send={"data": b"x"})[0] == "BadRequest"
    assert ask(fake, 9, resize={"rows": 1, "columns": 1})[0] == "BadRequest"
    fake.controller.send(PROCESS, {"process": run_id(9), "signal": {"number": 9}}, 500)
    assert fake.controller.answer(500) == {}
    assert record_of(fake, 9)["signal"] == 9


def test_no_more_than_so_many(fake):
    for number in range(1, LIMIT_PROCESSES + 1):
        assert begin(fake, number, argv=["sleep", "1000"]) == {}
    assert begin(fake, 100, command="true")[0] == "Busy"
    assert len(listed(fake)) == LIMIT_PROCESSES
    fake.controller.send(INTERRUPT, {}, 5)
    record_of(fake, 5)
    assert begin(fake, 100, command="true") == {}
    record_of(fake, 100)


def test_a_name_that_is_taken(fake):
    assert begin(fake, 7, command="cat", name="server") == {}
    assert begin(fake, 8, command="cat", name="server")[0] == "BadRequest"
    assert ask(fake, "server", send={"end": True}) == {}
    record_of(fake, 7)
    assert begin(fake, 8, command="echo second", name="server") == {}
    record_of(fake, 8)
    assert text_of(fake, "server") == b"second\n"


# ---- sending ----


def test_the_same_key_is_not_sent_twice(fake):
    assert begin(fake, command="cat") == {}
    for key, data in (("a", b"1"), ("a", b"1"), ("b", b"2"), ("b", b"2"), ("a", b"3")):
        assert ask(fake, send={"key": key, "data": data}) == {}
    for _ in range(2):
        assert ask(fake, send={"data": b"4"}) == {}  # without a key each is a message of its own
    assert ask(fake, send={"key": "c", "end": True}) == {}
    assert record_of(fake)["stdout"] == "12344"


def test_the_same_key_while_it_waits(fake):
    """Who asked first is told too, and its bytes are there once."""
    begin_pipe_reader(fake)
    send_ask(fake, 501, send={"key": "a", "data": MUCH, "end": True})
    send_ask(fake, 502, send={"key": "a", "data": MUCH, "end": True})
    kind, number, body = fake.controller.receive()
    assert (kind, number, body["name"]) == (ERROR, 501, "Busy")
    assert ask(fake, send={"key": "b", "data": b"x"})[0] == "Busy"
    let_go(fake)
    assert fake.controller.answer(502) == {}
    assert int(record_of(fake)["stdout"]) == len(MUCH)


def test_input_that_is_not_taken(fake):
    """It is no success, also not where its end was sent, or where it is asked again."""
    for fifo in ("go", "end"):
        os.mkfifo(fake.directory / fifo)
    assert begin(fake, command="read line < go; exec <&-; read line < end") == {}
    sending = {"key": "a", "data": MUCH, "end": True}
    send_ask(fake, 501, send=sending)
    assert ask(fake, send={"data": b"x"})[0] == "Busy"
    let_go(fake)
    assert fake.controller.answer(501)[0] == "BadRequest"
    assert ask(fake, send=sending)[0] == "BadRequest"
    let_go(fake, "end")
    assert record_of(fake)["status"] == "ok"


def test_input_that_is_not_taken_while_nobody_asks(fake):
    for fifo in ("go", "end"):
        os.mkfifo(fake.directory / fifo)
    assert begin(fake, command="read line < go; exec <&-; echo closed; read line < end") == {}
    send_ask(fake, 501, send={"key": "a", "data": MUCH})
    assert listed(fake)
    lose_controller(fake)
    assert fake.controller.receive()[:2] == (REPLY, 7)
    let_go(fake)
    assert ask(fake, output={})["pieces"] == [{"stream": 1, "data": b"closed\n"}]
    assert ask(fake, send={"key": "a", "data": MUCH})[0] == "BadRequest"
    let_go(fake, "end")
    record_of(fake)


def test_nothing_can_be_sent_to_what_has_ended(fake):
    assert begin(fake, command="true") == {}
    record_of(fake)
    assert ask(fake, send={"data": b"x"})[0] == "NoSuchRun"
    assert ask(fake, signal={"number": 15})[0] == "NoSuchRun"
    assert text_of(fake) == b""


# ---- ports ----


def test_ports_that_are_none(fake):
    for port in (0, -1, 65536, "80", None, 1.5):
        assert fake.controller.ask(CONNECT, port=port)[0] == "BadRequest"
    assert fake.controller.ask(CONNECT)[0] == "BadRequest"
    with socket.socket() as bound:  # nobody listens there
        bound.bind(("127.0.0.1", 0))
        assert fake.controller.ask(CONNECT, port=bound.getsockname()[1])[0] == "NotListening"


class FullServer:
    """A port whose queue is full: who connects to it is not answered."""

    def __enter__(self):
        self.server = socket.socket()
        self.server.bind(("127.0.0.1", 0))
        self.server.listen(0)
        self.port = self.server.getsockname()[1]
        self.clients = []
        for _ in range(2):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", self.port))
            self.clients.append(client)
        return self

    def __exit__(self, *_):
        for each in (*self.clients, self.server):
            each.close()


def test_no_more_connections_than_so_many_are_being_made(fake):
    fake.controller.run("pass")
    fake.controller.send(SETTLED, {}, 1)
    before = descriptors(fake)
    with FullServer() as server:
        for number in range(1, LIMIT_DIALS + 1):
            fake.controller.send(CONNECT, {"port": server.port}, number)
        assert fake.controller.ask(CONNECT, port=server.port)[0] == "Busy"
        lose_controller(fake)
        assert descriptors(fake) == before
        fake.controller.send(CONNECT, {"port": server.port}, 900)
        assert listed(fake) == []  # it waits as the others did: there is room again
        lose_controller(fake)
    assert descriptors(fake) == before


# ---- a controller that is lost ----


def test_who_is_named_in_the_hello(fake):
    assert begin(fake, 7, command="cat", name="server") == {}
    body = {"branch": 0, "run_id": run_id(9), "code_hash": 6, "timeout": 60.0, "stream": False}
    fake.controller.send(EXEC, {**body, "program": {"command": "sleep 1000"}}, 9)
    wait_for(lambda: len(listed(fake)) == 2, "it does not run")
    hello = lose_controller(fake)
    assert [
        (each["id"], each["run_id"], each["code_hash"], each.get("background")) for each in hello["commands"]
    ] == [(7, run_id(7), 5, True), (9, run_id(9), 6, None)]
    assert fake.controller.receive()[:2] == (REPLY, 7)  # that it was started is told again
    assert {row["run_id"]: row["kind"] for row in listed(fake)} == {
        run_id(7): "process",
        run_id(9): "command",
    }


def test_what_waits_is_forgotten_with_its_controller(fake):
    fake.controller.run("pass")
    fake.controller.send(SETTLED, {}, 1)
    begin_pipe_reader(fake)
    assert begin(fake, 8, command="cat") == {}
    before = descriptors(fake)
    with FullServer() as server:
        for number in range(501, 521):
            send_ask(fake, number, process=7, output={})
        send_ask(fake, 600, process=7, send={"key": "a", "data": MUCH})
        fake.controller.send(CONNECT, {"port": server.port}, 601)
        assert len(listed(fake)) == 2  # all of it has been read
        lose_controller(fake)
    for number in (7, 8):
        assert fake.controller.receive()[:2] == (REPLY, number)
    assert descriptors(fake) == before
    assert ask(fake, 7, send={"data": b"y"})[0] == "Busy"
    # What comes now answers those who ask now, and nobody else.
    send_ask(fake, 701, process=7, send={"key": "a", "data": MUCH})
    let_go(fake)
    assert fake.controller.answer(701) == {}
    assert ask(fake, 7, send={"end": True}) == {}
    assert int(record_of(fake)["stdout"]) == len(MUCH)
    assert int(text_of(fake)) == len(MUCH)
    assert ask(fake, 8, send={"end": True}) == {}
    record_of(fake, 8)
    assert listed(fake) and fake.controller.quiet()


def test_an_end_without_a_controller_is_told_once(fake):
    os.mkfifo(fake.directory / "go")
    assert begin(fake, command="echo first; read line < go; echo second") == {}
    fake.controller.close()
    let_go(fake)
    wait_for(lambda: len(fake.descendants()) == 1, "it does not end")
    fake.controller = Controller(fake.link)
    assert [each.get("background") for each in fake.controller.welcome()["commands"]] == [True]
    kinds = [fake.controller.receive()[:2] for _ in range(2)]
    assert kinds == [(REPLY, 7), (EXECUTED, 7)]
    fake.controller.send(SETTLED, {}, 7)
    assert text_of(fake) == b"first\nsecond\n"
    assert text_of(fake, since=6) == b"second\n"
    assert lose_controller(fake).get("commands") in (None, [])
    assert text_of(fake) == b"first\nsecond\n" and fake.controller.quiet()
