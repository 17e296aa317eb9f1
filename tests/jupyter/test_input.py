"""input() and getpass() of cells, which the frontend answers."""

import pytest

from .conftest import TIMEOUT
from .test_life import by_message, by_signal


def asked(notebook):
    """The next question to the person at the frontend."""
    message = notebook.client.get_stdin_msg(timeout=TIMEOUT)
    assert message["msg_type"] == "input_request"
    return message["content"]


def run(notebook, code, *lines):
    """The questions of a cell that gets these lines, and how it ended."""
    request = notebook.start(code, allow_stdin=True)
    questions = []
    for line in lines:
        questions.append(asked(notebook))
        notebook.client.input(line)
    return questions, notebook.finish(request)


def test_input_is_what_was_typed(notebook):
    questions, cell = run(notebook, "a = input('first? ')\nb = input()\na + b", "Grüße ", "2")
    assert questions == [{"prompt": "first? ", "password": False}, {"prompt": "", "password": False}]
    assert cell.result == "'Grüße 2'"


def test_a_password_is_not_shown(notebook):
    questions, cell = run(notebook, "from getpass import getpass\nlen(getpass('Key: '))", "secret")
    assert questions == [{"prompt": "Key: ", "password": True}]
    assert cell.result == "6" and cell.stdout == ""


def test_what_was_printed_comes_before_the_question(notebook):
    request = notebook.start("print('before')\ninput()", allow_stdin=True)
    notebook.until(request, lambda message: message["content"].get("text") == "before\n")
    asked(notebook)
    notebook.client.input("x")
    assert notebook.finish(request).result == "'x'"


def test_lines_are_read_from_standard_input_too(notebook):
    _, cell = run(notebook, "import sys\nsys.stdin.readline()", "a line")
    assert cell.result == "'a line\\n'"


def test_the_end_of_input_is_an_eoferror(notebook):
    _, cell = run(notebook, "input()", "\x04")
    assert cell.of("error")[0]["ename"] == "EOFError"


def test_a_frontend_that_takes_no_input_is_not_asked(notebook):
    cell = notebook.run("input('name? ')", allow_stdin=False)
    assert cell.of("error")[0]["ename"] == "EOFError"
    assert "write the value into the cell" in cell.traceback
    assert not notebook.client.stdin_channel.msg_ready()


@pytest.mark.parametrize("interrupt", [by_message, by_signal])
def test_an_interrupt_ends_a_cell_that_waits_for_input(notebook, interrupt):
    code = "typed = 'nothing'\ntry: typed = input()\nexcept KeyboardInterrupt: print('caught'); raise"
    request = notebook.start(code, allow_stdin=True)
    asked(notebook)
    interrupt(notebook)
    cell = notebook.finish(request)
    assert cell.of("error")[0]["ename"] == "KeyboardInterrupt" and cell.stdout == "caught\n"
    assert notebook.run("typed").result == "'nothing'"


def test_what_is_typed_too_late_answers_no_later_question(notebook):
    request = notebook.start("input('early? ')", allow_stdin=True)
    asked(notebook)
    by_message(notebook)
    notebook.finish(request)
    notebook.client.input("too late")
    notebook.run("'the reply has come by now'")
    assert run(notebook, "input('later? ')", "in time")[1].result == "'in time'"
