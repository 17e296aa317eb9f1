"""input() and its kin: lines that the client of a call types."""

import os
import signal

import pytest

from tests.support.wire import ASK

from .asking import answer_error, answer_value, next_question, run_with_lines, send_answer


def asked(questions):
    return [question.asked for question in questions]


def test_input_asks(session):
    reply, questions = run_with_lines(session, "name = input('name? ')\n'hello ' + name", "Ann")
    assert reply.result == "'hello Ann'" and reply.stdout == "" and reply.error is None
    assert asked(questions) == [("input", "name? ")] and questions[0].payload is None


def test_input_without_a_prompt_or_with_any_object(session):
    reply, questions = run_with_lines(session, "[input(), input(7)]", "", "é")
    assert reply.result == "['', 'é']" and asked(questions) == [("input", ""), ("input", "7")]


def test_the_end_of_input(session):
    reply, _ = run_with_lines(session, "input()", None)
    assert reply.error["name"] == "EOFError" and reply.error["message"] == "EOF when reading a line"
    assert "asks.py" not in reply.error["traceback"]


@pytest.mark.parametrize("code", ["input('x')", "import getpass; getpass.getpass()"])
def test_without_asks_nobody_answers(session, code):
    error = session.run(code).error
    assert error["name"] == "EOFError" and "on_input" in error["message"]
    assert session.run("import sys; [sys.stdin.readline(), sys.stdin.read(), list(sys.stdin)]").result == "['', '', []]"


def test_a_secret_is_a_secret(session):
    reply, questions = run_with_lines(session, "import getpass\ngetpass.getpass('key: ')", "s3")
    assert reply.result == "'s3'" and asked(questions) == [("secret", "key: ")] and reply.stderr == ""


def test_standard_input_is_read_line_by_line(session):
    reply, questions = run_with_lines(session, "import sys\n[sys.stdin.readline(), sys.stdin.read(1)]", "one", "two")
    assert reply.result == "['one\\n', 't']" and asked(questions) == [("input", "")] * 2
    reply, _ = run_with_lines(session, "list(sys.stdin)", "three", "", None)
    assert reply.result == "['wo\\n', 'three\\n', '\\n']"
    reply, _ = run_with_lines(session, "sys.stdin.buffer.read()", "x" * 20000, None)
    assert reply.result == repr(b"x" * 20000 + b"\n")


def test_what_replaces_standard_input_is_read(session):
    code = "import io, sys\nsys.stdin = io.StringIO('a\\nb')\n[input('p'), input()]"
    reply, questions = run_with_lines(session, code)
    assert reply.result == "['a', 'b']" and reply.stdout == "p" and questions == []


def test_output_is_there_before_the_question(session):
    session.start("print('before', flush=False)\ninput()", asks=True)
    question = next_question(session)
    session.pump(0)
    assert bytes(session.output[1]) == b"before\n"
    answer_value(session, question, "")
    assert session.finish().error is None


def test_an_interrupt_ends_the_wait(session):
    session.start("input()", asks=True)
    late = next_question(session)
    session.interrupt()
    assert session.finish().error["name"] == "KeyboardInterrupt"
    answer_value(session, late, "late")
    assert session.value("1 + 1") == 2
    session.start("input()", asks=True)
    question = next_question(session)
    answer_value(session, late, "later")
    answer_value(session, question, "now")
    assert session.finish().result == "'now'"


def test_an_answer_that_nobody_waits_for_is_ignored(session):
    session.start("import signal\ndef ring(*a): raise TimeoutError\nsignal.signal(signal.SIGALRM, ring)\n"
                  "try: input('first')\nexcept TimeoutError: pass\ninput('second')", asks=True)
    first = next_question(session)
    os.kill(session.process.pid, signal.SIGALRM)
    second = next_question(session)
    answer_value(session, first, "one")
    answer_value(session, second, "two")
    assert session.finish().result == "'two'"


def test_a_handler_may_ask_while_its_thread_waits(session):
    session.start("import signal\ninner = []\n"
                  "signal.signal(signal.SIGALRM, lambda *a: inner.append(input('inner')))\n"
                  "outer = input('outer')\n[inner, outer]", asks=True)
    outer = next_question(session)
    os.kill(session.process.pid, signal.SIGALRM)
    inner = next_question(session)
    assert (outer.name, inner.name) == ("outer", "inner")
    answer_value(session, outer, "o")
    answer_value(session, inner, "i")
    assert session.finish().result == "[['i'], 'o']"


def test_what_the_client_raises_is_raised(session):
    session.start("try: input()\nexcept ValueError as e: print(e)\ninput()", asks=True)
    answer_error(session, next_question(session), "ValueError", "no line")
    answer_error(session, next_question(session), "Overslept", "zz")
    reply = session.finish()
    assert reply.stdout == "no line\n"
    assert (reply.error["name"], reply.error["message"]) == ("ToolError", "Overslept: zz")


def test_an_answer_that_is_no_text(session):
    session.start("input()", asks=True)
    answer_value(session, next_question(session), 7)
    assert session.finish().error["name"] == "TypeError"


def test_an_answer_with_neither_part_is_none(session):
    session.start("input()", asks=True)
    send_answer(session, next_question(session))
    assert session.finish().error["name"] == "EOFError"


def test_a_prompt_that_is_too_long_is_cut(session):
    reply, questions = run_with_lines(session, "input('p' * (2 << 20))", "x")
    assert reply.error is None and len(questions[0].name) <= 1 << 20 and "cut to" in questions[0].name


THREADS = """
import threading
got = {}
def ask(i): got[i] = input(str(i))
threads = [threading.Thread(target=ask, args=(i,)) for i in range(40)]
for t in threads: t.start()
for t in threads: t.join()
got == {i: 'to ' + str(i) for i in range(40)}
"""


def test_several_threads_ask_at_once(session):
    session.start(THREADS, asks=True)
    waiting = []
    for left in range(40, 0, -1):
        while len(waiting) < min(left, 16):
            waiting.append(next_question(session))
        session.pump(0)
        assert all(message[1] != ASK for message in session.messages), "more than 16 wait"
        question = waiting.pop(left % len(waiting))
        answer_value(session, question, "to " + question.name)
    assert session.finish().result == "True"


def test_the_main_thread_is_interrupted_while_another_reads(session):
    session.start("""
import threading
other = []
thread = threading.Thread(target=lambda: other.append(input('thread')))
thread.start()
try: input('main')
except KeyboardInterrupt: print('interrupted')
thread.join()
other
""", asks=True)
    questions = {question.name: question for question in (next_question(session), next_question(session))}
    session.interrupt()
    session.wait_output("interrupted")
    answer_value(session, questions["thread"], "goes on")
    assert session.finish().result == "['goes on']"


def test_a_thread_whose_cell_has_ended(session):
    session.start("""
import threading
errors, go = [], threading.Event()
def ask():
    try: input('waits')
    except BaseException as e: errors.append(repr(e))
    go.wait()
    errors.append(input('late'))
thread = threading.Thread(target=ask)
thread.start()
input('ends')
""", asks=True)
    questions = {question.name: question for question in (next_question(session), next_question(session))}
    answer_value(session, questions["ends"], "")
    assert session.finish().error is None
    answer_value(session, questions["waits"], "late")
    reply, asked = run_with_lines(
        session, "go.set(); thread.join(); errors + [input('mine')]", "of the thread", "answered"
    )
    errors = eval(reply.result)
    assert errors[0].startswith("RuntimeError(") and "ended" in errors[0]
    assert errors[1:] == ["of the thread", "answered"] and [q.name for q in asked] == ["late", "mine"]


def test_a_forked_child_cannot_ask(session):
    reply, questions = run_with_lines(session, """
import os
def child():
    try: input('child')
    except RuntimeError as e: os.write(1, str(e).encode())
    os._exit(0)
pid = os.fork()
if pid == 0: child()
os.waitpid(pid, 0)
import multiprocessing
def work(queue):
    import builtins
    try: __import__('limpet_tools').search
    except RuntimeError as e: queue.put('refused')
context = multiprocessing.get_context('fork')
queue = context.Queue()
process = context.Process(target=work, args=(queue,))
process.start()
[queue.get(timeout=30), input('parent')]
""", "p")
    assert reply.result == "['refused', 'p']" and [q.name for q in questions] == ["parent"]
    assert "forked" in reply.stdout


def test_a_copy_knows_nothing_of_questions(session):
    session.start("kept = input('q')", asks=True)
    question = next_question(session)
    answer_value(session, question, "v")
    assert session.finish().error is None
    answer_value(session, question, "stray")
    restored = session.checkpoint().restore()
    reply, questions = run_with_lines(restored, "[kept, input('after')]", "w")
    assert reply.result == "['v', 'w']"


def test_asyncio_waits_too(session):
    reply, _ = run_with_lines(session, "import asyncio\nawait asyncio.sleep(0)\ninput('in a loop')", "x")
    assert reply.result == "'x'"
    session.start("import asyncio\nawait asyncio.sleep(0)\ninput('in a loop')", asks=True)
    next_question(session)
    session.interrupt()
    assert session.finish().error["name"] == "KeyboardInterrupt"


def test_the_debugger_asks(session):
    reply, questions = run_with_lines(session, "def f(x):\n    breakpoint()\n    return x\nf(41)", "p x + 1", "c")
    assert reply.result == "41" and "42" in reply.stdout
    assert [q.name for q in questions] == ["(Pdb) ", "(Pdb) "]
    assert session.run("breakpoint()\n1").error["name"] in ("BdbQuit", "EOFError")
    assert session.value("1 + 1") == 2


def test_code_interact_asks(session):
    reply, _ = run_with_lines(session, "import code\ncode.interact(local={'x': 1})", "print(x + 1)", None)
    assert reply.error is None and "2\n" in reply.stdout


def test_input_with_descriptors_closed(session):
    session.run("import os\nfor fd in range(4):\n    try: os.close(fd)\n    except OSError: pass")
    reply, _ = run_with_lines(session, "input()", "x")
    assert reply.result == "'x'"


def test_a_thread_with_a_small_stack_asks(session):
    code = (
        "import threading\nthreading.stack_size(64 << 10)\nlines = []\n"
        "thread = threading.Thread(target=lambda: lines.append(input()))\nthread.start()\nthread.join()\nlines"
    )
    reply, _ = run_with_lines(session, code, "Ann")
    assert reply.result == "['Ann']"
