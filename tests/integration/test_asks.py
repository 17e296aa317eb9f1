"""Questions of a cell on their way through the controller. The guest is scripted, the client says raw messages."""

import json
import os

import msgpack
import pytest

from .raw_peer import Client, Refused
from .scripted import client, controller, refused, session  # noqa: F401

pytestmark = [pytest.mark.once, pytest.mark.sanitize]

ASK = "guest.peer.send('ask', id, {%s})\n"
ANSWER = "_, of, answer = guest.peer.receive()\nassert (_, of) == ('answer', id)\n"
TOOL = "'ask': %d, 'kind': 'tool', 'name': 'f', 'payload': b'\\x92\\x90\\x80'"
RESULT = "result = repr(answer)\n"


def begin(client, session, code, run_id=None, **more):
    run_id = run_id or os.urandom(16).hex()
    return client.ask("run", session=session, code=code, run_id=run_id, **more)


def expect(client, kind, id):
    """The next message, which is of that request."""
    found, of, body = client.receive()
    assert (found, of) == (kind, id), (found, of, body)
    return body


def result(client, id):
    return eval(json.loads(client.answer(id)["result"]))


@pytest.fixture
def other(controller):  # noqa: F811
    other = Client(controller.socket)
    yield other
    other.close()


@pytest.mark.parametrize("mode", ["pause", "count"])
def test_a_question_and_its_answer(client, session, mode):  # noqa: F811
    run = begin(
        client,
        session,
        ASK % (TOOL % 7) + ANSWER + "result = repr((answer, guest.received[-1][1]['asks']))",
        asks=mode,
    )
    assert expect(client, "ask", run) == {"ask": 7, "kind": "tool", "name": "f", "payload": b"\x92\x90\x80"}
    client.send("answer", run, {"ask": 7, "payload": b"\xc0"})
    assert result(client, run) == ({"ask": 7, "payload": b"\xc0"}, mode)


def test_an_exception(client, session):  # noqa: F811
    run = begin(client, session, ASK % (TOOL % 1) + ANSWER + RESULT, asks="pause")
    expect(client, "ask", run)
    error = {"name": "LookupError", "message": "nothing"}
    client.send("answer", run, {"ask": 1, "error": error})
    assert result(client, run) == {"ask": 1, "error": error}


def test_the_supervisor_is_told_only_who_asks(client, session):  # noqa: F811
    run = begin(client, session, "result = repr('asks' in guest.received[-1][1])")
    assert result(client, run) is False
    assert (
        refused(client, "run", session=session, code="1", run_id=os.urandom(16).hex(), asks="maybe").name
        == "BadRequest"
    )


def test_nobody_to_ask(client, session):  # noqa: F811
    run = begin(client, session, ASK % (TOOL % 1) + ANSWER + RESULT)
    answer = result(client, run)
    assert answer["ask"] == 1 and answer["error"]["name"] == "RuntimeError"
    assert "answers no questions" in answer["error"]["message"]


def test_several_wait_and_are_answered_in_any_order(client, session):  # noqa: F811
    questions = "".join(ASK % (TOOL % n) for n in range(16))
    code = questions + "result = repr([guest.peer.receive()[2]['ask'] for _ in range(16)])"
    run = begin(client, session, code, asks="pause")
    assert [expect(client, "ask", run)["ask"] for _ in range(16)] == list(range(16))
    for number in reversed(range(16)):
        client.send("answer", run, {"ask": number, "payload": b"\xc0"})
    assert result(client, run) == list(reversed(range(16)))


MALFORMED = [
    {"ask": 1},
    {"ask": 1, "payload": b"\xc0", "error": {"name": "E", "message": ""}},
    {"ask": 1, "payload": "text"},
    {"ask": 1, "payload": b"\xc0", "more": 1},
    {"ask": 1, "payload": bytes((1 << 20) + 1)},
    {"ask": 1, "error": "text"},
    {"ask": 1, "error": {"name": "E"}},
    {"ask": 1, "error": {"name": "E" * 300, "message": ""}},
]


@pytest.mark.parametrize("answer", MALFORMED)
def test_an_answer_that_is_malformed_is_an_error_in_the_cell(client, session, answer):  # noqa: F811
    run = begin(client, session, ASK % (TOOL % 1) + ANSWER + RESULT, asks="pause")
    expect(client, "ask", run)
    client.send("answer", run, answer)
    assert result(client, run)["error"]["name"] == "RuntimeError"


def test_answers_nobody_waits_for_are_ignored(client, other, session):  # noqa: F811
    run = begin(client, session, ASK % (TOOL % 1) + ANSWER + RESULT, asks="pause")
    expect(client, "ask", run)
    for stray in ({"ask": 2, "payload": b"\xc0"}, {"payload": b"\xc0"}, {"ask": "1"}, {}):
        client.send("answer", run, stray)
    client.send("answer", run + 1, {"ask": 1, "payload": b"\xc1"})
    other.send("answer", run, {"ask": 1, "payload": b"\xc1"})
    other("sessions")  # it has been read
    client.send("answer", run, {"ask": 1, "payload": b"\xc2"})
    assert result(client, run)["payload"] == b"\xc2"
    client.send("answer", run, {"ask": 1, "payload": b"\xc2"})
    assert client("sessions")


@pytest.mark.parametrize(
    "fields",
    [
        "'ask': 'x', 'kind': 'tool', 'name': 'f', 'payload': b''",
        "'ask': 1, 'kind': 'tool', 'payload': b''",
        "'ask': 1, 'kind': 7, 'name': 'f', 'payload': b''",
        "'ask': 1, 'kind': 'tool', 'name': 'f', 'payload': 'text'",
        "'ask': 1, 'kind': 'tool', 'name': 'f', 'payload': bytes((1 << 20) + 1)",
        "'ask': 1, 'kind': 'input', 'name': 'x' * ((1 << 20) + 1), 'payload': b''",
        "'ask': 1, 'kind': 'tool', 'name': 'f', 'payload': b'', 'more': 1",
    ],
)
def test_a_question_that_no_honest_supervisor_asks_ends_the_session(client, session, fields):  # noqa: F811
    run = begin(client, session, ASK % fields + "guest.peer.receive()", asks="pause")
    assert client.answer(run)["error"]["name"] == "SandboxLost"


def test_there_is_an_end_to_questions_that_wait(client, session):  # noqa: F811
    """Of more than that the supervisor has not heard either: it answers them itself."""
    code = "".join(ASK % (TOOL % n) for n in range(17))
    run = begin(client, session, code + "guest.peer.receive()", asks="count")
    while (message := client.receive())[0] != "reply":
        pass
    error = message[2]["error"]
    assert error["name"] == "SandboxLost" and "broke the protocol" in error["message"]


def test_questions_of_other_calls_are_ignored(client, session):  # noqa: F811
    forged = "".join(ASK.replace("id,", f"{of},") % (TOOL % 1) for of in ("id + 1", "id - 1", "0"))
    run = begin(client, session, forged + ASK % (TOOL % 2) + ANSWER + RESULT, asks="pause")
    assert expect(client, "ask", run)["ask"] == 2
    client.send("answer", run, {"ask": 2, "payload": b"\xc0"})
    assert result(client, run)["ask"] == 2


def test_the_last_one_that_joined_is_asked(client, other, session):  # noqa: F811
    run_id = os.urandom(16).hex()
    code = ASK % (TOOL % 1) + ANSWER + ASK % (TOOL % 2) + ANSWER + RESULT
    first = begin(client, session, code, run_id, asks="pause")
    expect(client, "ask", first)
    watching = begin(other, session, code, run_id)  # joins without asks: gets no question
    second = begin(other, session, code, run_id, asks="count")
    assert expect(other, "ask", second)["ask"] == 1
    client.send("answer", first, {"ask": 1, "payload": b"\xc1"})
    client("sessions")
    other.send("answer", second, {"ask": 1, "payload": b"\xc0"})
    assert expect(other, "ask", second)["ask"] == 2
    other.send("answer", second, {"ask": 2, "payload": b"\xc0"})
    for peer, id in ((client, first), (other, watching), (other, second)):
        assert result(peer, id) == {"ask": 2, "payload": b"\xc0"}


def test_a_client_that_goes_leaves_its_questions(client, controller, session):  # noqa: F811
    run_id = os.urandom(16).hex()
    code = "".join(ASK % (TOOL % n) for n in range(3)) + ANSWER + RESULT
    gone = Client(controller.socket)
    expect(gone, "ask", begin(gone, session, code, run_id, asks="pause"))
    gone.close()
    stored = client.ask("result", run_id=run_id)
    run = begin(client, session, code, run_id, asks="pause")
    assert [expect(client, "ask", run)["ask"] for _ in range(3)] == [0, 1, 2]
    client.send("answer", run, {"ask": 1, "payload": b"\xc0"})
    assert client.answer(stored)["record"]["result"] == client.answer(run)["result"]


def test_the_guest_asks_again_after_a_reconnection(client, session):  # noqa: F811
    """One that waits reaches the client once; one whose answer was lost a second time."""
    again = (
        "def reconnect():\n    guest.peer.close()\n    guest.connect()\n"
        "    while guest.peer.receive()[0] != 'guest_welcome': pass\n"
        "hello = guest.hello\nguest.hello = lambda: hello() | {'running': None}\n"
    )
    one, two = ASK % (TOOL % 1), ASK % (TOOL % 2)
    code = again + one + "reconnect()\n" + one + two + ANSWER + "reconnect()\n" + two + one + 2 * ANSWER + RESULT
    run = begin(client, session, code, asks="pause")
    assert [expect(client, "ask", run)["ask"] for _ in range(2)] == [1, 2]
    client.send("answer", run, {"ask": 1, "payload": b"\xc2"})
    assert expect(client, "ask", run)["ask"] == 1
    client.send("answer", run, {"ask": 2, "payload": b"\xc2"})
    client.send("answer", run, {"ask": 1, "payload": b"\xc3"})
    assert result(client, run) == {"ask": 1, "payload": b"\xc3"}


def test_a_branch_asks(client, session):  # noqa: F811
    client("branch", session=session, name="b")
    run = begin(client, f"{session}/b", ASK % (TOOL % 1) + ANSWER + RESULT, asks="pause")
    expect(client, "ask", run)
    client.send("answer", run, {"ask": 1, "payload": b"\xc0"})
    assert result(client, run)["ask"] == 1


def test_a_container_of_its_own_asks(client):  # noqa: F811
    run = begin(client, None, ASK % (TOOL % 1) + ANSWER + RESULT, asks="pause")
    expect(client, "ask", run)
    client.send("answer", run, {"ask": 1, "payload": b"\xc0"})
    assert result(client, run)["ask"] == 1


def test_questions_end_with_their_call(client, session):  # noqa: F811
    first = begin(client, session, ASK % (TOOL % 1) + "result = 'null'", asks="pause")
    expect(client, "ask", first)
    client.answer(first)
    client.send("answer", first, {"ask": 1, "payload": b"\xc1"})
    second = begin(client, session, ASK % (TOOL % 1) + ANSWER + RESULT, asks="pause")
    expect(client, "ask", second)
    client.send("answer", second, {"ask": 1, "payload": b"\xc0"})
    assert result(client, second)["payload"] == b"\xc0"


def test_a_session_that_is_closed_while_a_question_waits(client, session):  # noqa: F811
    run = begin(client, session, ASK % (TOOL % 1) + "guest.peer.receive()", asks="pause")
    expect(client, "ask", run)
    close = client.ask("close", session=session)
    assert client.answer(run)["status"] == "failed"
    client.answer(close)
    client.send("answer", run, {"ask": 1, "payload": b"\xc0"})
    with pytest.raises(Refused):
        client("close", session=session)


def test_what_goes_with_a_question_is_not_looked_into(client, session):  # noqa: F811
    payload = msgpack.packb({1: [None] * 10})
    run = begin(
        client,
        session,
        ASK % ("'ask': 1, 'kind': 'odd', 'name': 'f', 'payload': %r" % payload) + ANSWER + RESULT,
        asks="pause",
    )
    assert expect(client, "ask", run)["payload"] == payload
    client.send("answer", run, {"ask": 1, "payload": b"\xc1"})
    assert result(client, run)["payload"] == b"\xc1"
