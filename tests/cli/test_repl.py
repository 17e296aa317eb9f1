"""limpet repl: a person at a terminal, on a real session."""

import os
import re
import stat
import time

import pytest

PNG = ("import base64; class_ = type('P', (), {'_repr_png_': lambda self: b'\\x89PNG\\r\\n\\x1a\\n' + b'x' * 10, "
       "'__repr__': lambda self: 'a picture'}); class_()")


@pytest.fixture
def limpet(real):
    return real


@pytest.fixture
def prompt(limpet):
    """A prompt on the session `s`, which is new."""
    terminal = limpet.terminal("repl", "-s", "s")
    terminal.last_line(">>>")
    yield terminal
    terminal.close()
    limpet("close", "s")


def answer(terminal, *lines, prompt=">>>"):
    """Enters lines and waits for the prompt; what was shown in between."""
    before = len(terminal.screen.text())
    terminal.seen = len(terminal.raw)
    for line in lines[:-1]:
        go_on(terminal, line)
    terminal.enter(lines[-1])
    terminal.expect(re.escape("\x1b[?2004l"))
    terminal.expect(re.escape(f"\x1b[?2004h{prompt} "))
    return "\n".join(terminal.screen.text()[before:].split("\n")[1:-1])


def go_on(terminal, line):
    """Enters a line of a block, which asks for more."""
    rows = terminal.screen.text().count("\n")
    terminal.enter(line)
    terminal.until(lambda text: text.count("\n") > rows and text.endswith("\n..."), "one more line")
    terminal.listens()


# What is entered, and what it shows


def test_values_and_output(prompt):
    assert answer(prompt, "6 * 7") == "42"
    assert answer(prompt, "x = 'ü'") == ""
    assert answer(prompt, "print(x)") == "ü"
    assert answer(prompt, "print('no line end', end='')") == "no line end"
    assert answer(prompt, "# a comment") == ""
    assert answer(prompt, "") == ""


def test_blocks_go_on_until_they_are_complete(prompt):
    for line in ("def f(a):", "if a:", "return [a,", "2]"):
        go_on(prompt, line)
    prompt.enter("")
    prompt.last_line(">>>")
    assert ">>> def f(a):\n...     if a:\n...         return [a,\n... 2]\n...\n>>>" in prompt.screen.text()
    assert answer(prompt, "f(1)") == "[1, 2]"
    assert answer(prompt, "'''one", "two'''") == "... two'''\n'one\\ntwo'"
    assert answer(prompt, "1 + \\", "2") == "... 2\n3"


def test_backspace_removes_an_indentation(prompt):
    go_on(prompt, "if True:")
    go_on(prompt, "x = 1")
    prompt.type("\x7f")
    prompt.enter("print('outside', x)")
    prompt.shows("\noutside 1\n")


def test_several_statements_are_pasted(prompt):
    prompt.paste("x = 3\ndef f(y):\n\n    return x + y\n\nprint('sum', f(4))\n")
    prompt.shows("print('sum', f(4))")
    assert "\nsum 7" not in prompt.screen.text()  # not before Enter
    prompt.enter("")
    prompt.shows("\nsum 7\n")
    prompt.last_line(">>>")


def test_a_long_paste(prompt):
    lines = [f"n{number} = {number}" for number in range(300)]
    prompt.paste("\n".join(lines) + "\nprint('all', len([n for n in globals() if n[0] == 'n']))")
    prompt.enter("")
    prompt.expect("all 300\r\n")


def test_lines_that_come_at_once(prompt):
    """What is typed ahead, or pasted where the terminal does not mark it."""
    prompt.type("def f():\r    return 'typed ' + 'ahead'\r\rf()\r")
    prompt.shows("\n'typed ahead'\n")


def test_output_comes_as_it_is_written(prompt):
    prompt.enter("print('first', end='', flush=True); line = input()")
    prompt.shows("\nfirst")
    prompt.enter("x")
    prompt.last_line(">>>")


def test_errors(prompt):
    shown = answer(prompt, "1 / 0")
    assert shown.startswith("Traceback (most recent call last):\n") and shown.endswith("\nZeroDivisionError: division by zero")
    assert "SyntaxError" in answer(prompt, "x = )")
    assert "IndentationError" in answer(prompt, "if True:", "")


def test_tracebacks_have_colours(limpet):
    terminal = limpet.terminal("repl", "-s", "coloured", NO_COLOR="")
    terminal.last_line(">>>")
    terminal.enter("1 / 0")
    terminal.expect(re.escape("\x1b[1;31mZeroDivisionError\x1b[0m: division by zero\r\n"))
    terminal.close()
    limpet.good("close", "coloured")


def test_a_figure_is_saved(prompt):
    shown = answer(prompt, PNG)
    path = re.search(r"^figure → (.*/1\.png)$", shown, re.M)[1]
    assert shown.endswith("\na picture")
    with open(path, "rb") as file:
        assert file.read() == b"\x89PNG\r\n\x1a\n" + b"x" * 10
    os.unlink(path)
    os.rmdir(os.path.dirname(path))


def test_artifacts(prompt):
    assert re.search("^/session/artifacts/a.txt → /", answer(
        prompt, "import os; f = open(os.path.expanduser('~/artifacts/a.txt'), 'w'); f.close()"), re.M)


# Questions


def test_input_and_getpass(prompt):
    prompt.enter("name = input('your name? ')")
    prompt.last_line("your name?")
    prompt.enter("Ada")
    prompt.last_line(">>>")
    assert answer(prompt, "name") == "'Ada'"
    prompt.enter("import getpass; word = getpass.getpass('the word? ')")
    prompt.last_line("the word?")
    prompt.enter("hush")
    prompt.last_line(">>>")
    assert "hush" not in prompt.screen.text()
    assert answer(prompt, "word") == "'hush'"


def test_end_of_input(prompt):
    prompt.enter("input('? ')")
    prompt.last_line("?")
    prompt.type("\x04")
    prompt.shows("\nEOFError: ")
    prompt.last_line(">>>")


def test_an_interrupted_question(prompt):
    answer(prompt, "x = 41")
    prompt.enter("input('? ')")
    prompt.last_line("?")
    prompt.type("\x03")
    prompt.shows("\nKeyboardInterrupt")
    prompt.last_line(">>>")
    assert answer(prompt, "x") == "41"


# Keys


def test_an_interrupted_cell_keeps_the_variables(prompt):
    answer(prompt, "x = 41")
    prompt.enter("print('it runs', flush=True); import time; time.sleep(1000)")
    prompt.shows("\nit runs")
    prompt.type("\x03")
    prompt.shows("\nKeyboardInterrupt")
    prompt.last_line(">>>")
    assert answer(prompt, "x") == "41"


def test_ctrl_c_clears_the_line(prompt):
    prompt.type("x = 'never'")
    prompt.shows(">>> x = 'never'")
    prompt.type("\x03")
    prompt.shows("'never'^C\n>>>")
    go_on(prompt, "def f():")
    prompt.type("\x03")
    prompt.last_line(">>>")
    assert "NameError" in answer(prompt, "x")


def test_history_goes_from_one_prompt_to_the_next(limpet, prompt):
    answer(prompt, "def f():", "return 'remembered'", "")
    prompt.type("\x04")
    assert prompt.ends() == 0
    path = limpet.directory / "xdg/limpet/repl_history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = limpet.terminal("repl", "-s", "s")
    again.last_line(">>>")
    answer(again, "f() + ' ' + 'well'")
    again.type("\x1b[A")
    again.last_line(">>> f() + ' ' + 'well'")
    again.type("\x1b[A")
    again.shows("return 'remembered'")
    again.type("\x03")
    again.close()
    assert path.read_text().splitlines()[-2:] == [
        "def f():\\n    return 'remembered'", "f() + ' ' + 'well'"]


def test_completion(prompt):
    answer(prompt, "import string; some_name = string")
    prompt.type("some_n\t")
    prompt.last_line(">>> some_name")
    prompt.type(".ascii_lo\t")
    prompt.last_line(">>> some_name.ascii_lowercase")
    prompt.type("\x03")
    prompt.last_line(">>>")
    prompt.type("isin\t(3, str)")
    prompt.last_line(">>> isinstance(3, str)")
    prompt.type("\x03")
    prompt.last_line(">>>")
    prompt.type("string.ascii_\t")
    prompt.shows("ascii_letters    ascii_lowercase  ascii_uppercase\n>>> string.ascii_")
    prompt.type("\x03")
    prompt.last_line(">>>")
    prompt.type(":che\t")
    prompt.last_line(">>> :checkpoint")
    prompt.type("\x03")
    prompt.last_line(">>>")
    assert "_" not in answer(prompt, "[name for name in dir() if name in ('first', 'rest', 'start', 'value')]")


def test_completion_does_not_wait_for_somebody_elses_call(limpet, prompt):
    busy = limpet.start("run", "-s", "s", "-c", "input()", stdin=-1)
    while limpet.sessions()["s"]["status"] != "running":
        pass
    prompt.type("isin\t")
    prompt.last_line(">>> isinstance")
    prompt.type(".\tx")
    prompt.last_line(">>> isinstance.x")
    busy.communicate(b"\n", timeout=60)


# Commands


def test_checkpoint_and_rollback(prompt):
    answer(prompt, "x = 1")
    assert "there is no manual checkpoint" in answer(prompt, ":rollback")
    assert re.search(r" 'first', after call \d+$", answer(prompt, ":checkpoint first"))
    answer(prompt, "x = 2")
    answer(prompt, ":checkpoint")
    answer(prompt, "x = 3")
    assert re.match("s is as after call ", answer(prompt, ":rollback"))
    assert answer(prompt, "x") == "2"
    answer(prompt, ":rollback first")
    assert answer(prompt, "x") == "1"
    listed = answer(prompt, ":checkpoints")
    assert listed.startswith("CHECKPOINT") and " first " in listed
    assert "NoSuchCheckpoint" in answer(prompt, ":rollback nothing")


def test_branches(prompt):
    answer(prompt, "x = 1")
    assert answer(prompt, ":branch try", prompt="try>>>") == "cells run in s/try"
    answer(prompt, "x = 2", prompt="try>>>")
    answer(prompt, ":branch")
    assert answer(prompt, "x") == "1"
    answer(prompt, ":branch try", prompt="try>>>")
    assert answer(prompt, "x", prompt="try>>>") == "2"
    answer(prompt, ":commit")
    assert answer(prompt, "x") == "2"


def test_variables_and_files(limpet, prompt):
    (limpet.directory / "here.txt").write_text("from here\n")
    answer(prompt, "x = 41")
    assert re.search(r"^x +int .* 41$", answer(prompt, ":vars"), re.M)
    assert answer(prompt, ":put here.txt") == "here.txt → /session/here.txt"
    assert answer(prompt, "open('here.txt').read()") == "'from here\\n'"
    assert re.search(r"^here.txt +10B$", answer(prompt, ":files"), re.M)
    assert answer(prompt, ":get here.txt 'a copy'") == "here.txt → a copy"
    assert (limpet.directory / "a copy").read_text() == "from here\n"
    assert "NoSuchFile" in answer(prompt, ":get missing")
    assert answer(prompt, ":put").startswith("limpet: usage: :put LOCAL [PATH]")


def test_reset_time_and_help(prompt):
    answer(prompt, "x = 41")
    assert "new interpreter" in answer(prompt, ":reset")
    assert "NameError" in answer(prompt, "x")
    answer(prompt, ":time")
    assert re.fullmatch(r"2\n\S+ s", answer(prompt, "1 + 1"))
    assert ":rollback [ID|NAME]" in answer(prompt, ":help")
    assert "unknown command ':nothing'" in answer(prompt, ":nothing")


# What becomes of the variables, and of the session


def test_rolled_back_is_said(prompt):
    answer(prompt, "x = 41")
    answer(prompt, ":checkpoint")
    shown = answer(prompt, "import os; os._exit(3)")
    assert "limpet: exited: Exited: " in shown and "its variables are as they were after call" in shown
    assert answer(prompt, "x") == "41"


def test_ctrl_d_leaves_the_session(limpet, prompt):
    answer(prompt, "x = 41")
    prompt.type("\x04")
    assert prompt.ends() == 0
    assert "Session s stays open until it is idle for 1h00m. Return with 'limpet repl -s s'" in prompt.screen.text()
    again = limpet.terminal("repl", "-s", "s")
    again.last_line(">>>")
    assert answer(again, "x") == "41"
    again.close()


def test_an_open_prompt_keeps_its_session(limpet):
    terminal = limpet.terminal("repl", "-s", "short", "--ttl", "9", "--ttl-action", "close")
    terminal.last_line(">>>")
    idle = [limpet.sessions()["short"]["idle"]]
    while idle[-1] >= max(idle):  # until something was asked of it
        time.sleep(0.1)
        idle.append(limpet.sessions()["short"]["idle"])
    terminal.type("\x04")
    assert terminal.ends() == 0
    end = time.monotonic() + 60
    while "short" in limpet.sessions():  # its ttl later
        assert time.monotonic() < end
        time.sleep(0.1)
    terminal.close()


def test_a_session_of_its_own_is_closed(limpet):
    terminal = limpet.terminal("repl")
    terminal.last_line(">>>")
    name = re.search("session (repl-[0-9a-f]{8}) ", terminal.screen.text())[1]
    assert name in limpet.sessions()
    terminal.enter("exit()")
    assert terminal.ends() == 0
    assert f"Session {name} is closed." in terminal.screen.text()
    assert name not in limpet.sessions()


def test_a_session_that_is_gone(limpet, prompt):
    answer(prompt, "x = 41")
    limpet.good("close", "s")
    assert "without the variables" in answer(prompt, "x")
    assert "NameError" in answer(prompt, "x")


def test_without_a_terminal(limpet):
    result = limpet("repl", input=b"1 + 1\n")
    assert result.returncode == 2
    assert "use 'limpet run -s SESSION -' to run code from a pipe" in result.err
