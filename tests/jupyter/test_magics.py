"""The commands of IPython that people type."""

import re

import pytest


def plain(cell):
    """The traceback without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", cell.traceback)


def page(cell):
    (payload,) = cell.reply["payload"]
    return payload["data"]["text/plain"]


class TestTime:
    def test_a_line(self, notebook):
        cell = notebook.run("%time timed = sum(range(10))")
        assert cell.stdout.startswith("CPU times: user ") and "Wall time: " in cell.stdout
        assert notebook.run("timed").result == "45"
        assert notebook.run("%time 6 * 7").result == "42"
        assert notebook.run("got = %time 6 * 7\ngot").result == "42"

    def test_a_cell(self, notebook):
        cell = notebook.run("%%time\ntimed_cell = 20\n!echo shell\ntimed_cell * 2 + 2")
        assert cell.result == "42" and cell.stdout.startswith("shell\nCPU times: ")
        assert notebook.run("timed_cell").result == "20"

    def test_an_error_shows_the_line_of_the_cell(self, notebook):
        cell = notebook.run("%%time\nfine = 1\nfine / 0  # here")
        count = cell.reply["execution_count"]
        assert cell.status == "error" and "limpet_magics" not in plain(cell)
        assert f'  File "<cell {count}>", line 3, in <module>\n    fine / 0  # here' in plain(cell)
        assert "    %%time\n" in plain(cell) and "Wall time" in cell.stdout

    def test_names_of_a_function_and_await(self, notebook):
        assert notebook.run("def f(local):\n    %time print(local)\nf('mine')").stdout.startswith("mine\n")
        code = "%%time\nimport asyncio\nawait asyncio.sleep(0, 'waited')"
        assert notebook.run(code).result == "'waited'"

    def test_precision(self, notebook):
        notebook.run("%precision 3")
        assert notebook.run("[1 / 3]").result == "[0.333]"
        notebook.run("%precision")
        assert notebook.run("1 / 3").result == "0.3333333333333333"

    def test_timeit(self, notebook):
        notebook.run("runs = []")
        cell = notebook.run("%timeit -n 3 -r2 runs.append('{x} $y')")
        assert "per loop (mean ± std. dev. of 2 runs, 3 loops each)" in cell.stdout
        assert notebook.run("runs").result == repr(["{x} $y"] * 6)
        quiet = notebook.run("%%timeit -q -o -n1 -r1 begun = 'set up'\nruns.append(begun)\nruns.append(2)")
        assert quiet.stdout == "" and quiet.result.startswith("<TimeitResult : ")
        assert notebook.run("runs[-2:]").result == "['set up', 2]"


class TestShell:
    def test_values_in_a_line(self, notebook):
        notebook.run("word = 'two  words'\nnumbers = [1, 2]\nHOME_OF = 'x'")
        cell = notebook.run("!echo '{word}' $word {numbers[1] + 40:04d} {{kept}} $$ $HOME_OF/y")
        first, pid, last = cell.stdout.partition("{kept} ")
        assert first == "two  words two words 0042 " and last.split()[1] == "x/y"
        assert notebook.run("!printf '%s|' $no_such_name {no_such_name}").stdout == "{no_such_name}|"
        assert notebook.run("!echo a b | awk '{print $2}'").stdout == "b\n"
        assert notebook.run("inner = [f'{n}' for n in numbers]\n!echo $inner").stdout == "[1, 2]\n"
        assert notebook.run("lines = !echo {word}\nlines").result == "['two words']"
        inside = "def f(local):\n    !echo $local {local * 2}\nf('a')"
        assert notebook.run(inside).stdout == "a aa\n"

    def test_bash(self, notebook):
        assert notebook.run("%%bash\nfor i in 1 2; do\n  echo \"$i\"\ndone").stdout == "1\n2\n"
        failed = notebook.run("%%bash\nexit 3")
        assert failed.of("error")[0]["ename"] == "CalledProcessError"
        assert notebook.run("%%bash --no-raise-error\nexit 3").status == "ok"
        notebook.run("%%bash --out said --err=complained\necho out\necho err >&2")
        assert notebook.run("said, complained").result == "('out\\n', 'err\\n')"
        assert notebook.run("!exit 4").status == "ok" and notebook.run("_exit_code").result == "4"

    def test_interrupts_end_it(self, notebook):
        request = notebook.start("%%bash\necho begun\nsleep 100\necho never")
        notebook.until(request, lambda message: message["content"].get("text") == "begun\n")
        notebook.manager.interrupt_kernel()
        cell = notebook.finish(request)
        assert cell.of("error")[0]["ename"] == "KeyboardInterrupt" and cell.stdout == ""


class TestFiles:
    def test_directories(self, notebook):
        home = notebook.run("%pwd").result
        assert notebook.run("%mkdir sub-directory\n%cd sub-directory").stdout.endswith("/sub-directory\n")
        assert notebook.run("!pwd").stdout.endswith("/sub-directory\n")
        back = notebook.run("%cd -q -\nwhere = %pwd\nwhere")
        assert back.result == home and back.stderr == ""
        assert "No such file" in notebook.run("%cd nowhere").stdout

    def test_the_environment(self, notebook):
        assert notebook.run("value = 7\n%env MAGIC_A=b c\n%set_env MAGIC_B $value").stdout == (
            "env: MAGIC_A=b c\nenv: MAGIC_B=7\n"
        )
        assert notebook.run("!echo $MAGIC_A $MAGIC_B").stdout == "b c 7\n"
        assert notebook.run("%env MAGIC_A").result == "'b c'"
        assert notebook.run("all_of_it = %env\nall_of_it['MAGIC_B']").result == "'7'"
        wrong = notebook.run("x = %env NO_SUCH")
        assert wrong.of("error")[0]["ename"] == "UsageError" and "    x = %env NO_SUCH\n" in plain(wrong)

    def test_written_and_run(self, notebook):
        written = notebook.run("%%writefile program.py\nimport sys\nmade = sys.argv[1:], __name__\ndef f(): return made\n")
        assert written.stdout == "Writing program.py\n"
        notebook.run("%run program.py a 'b c'")
        assert notebook.run("f()").result == "(['a', 'b c'], '__main__')"
        assert notebook.run("%%writefile -a program.py\nprint(of_the_session)").stdout == "Appending to program.py\n"
        assert "NameError" in notebook.run("of_the_session = 'seen'\n%run program").traceback
        assert notebook.run("%run -i program.py").stdout == "seen\n"
        assert notebook.run("%%writefile program.py\nimport sys; sys.exit(0)").stdout == "Overwriting program.py\n"
        assert notebook.run("%run program.py").status == "ok"


def test_variables(notebook):
    notebook.run("import sys\nwho_text = 'a' * 1000\nwho_list = [1, 2]\n_hidden = 0")
    names = notebook.run("found = %who_ls\nfound").result
    assert "'who_text'" in names and "'sys'" in names and "_hidden" not in names
    assert notebook.run("%who_ls list").result.count("who_list") == 1
    assert "who_list" in notebook.run("%who").stdout.replace("\t", "").split()
    table = notebook.run("%whos str list").stdout.splitlines()
    assert table[0].split() == ["Variable", "Type", "Data/Info"]
    assert ["who_list", "list", "n=2"] in [line.split() for line in table]
    assert all(len(line) < 150 for line in table)
    assert notebook.run("%who no_such_type").stdout == "No variables match your requested type.\n"


@pytest.mark.parametrize(
    ("name", "mime", "body"),
    [
        ("html", "text/html", "<b>bold</b>\n"),
        ("markdown", "text/markdown", "*text*\n"),
        ("latex", "text/latex", "$x^2$\n"),
    ],
)
def test_text_is_shown_as_what_it_is(notebook, name, mime, body):
    (display,) = notebook.run(f"%%{name}\n{body}").of("display_data")
    assert display["data"][mime] == body


class TestCapture:
    def test_everything(self, notebook):
        code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n!echo shell\ndisplay({'text/html': '<i>i</i>'}, raw=True)\n42"
        assert notebook.run("%%capture kept\n" + code).shown == []
        assert notebook.run("kept.stdout, kept.stderr, len(kept.outputs)").result == "('out\\nshell\\n', 'err\\n', 2)"
        again = notebook.run("kept()")
        assert (again.stdout, again.stderr) == ("out\nshell\n", "err\n")
        assert [shown["data"] for shown in again.of("display_data")][0]["text/html"] == "<i>i</i>"

    def test_a_part(self, notebook):
        assert notebook.run("%%capture --no-stdout\nprint('seen')\n1").stdout == "seen\n"
        assert notebook.run("%%capture\nprint('not seen')\n1").shown == []

    def test_what_was_shown_before_an_error_is_kept(self, notebook):
        cell = notebook.run("%%capture until\nprint('before')\n1 / 0")
        assert "ZeroDivisionError" in cell.traceback and cell.stdout == ""
        assert notebook.run("print(until, end='')\ndisplay('shown')").stdout == "before\n"


class TestWhatIpythonBrings:
    """Any of its commands: these need more of its shell than most."""

    def test_a_debugger_that_asks_in_the_notebook(self, notebook):
        notebook.run("def fails(found):\n    return 1 / found\nfails(0)")
        request = notebook.start("%debug")
        for answer in ("p found + 41", "q"):
            assert notebook.client.get_stdin_msg(timeout=60)["content"]["prompt"] == "ipdb> "
            notebook.client.input(answer)
        assert "\n41\n" in notebook.finish(request).stdout

    def test_an_extension_that_wants_to_know_of_each_cell(self, notebook):
        notebook.run("%load_ext autoreload\n%autoreload 2\n%cd -q ~")
        notebook.run("%%writefile reloaded_module.py\nvalue = 1")
        assert notebook.run("import os, reloaded_module\nreloaded_module.value").result == "1"
        notebook.run("%%writefile reloaded_module.py\nvalue = 'another'\n")
        notebook.run("os.utime('reloaded_module.py', (0, 9999999999))")
        assert notebook.run("reloaded_module.value").result == "'another'"
        notebook.run("%autoreload 0")

    def test_the_texts_of_cells(self, notebook):
        count = notebook.run("remembered = 6 * 7").reply["execution_count"]
        assert notebook.run(f"%history {count}").stdout == "remembered = 6 * 7\n"
        notebook.run("del remembered")
        notebook.run(f"%rerun {count}")
        assert notebook.run("remembered").result == "42"

    def test_a_profile(self, notebook):
        assert "function calls" in page(notebook.run("%prun sum(range(10))"))

    def test_its_options(self, notebook):
        assert "HistoryManager" in notebook.run("%config").stdout

    def test_other_programs(self, notebook):
        assert notebook.run("%%script cat\nbody").stdout == "body\n"

    def test_names_are_deleted_and_the_session_goes_on(self, notebook):
        notebook.run("deleted = 1")
        assert notebook.run("%reset -f").stderr == ""
        assert notebook.run("'deleted' in globals(), __name__").result == "(False, '__main__')"
        assert notebook.run("_").result == "(False, '__main__')"

    def test_what_its_commands_run_ends_the_cell(self, notebook):
        notebook.run("%%writefile failing.py\nbefore_it = 1\n1 / 0")
        cell = notebook.run("%run failing.py\nnever = 1")
        assert cell.of("error")[0]["ename"] == "ZeroDivisionError" and "IPython" not in plain(cell)
        assert '  File "' in plain(cell) and "failing.py" in plain(cell)
        assert notebook.run("before_it, 'never' in globals()").result == "(1, False)"

    def test_it_leaves_no_thread_and_the_last_value(self, own_notebook):
        notebook = own_notebook()
        notebook.run("'the last one'")
        assert notebook.run("%env NOTHING=1\nimport threading\nthreading.active_count(), _").result == "(1, 'the last one')"

    def test_cells_without_its_commands_do_not_import_it(self, own_notebook):
        notebook = own_notebook()
        notebook.run("!true\nx = !true\n%time 1\n%matplotlib inline\n%ls")
        assert notebook.run("import sys\n'IPython' in sys.modules").result == "False"


@pytest.mark.parametrize("code", ["%config InlineBackend.figure_format = 'svg'", "%matplotlib widget"])
def test_what_is_ignored_says_so(notebook, code):
    cell = notebook.run(f"{code}\n7")
    assert cell.result == "7" and f"limpet: {code} is ignored" in cell.stderr


def test_what_needs_nothing_says_nothing(notebook):
    assert notebook.run("%matplotlib inline").shown == []


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("%no_such_command", "not found"),
        ("%timeit -z 1", "option -z"),
        ("%%time 1\n1", "nothing in its own line"),
        ("%%bash --bg\nls", "--bg"),
        ("%%bash a\nls", "'a'"),
    ],
)
def test_wrong_use_is_told(notebook, code, says):
    cell = notebook.run(code)
    assert cell.of("error")[0]["ename"] == "UsageError" and says in cell.traceback


def test_two_question_marks_show_the_source(notebook):
    notebook.run("def with_source():\n    return 'the body'")
    assert "return 'the body'" in page(notebook.run("with_source??"))
    assert "return 'the body'" not in page(notebook.run("with_source?"))
    inspected = notebook.ask("inspect", "with_source", 5, detail_level=1)["data"]["text/plain"]
    assert "return 'the body'" in inspected


def test_pip_asks_and_is_told(notebook):
    """Where the session does not let it install it says what to do; what there is it lists."""
    refused = notebook.run("%pip install no-such-package-of-limpet")
    assert refused.stdout.startswith("ERROR: pip may install nothing") and "pip=" in refused.stdout
    assert notebook.run("%pip --version").stdout.startswith("pip ")


def test_the_shell_that_code_asks_for(notebook):
    """As notebooks that were made scripts have it."""
    assert notebook.run("type(get_ipython()).__name__").result == "'ZMQInteractiveShell'"
    code = "word = 'hi'\nget_ipython().run_line_magic('matplotlib', 'inline')\nget_ipython().system('echo {word}')"
    assert notebook.run(code).stdout == "hi\n"
    assert notebook.run("get_ipython().getoutput('echo $word')").result == "['hi']"
    assert notebook.run("get_ipython().run_cell_magic('bash', '', 'echo cell')").stdout == "cell\n"
    assert "%nothing` not found" in notebook.run("get_ipython().run_line_magic('nothing', '')").traceback
    code = "import IPython\nget_ipython().user_ns is globals(), IPython.get_ipython() is get_ipython()"
    assert notebook.run(code).result == "(True, True)"
