"""Questions of a cell: what liblimpet answers by itself, and what `limpet run` asks its standard input."""

import re
import signal

import msgpack
import pytest

from .fake_controller import FakeController, record


def question(request, number, kind="input", name="", payload=None):
    request.send("ask", {"ask": number, "kind": kind, "name": name, "payload": payload})


class Cell:
    """Handlers of run and answer: asks one question after the other, then ends."""

    def __init__(self, *questions):
        self.questions = questions
        self.answers = []

    def run(self, request):
        self.request = request
        self.ask()

    def ask(self):
        if len(self.answers) == len(self.questions):
            self.request.reply(**record())
        else:
            question(self.request, 7 + len(self.answers), *self.questions[len(self.answers)])

    def answer(self, request):
        assert request.id == self.request.id
        self.answers.append(request.body)
        self.ask()

    def handlers(self):
        return {"run": self.run, "answer": self.answer}


def answers(limpet, *questions, input=b"", arguments=("-c", "1")):
    """What is answered: the value, or the error; and the process."""
    cell = Cell(*questions)
    with FakeController(limpet.socket, **cell.handlers()) as controller:
        result = limpet("run", *arguments, input=input)
        assert controller.wait("run").body.get("asks") == "pause"
    assert [answer["ask"] for answer in cell.answers] == list(range(7, 7 + len(questions)))
    return [msgpack.unpackb(a["payload"]) if "payload" in a else a["error"] for a in cell.answers], result


def test_lines_of_standard_input(limpet):
    said, result = answers(limpet, ("input", "one? "), ("input", "two? "), ("secret", "word? "), ("input", "end? "),
                           input="first\nzwöi\nhush\n".encode())
    assert said == ["first", "zwöi", "hush", None]
    assert (result.returncode, result.out) == (0, "one? two? word? end? ")


def test_the_last_line_needs_no_end(limpet):
    assert answers(limpet, ("input", ""), ("input", ""), input=b"\nlast")[0] == ["", "last"]


def test_bytes_that_are_not_utf8(limpet):
    assert answers(limpet, ("input", ""), input=b"a\xffb\n")[0] == ["a\ufffdb"]


def test_a_line_that_is_too_long(limpet):
    [error], result = answers(limpet, ("input", ""), input=b"x" * (1 << 20) + b"\n")
    assert error == {"name": "ValueError", "message": "the line is longer than 1 MiB"}
    assert result.returncode == 0


def test_the_longest_line(limpet):
    assert answers(limpet, ("input", ""), input=b"x" * ((1 << 20) - 5) + b"\n")[0] == ["x" * ((1 << 20) - 5)]


def test_functions_of_the_host(limpet):
    arguments = msgpack.packb([[1], {}])
    (tools, tool, unknown), result = answers(limpet, ("tools",), ("tool", "search", arguments), ("riddle", "who?"))
    assert tools == []
    assert tool == {"name": "LookupError", "message": "there is no host function 'search': this client provides none"}
    assert unknown == {"name": "EOFError", "message": "this client does not answer questions of this kind"}
    assert (result.returncode, result.out) == (0, "")


def test_json_asks_as_well(limpet):
    assert answers(limpet, ("input", ""), input=b"line\n", arguments=["--json", "-c", "1"])[0] == ["line"]


def test_code_from_standard_input_leaves_no_lines(limpet):
    with FakeController(limpet.socket, run=lambda request: request.reply(**record())) as controller:
        assert limpet("run", "-", input=b"1\n").returncode == 0
        assert "asks" not in controller.wait("run").body


def test_answers_while_output_streams(limpet):
    """More output than there is credit for, before and behind the question."""

    def run(request):
        question(request, 1)
        for number in range(200):
            request.send("output", {"stream": 1, "data": b"%d\n" % number})
        question(request, 2)
        cell.request = request

    def answer(request):
        cell.answers.append(msgpack.unpackb(request.body["payload"]))
        if len(cell.answers) == 2:
            text = "".join(f"{number}\n" for number in range(200))
            cell.request.reply(**record(stdout=text, stdout_bytes=len(text)))

    cell = Cell()
    with FakeController(limpet.socket, run=run, answer=answer) as controller:
        result = limpet("run", "-c", "1", input=b"a\nb\n")
        assert sum(body["count"] for body in controller.bodies("credit")) > 200 - 64
    assert cell.answers == ["a", "b"]
    assert result.out.split() == [str(number) for number in range(200)]


def test_an_answer_that_was_lost_is_given_again(limpet):
    """The controller dies with the answer; the next one asks again, and nobody is asked."""

    def vanish(request):
        lost.append(request.body)
        request.controller.vanish()

    lost = []
    first = FakeController(limpet.socket, run=lambda request: question(request, 7), answer=vanish)
    process = limpet.start("run", "-c", "1", stdin=-1)
    process.stdin.write(b"once\n")
    process.stdin.flush()
    first.wait_for_end()
    first.stop()
    cell = Cell(("input",))
    with FakeController(limpet.socket, **cell.handlers()):
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert cell.answers == lost
    assert msgpack.unpackb(lost[0]["payload"]) == "once"


def test_an_interrupt_ends_the_question(limpet):
    said = []

    def interrupt(request):
        said.append("interrupt")
        request.reply(interrupted=True)

    def answer(request):
        said.append(request.body["error"])
        cell.request.reply(**record(status="interrupted", error={"name": "KeyboardInterrupt", "message": "",
                                                                 "traceback": "t\n"}))

    cell = Cell(("input", "? "))
    with FakeController(limpet.socket, run=cell.run, answer=answer, interrupt=interrupt):
        process = limpet.start("run", "-c", "1", stdin=-1)
        assert process.stdout.read(2) == b"? "
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        process.communicate()
    assert said == ["interrupt", {"name": "KeyboardInterrupt", "message": ""}]


@pytest.mark.parametrize("body, words", [
    ({"kind": "input", "name": ""}, "ask"),
    ({"ask": 1}, "kind"),
    ({"ask": "1", "kind": "input"}, "ask"),
    ({"ask": 1, "kind": "input", "name": 3}, "name"),
    ({"ask": 1, "kind": "tool", "name": "f", "payload": "text"}, "payload"),
    ({"ask": 1, "kind": "tool", "name": "f", "payload": b"x" * ((1 << 20) + 1)}, "payload"),
])
def test_questions_that_are_none(limpet, body, words):
    with FakeController(limpet.socket, run=lambda request: request.send("ask", body)):
        result = limpet("run", "-c", "1")
    assert result.returncode == 125
    assert re.match("limpet: ProtocolMismatch: ", result.err) and words in result.err


def test_on_a_real_session(real):
    assert real.good("run", "-s", "q", "-c", "print('hello', input('name? ')); input()", input=b"Ada\nx\n") == (
        "name? hello Ada\n'x'\n")
    result = real("run", "-s", "q", "-c", "input()")
    assert (result.returncode, result.err.splitlines()[-1]) == (1, "EOFError: EOF when reading a line")
    result = real("run", "-s", "q", "-", input=b"input()")
    assert result.returncode == 1 and "EOFError" in result.err


def test_waiting_for_an_answer_is_no_time(real):
    process = real.start("run", "-s", "q", "-t", "5", "-c", "print('asked', flush=True); input(); 'in time'", stdin=-1)
    assert process.stdout.readline() == b"asked\n"
    busy = real.start("run", "-s", "other", "-t", "60", "-c", "import time; time.sleep(6)")
    assert busy.wait(60) == 0
    out, err = process.communicate(b"\n", timeout=60)
    assert (process.returncode, out) == (0, b"'in time'\n"), err


def test_half_a_line_comes_as_it_is_written(real):
    process = real.start("run", "-s", "q", "-c", "import time; print('half', end=''); time.sleep(1000)")
    assert process.stdout.read(4) == b"half"
    real.good("interrupt", "q")
    assert process.wait(60) == 130
    process.communicate()
