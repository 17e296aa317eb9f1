"""Questions of a cell to the client: how they get to the controller and back, and what is refused on the way."""

import msgpack
import pytest

from tests.support.wire import ANSWER, CREDIT, INTERRUPT, NAMESPACE, OUTPUT

from .guest_harness import MIB, REAL, Controller, assert_works, needs_real, wait_for

pytestmark = pytest.mark.sanitize


@pytest.fixture
def controller(fake):
    return fake.controller


QUESTIONS = {
    "input": ("input", "name? ", None),
    "secret": ("secret", "password: ", None),
    "tools": ("tools", "", None),
    "tool": ("tool", "add", b"\x92\x92\x01\x02\x80"),
}


@pytest.mark.parametrize("case", QUESTIONS)
def test_question_and_answer(controller, case):
    kind, name, payload = QUESTIONS[case]
    controller.start(f"result = repr(ask({kind!r}, {name!r}, {payload!r}))", id=42, asks="count")
    question = controller.asked(42)
    assert question == {"ask": 1, "kind": kind, "name": name, "payload": payload}
    controller.tell(1, b"\xa5hello", id=42)
    record = controller.record(42)
    assert (record["status"], record["result"]) == ("ok", repr(b"\xa5hello")), record["error"]


def test_answer_that_is_an_error(controller):
    controller.start("ask('tool', 'f', b'\\x92\\x90\\x80')", asks="count")
    controller.tell(controller.asked()["ask"], error={"name": "KeyError", "message": "no such thing"})
    error = controller.record()["error"]
    assert (error["name"], error["message"]) == ("KeyError", "'no such thing'")


def test_several_at_once_answered_in_any_order(controller):
    code = """
for number in range(1, 17):
    send(ASK, {"ask": number, "kind": "tool", "name": f"f{number}", "payload": b"x"})
answers = {}
for _ in range(16):
    (_, kind, id, body), _ = receive()
    answers[body["ask"]] = body["payload"]
result = repr(answers == {number: b"%d" % number for number in range(1, 17)})
"""
    controller.start(code, asks="count")
    numbers = [controller.asked()["ask"] for _ in range(16)]
    assert numbers == list(range(1, 17))
    for number in reversed(numbers):
        controller.tell(number, b"%d" % number)
    assert controller.record()["result"] == "True"


def test_more_than_may_wait_at_once(controller):
    code = """
for number in range(1, 18):
    send(ASK, {"ask": number, "kind": "input", "name": "", "payload": None})
answer()
"""
    controller.start(code, asks="count")
    for _ in range(16):
        controller.asked()
    error = controller.record()["error"]
    assert (error["name"], error["message"]) == ("EOFError", "too many questions wait for an answer")


@pytest.mark.parametrize(
    "question",
    ["'tool', 'f', b'x' * (2**20 + 1)", "'tool', 'f' * (2**20 + 1), b'x'"],
)
def test_question_that_is_too_large(controller, question):
    error = controller.run(f"ask({question})", asks="count")["error"]
    assert error["name"] == "RuntimeError" and "exceeds its limit of 1 MiB" in error["message"]
    controller.start("result = len(ask('tool', 'f' * 2**20, b'x' * 2**20))", asks="count")
    assert len(controller.asked()["payload"]) == MIB
    controller.tell(2, b"y" * MIB)
    assert controller.record()["status"] == "crashed"  # the result is no text: as a sign that it arrived
    assert_works_again(controller)


def assert_works_again(controller):
    assert controller.run("print(1)")["stdout"] == "1\n"


@pytest.mark.parametrize("kind, name", [("input", "EOFError"), ("tools", "RuntimeError")])
def test_nobody_is_asked(controller, kind, name):
    error = controller.run(f"ask({kind!r})")["error"]
    assert (error["name"], error["message"]) == (name, "there is no client to ask")


def test_question_of_no_call(controller):
    """Between calls, and of one that has ended."""
    code = (
        "def outside(id, body, fds):\n"
        "    for number in (0, 999): send(ASK, {'ask': 7, 'kind': 'input'}, number)\n"
        "    for number in (0, 999): said.append(receive()[0])\n"
        "    list_variables(id, body, fds)\n"
        "said = []; handlers[NAMESPACE] = outside"
    )
    controller.run(code, asks="count")
    assert controller.ask(NAMESPACE, branch=0)["more"] == 0
    record = controller.run("result = repr([(kind, id, body['error']['message']) for _, kind, id, body in said])")
    assert record["result"] == repr([(ANSWER, number, "no call of this question runs") for number in (0, 999)])


FAULTS = {
    "no kind": "{'ask': 1}",
    "another kind": "{'ask': 1, 'kind': 'prompt'}",
    "no number": "{'kind': 'input'}",
    "a number below zero": "{'ask': -1, 'kind': 'input'}",
    "a payload too many": "{'ask': 1, 'kind': 'input', 'payload': b''}",
    "no payload": "{'ask': 1, 'kind': 'tool', 'name': 'f'}",
    "a payload that is text": "{'ask': 1, 'kind': 'tool', 'name': 'f', 'payload': 'x'}",
    "a name that is none": "{'ask': 1, 'kind': 'tool', 'name': 5, 'payload': b''}",
    "unknown field": "{'ask': 1, 'kind': 'input', 'evil': 1}",
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults(controller, case):
    record = controller.run(f"send(ASK, {FAULTS[case]}); time.sleep(60)", asks="count")
    assert (record["status"], record["error"]["name"]) == ("crashed", "Crashed")
    assert "broke the protocol" in record["error"]["message"]
    assert_works_again(controller)


def test_flood_without_reading(fake):
    """Its own answers are all that the supervisor would have to keep."""
    record = fake.controller.run(
        "frame = pack(ASK, {'ask': 1, 'kind': 'input'}, 999)\nwhile True: channel.sendall(frame * 1000)",
        asks="count",
        timeout=60.0,
    )
    assert (record["status"], record["error"]["name"]) == ("crashed", "Crashed"), record
    assert "does not read the answers" in record["error"]["message"]
    assert_works(fake, 2)


def test_answers_that_are_none(controller):
    """Ignored: an error would be taken for the call's end."""
    controller.start("result = repr(ask('input'))", id=5, asks="count")
    number = controller.asked(5)["ask"]
    bad = [
        {"ask": number},
        {"ask": number, "payload": b"x", "error": {"name": "E", "message": ""}},
        {"ask": number, "payload": "text"},
        {"ask": number, "error": {"message": "x"}},
        {"ask": number, "payload": b"x" * (MIB + 1)},
        {"ask": number, "payload": b"x", "evil": 1},
        {"payload": b"x"},
        {"ask": number + 1, "payload": b"another"},
    ]
    for body in bad:
        controller.send(ANSWER, body, 5)
    controller.tell(number, b"of another call", id=6)
    controller.tell(number, b"right", id=5)
    controller.tell(number, b"twice", id=5)
    assert controller.record(5)["result"] == repr(b"right")
    controller.tell(number, b"late", id=5)
    assert_works_again(controller)


def test_output_comes_before_the_question(controller):
    code = "\n".join(f"print('line {i}', flush=True); ask('input', '{i}')" for i in range(20))
    controller.start(code, stream=True, asks="count")
    for i in range(20):
        assert controller.asked()["name"] == str(i)
        text = b"".join(body["data"] for kind, body in controller.events if kind == OUTPUT)
        assert text == b"line %d\n" % i
        controller.tell(i + 1, b"")
    assert controller.record()["status"] == "ok"


def test_question_waits_for_credit_as_the_output_before_it(fake):
    """With a client that does not return credit the pipe is not read, and nothing overtakes what is in it."""
    marker = fake.directory / "asked"
    code = f"""
import fcntl, termios
def write(byte):
    os.write(1, byte)
    while struct.unpack("i", fcntl.ioctl(1, termios.FIONREAD, b"1234"))[0]: pass
for _ in range(58): write(b"x")
os.write(1, b"last")
send(ASK, {{"ask": 1, "kind": "input"}})
open({str(marker)!r}, "w").close()
answer()
"""
    controller = fake.controller
    controller.start(code, stream=True, asks="count")
    for _ in range(58):
        kind, _, body = controller.receive()
        assert (kind, body["data"]) == (OUTPUT, b"x")
    wait_for(marker.exists, "the cell did not ask")
    controller.send(CREDIT, {"count": 58}, 1)
    assert controller.asked()["ask"] == 1
    assert [body["data"] for _, body in controller.events] == [b"last"]
    controller.tell(1, b"")
    assert controller.record()["stdout"] == "x" * 58 + "last"


def test_time_that_counts(controller):
    record = controller.start("ask('input')", timeout=1, asks="count")
    controller.asked()
    record = controller.record()
    assert (record["status"], record["state"]) == ("timeout", "kept")


def test_time_that_does_not_count(controller):
    """While two wait, while one of them does; from then on it counts again."""
    code = """
for number in (1, 2): send(ASK, {"ask": number, "kind": "input"})
answer(); print("one", flush=True); answer(); print("two", flush=True)
time.sleep(60)
"""
    controller.start(code, timeout=5, stream=True, asks="pause")
    for number in (1, 2):
        controller.asked()
    for number in (1, 2):
        assert not controller.socket.poll(700), "it ended while a question waited"
        controller.tell(number, b"")
        assert controller.receive()[0] == OUTPUT
    record = controller.record()
    assert (record["status"], record["stdout"]) == ("timeout", "one\ntwo\n")
    assert 5 + 2 * 0.7 < record["duration"]


def test_interrupt_of_one_that_waits(controller):
    controller.start("ask('input')", asks="pause")
    controller.asked()
    controller.send(INTERRUPT, {})
    record = controller.record()
    assert (record["status"], record["state"]) == ("interrupted", "kept")


def test_interrupt_of_one_that_does_not_wake(controller):
    """The ladder goes on although a question waits."""
    controller.start("signal.signal(signal.SIGINT, signal.SIG_IGN); ask('input')", asks="pause")
    controller.asked()
    controller.send(INTERRUPT, {})
    assert controller.record()["error"]["name"] == "InterruptKilled"
    assert_works_again(controller)


def test_interpreter_that_ends_while_a_question_waits(controller):
    controller.start("send(ASK, {'ask': 1, 'kind': 'input'}); os._exit(3)", asks="pause")
    controller.asked()
    assert controller.record()["exit_code"] == 3
    controller.tell(1, b"late")
    assert_works_again(controller)


def reconnect(guest):
    guest.controller.close()
    guest.controller = Controller(guest.link)


@pytest.mark.parametrize("mode", ["count", "pause"])
@pytest.mark.parametrize("stream", [False, True])
def test_another_controller_gets_what_waits(fake, mode, stream):
    code = """
for number in (1, 2, 3): send(ASK, {"ask": number, "kind": "tool", "name": f"f{number}", "payload": b"x"})
result = repr([answer() for _ in range(3)])
"""
    fake.controller.start(code, id=9, asks=mode, stream=stream)
    assert [fake.controller.asked(9)["ask"] for _ in range(3)] == [1, 2, 3]
    fake.controller.tell(2, b"two", id=9)
    for _ in range(2):
        reconnect(fake)
        hello = fake.controller.welcome()
        assert hello["running"]["id"] == 9
        questions = [fake.controller.asked(9)["name"] for _ in range(2)]
        if questions[1] == "f2":  # the answer was lost with its controller
            questions = [questions[0], fake.controller.asked(9)["name"]]
        assert questions == ["f1", "f3"]
    fake.controller.tell(1, b"one", id=9)
    fake.controller.tell(3, b"three", id=9)
    assert fake.controller.record(9)["result"] == repr([b"two", b"one", b"three"])


def test_question_while_there_is_no_controller(fake):
    marker = fake.directory / "asked"
    fake.controller.start(
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        f"send(ASK, {{'ask': 1, 'kind': 'input'}}); open({str(marker)!r}, 'w').close()\n"
        "result = repr(answer())",
        asks="pause",
    )
    fake.controller.close()
    (fake.directory / "go").touch()
    wait_for(marker.exists, "the cell did not ask")
    fake.controller = Controller(fake.link)
    fake.controller.welcome()
    assert fake.controller.asked()["ask"] == 1
    fake.controller.tell(1, b"x")
    assert fake.controller.record()["result"] == repr(b"x")


def test_what_an_execute_may_say(fake):
    fake.controller.start("1", id=4, asks="always")
    kind, id, body = fake.controller.receive()
    assert (id, body["name"]) == (4, "BadRequest") and "asks" in body["message"]
    assert_works(fake, 1)


# Both together


@pytest.fixture(params=["auto", "always"])
def real(request, keep):
    return keep(REAL, request.param).controller


def lines_before(controller):
    return b"".join(body["data"] for kind, body in controller.events if kind == OUTPUT).decode()


@needs_real
def test_a_line_of_input(real):
    for _ in range(3):
        real.start("print('before')\nline = input('name? ')\nprint('hello', line)", stream=True, asks="pause")
        question = real.asked()
        assert (question["kind"], question["name"], question["payload"]) == ("input", "name? ", None)
        assert lines_before(real).startswith("before\n")
        real.tell(question["ask"], msgpack.packb("Ada"))
        record = real.record()
        assert record["status"] == "ok" and record["stdout"].endswith("hello Ada\n"), record["error"]
    assert real.run("input()")["error"]["name"] == "EOFError"


@needs_real
def test_a_function_of_the_host(real):
    real.start("import limpet_tools\nprint(limpet_tools.add(2, b=3))", asks="count")
    question = real.asked()
    while question["kind"] == "tools":
        row = {"name": "add", "signature": "(a, b)", "doc": "Adds."}
        real.tell(question["ask"], msgpack.packb([row]))
        question = real.asked()
    assert (question["kind"], question["name"]) == ("tool", "add")
    assert msgpack.unpackb(question["payload"]) == [[2], {"b": 3}]
    real.tell(question["ask"], msgpack.packb(5))
    record = real.record()
    assert (record["status"], record["stdout"]) == ("ok", "5\n"), record["error"]


@needs_real
def test_input_that_is_interrupted(real):
    real.start("x = 1\ninput('? ')", asks="pause")
    real.asked()
    real.send(INTERRUPT, {})
    record = real.record()
    assert (record["status"], record["state"]) == ("interrupted", "kept")
    assert real.run("print(x)")["stdout"] == "1\n"


@needs_real
def test_input_at_the_deadline(real):
    real.start("x = 1\ninput('? ')", asks="count", timeout=1)
    number = real.asked()["ask"]
    record = real.record()
    assert (record["status"], record["state"]) == ("timeout", "kept")
    real.tell(number, msgpack.packb("late"))
    real.start("x = input('again? ')\nprint(x)", asks="count", id=2)
    real.tell(real.asked(2)["ask"], msgpack.packb("in time"), id=2)
    assert real.record(2)["stdout"].endswith("in time\n")
