"""run_code(), with the code interpreter's own client."""

import asyncio
import threading
import time

import pytest
from e2b_code_interpreter import AsyncSandbox, NotFoundException, Sandbox, TimeoutException

from .conftest import until


def test_variables_stay_and_the_last_value_is_the_text(sandbox):
    assert sandbox.run_code("x = 41").text is None
    execution = sandbox.run_code("x += 1; x")
    assert execution.text == "42"
    assert execution.execution_count == 2
    assert execution.error is None


def test_a_text_has_no_quotes(shared):
    assert shared.run_code("'it is'").text == "it is"


def test_output_streams_while_the_code_runs(shared):
    seen = []
    code = "import sys, time\nprint('one', flush=True)\nprint('err', file=sys.stderr, flush=True)\nprint('two')\n3"
    execution = shared.run_code(
        code,
        on_stdout=lambda message: seen.append(("out", message.line)),
        on_stderr=lambda message: seen.append(("err", message.line)),
        on_result=lambda result: seen.append(("result", result.text)),
    )
    assert "".join(execution.logs.stdout) == "one\ntwo\n"
    assert "".join(execution.logs.stderr) == "err\n"
    assert seen[0][0] == "out" and seen[0][1].startswith("one") and seen[-1] == ("result", "3")


def test_what_ends_later_comes_with_the_next_run(shared):
    shared.run_code(
        "import os, threading, time\n"
        "def late():\n    while not os.path.exists('now'): time.sleep(0.02)\n    print('late'); 1 / 0\n"
        "threading.Thread(target=late).start()"
    )
    shared.files.write("now", "")
    out, err, end = "", "", time.monotonic() + 60
    while "ZeroDivisionError" not in err and time.monotonic() < end:
        logs = shared.run_code("time.sleep(0.05)", envs={"A": "1"}).logs
        out, err = out + "".join(logs.stdout), err + "".join(logs.stderr)
    assert out == "late\n" and "ZeroDivisionError" in err


def test_output_comes_before_the_end(shared):
    first = threading.Event()
    shared.run_code("import threading; gate = threading.Event()")
    running = threading.Thread(
        target=shared.run_code,
        args=("import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.02)",),
        kwargs={"on_stdout": lambda message: first.set()},
    )
    running.start()
    assert first.wait(60)
    shared.files.write("go", "")
    running.join(60)
    assert not running.is_alive()
    shared.files.remove("go")


def test_errors_have_name_value_and_traceback(shared):
    errors = []
    execution = shared.run_code("def f():\n    1 / 0\nf()", on_error=errors.append)
    assert execution.error.name == "ZeroDivisionError"
    assert execution.error.value == "division by zero"
    assert "1 / 0" in execution.error.traceback
    assert errors == [execution.error]


def test_displays_are_results_and_the_value_is_the_main_one(shared):
    code = """
class Rich:
    def _repr_html_(self): return '<b>rich</b>'
    def _repr_mimebundle_(self, **kwargs): return {'application/x-mine': 'm', 'image/png': b'\\x89PNG'}
display(Rich())
Rich()
"""
    execution = shared.run_code("from IPython.display import display" + code)
    shown, value = execution.results
    assert shown.html == value.html == "<b>rich</b>"
    assert (shown.is_main_result, value.is_main_result) == (False, True)
    assert value.png == "iVBORw==" and value.extra == {"application/x-mine": "m"}
    assert "Rich object" in value.text


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import os; print(os.environ.get('COLOUR'), os.environ.get('OLD'))"),
        ("bash", "echo ${COLOUR-None} ${OLD-None}"),
        ("javascript", "console.log(process.env.COLOUR ?? 'None', process.env.OLD ?? 'None')"),
        pytest.param("java", 'System.out.println(System.getProperty("COLOUR", "None") + " " + System.getProperty("OLD", "None"));', marks=pytest.mark.long),
    ],
)
def test_environment_of_one_call(sandbox, language, code, isolates):
    if language == "java" and isolates:
        pytest.skip("the default image has no Java")
    first = sandbox.run_code(code, language=language, envs={"COLOUR": "b'l\"ue $x", "OLD": "new"})
    assert "".join(first.logs.stdout) == "b'l\"ue $x new\n"
    again = sandbox.run_code(code, language=language)
    assert "".join(again.logs.stdout) == "None None\n"
    assert again.execution_count == first.execution_count + 1


def test_names_of_variables_are_names(shared):
    with pytest.raises(Exception, match="no name of a variable"):
        shared.run_code("echo", language="bash", envs={"A; touch x; B": "1"})


def test_code_may_be_indented(shared):
    execution = shared.run_code("\n    if True:\n        y = 6\n    y * 7\n    ")
    assert (execution.error, execution.text) == (None, "42")


@pytest.mark.parametrize("says", ["", "print('on', flush=True); "])
def test_code_whose_sandbox_is_killed_breaks_off(where, says):
    sandbox = Sandbox.create(**where)

    def kill():
        until(lambda: sandbox.files.exists("begun"))
        sandbox.kill()

    killing = threading.Thread(target=kill)
    killing.start()
    with pytest.raises(TimeoutException, match="sandbox was killed while the request was in progress"):
        sandbox.run_code(f"import time; {says}open('begun', 'w').close(); time.sleep(600)")
    killing.join()


def test_code_and_commands_and_files_share_a_home(sandbox):
    sandbox.run_code("open('note.txt', 'w').write('from code')")
    assert sandbox.files.read("note.txt") == "from code"
    assert sandbox.commands.run("cat note.txt").stdout == "from code"
    where = sandbox.run_code("import os; os.getcwd(), os.path.expanduser('~')").text
    assert where == repr((sandbox.commands.run("pwd").stdout.strip(),) * 2)


def test_contexts_have_variables_of_their_own(sandbox):
    sandbox.run_code("x = 1")
    sandbox.files.make_dir("work")
    context = sandbox.create_code_context(cwd="work")
    assert (context.language, context.cwd.rpartition("/")[2]) == ("python", "work")
    assert not context.id.isalpha()  # as a language is, which also names a context
    assert sandbox.run_code("x", context=context).error.name == "NameError"
    execution = sandbox.run_code("x = 2; import os; os.getcwd()", context=context)
    assert execution.text.endswith("/work") and execution.execution_count == 2
    assert sandbox.run_code("x").text == "1"
    assert context.id in [each.id for each in sandbox.list_code_contexts()]
    sandbox.restart_code_context(context)
    assert sandbox.run_code("x", context=context).error.name == "NameError"
    sandbox.remove_code_context(context)
    assert context.id not in [each.id for each in sandbox.list_code_contexts()]
    with pytest.raises(NotFoundException, match="not found"):
        sandbox.run_code("1", context=context)


def test_the_first_context_is_listed_and_can_be_restarted(sandbox):
    sandbox.run_code("x = 1")
    python = next(each for each in sandbox.list_code_contexts() if each.language == "python")
    assert sandbox.run_code("x", context=python).text == "1"
    sandbox.restart_code_context(python)
    execution = sandbox.run_code("import os; os.getcwd()", context=python)
    assert execution.text == python.cwd
    assert sandbox.run_code("x").error.name == "NameError"


@pytest.mark.parametrize("language", ["bash", "javascript", "js"])
def test_other_languages(shared, language, isolates):
    if language != "bash" and isolates:
        pytest.skip("the default image has no JavaScript")
    code = "y=3; echo $y" if language == "bash" else "var y = 3; console.log(y)"
    execution = shared.run_code(code, language=language)
    assert execution.error is None, execution.error
    assert "".join(execution.logs.stdout) == "3\n"
    again = "echo $y$y" if language == "bash" else "console.log(`${y}${y}`)"
    assert "".join(shared.run_code(again, language=language).logs.stdout) == "33\n"


def test_javascript_is_there_from_the_start(shared):
    assert {"python", "javascript"} <= {each.language for each in shared.list_code_contexts()}


def test_an_unknown_language_is_told(shared):
    with pytest.raises(Exception, match="(?s)cobol.*python"):
        shared.run_code("1", language="cobol")


def test_who_leaves_interrupts_the_code(shared):
    async def leave():
        where = shared.connection_config
        sandbox = await AsyncSandbox.connect(
            shared.sandbox_id, api_key=where.api_key, api_url=where.api_url, sandbox_url=where._sandbox_url
        )
        begun = asyncio.Event()
        code = "left = False\nimport time\nprint('on', flush=True)\ntry:\n    time.sleep(600)\nfinally:\n    left = True"
        running = asyncio.ensure_future(sandbox.run_code(code, on_stdout=lambda message: begun.set()))
        await asyncio.wait_for(begun.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(leave())
    assert until(lambda: shared.run_code("left").text) == "True"


@pytest.mark.parametrize("code", ["import os; os._exit(3)", "import ctypes; ctypes.string_at(0)"])
def test_a_rolled_back_state_is_told_after_what_the_code_did(sandbox, code, protect):
    sandbox.run_code("kept = 7")
    protect(sandbox)
    errors = []
    execution = sandbox.run_code(f"print('before', flush=True)\n{code}", on_error=errors.append)
    assert "".join(execution.logs.stdout) == "before\n"
    assert [error.name for error in errors][0] in ("Exited", "Crashed")
    assert [error.name for error in errors][-1] == "StateRolledBack"
    assert execution.error.name == "StateRolledBack"
    assert "as they were after call 1" in errors[0].value and errors[0].value in errors[-1].value
    assert errors[-1].value.endswith(". the variables are as they were after call 1")
    assert sandbox.run_code("kept").text == "7"
    assert sandbox.run_code("import os; os.getcwd()").text == sandbox.commands.run("pwd").stdout.strip()
    assert sandbox.get_info().state.value == "running"


def test_sync_and_async_clients_share_a_sandbox(shared, where):
    async def both():
        sandbox = await AsyncSandbox.connect(shared.sandbox_id, **where)
        first = await sandbox.run_code("shared_value = 5")
        assert first.error is None
        return await asyncio.gather(*(sandbox.run_code(f"shared_value + {number}") for number in range(5)))

    assert [each.text for each in asyncio.run(both())] == ["5", "6", "7", "8", "9"]
    assert Sandbox.connect(shared.sandbox_id, **where).run_code("shared_value").text == "5"


def test_commands_of_notebooks(shared):
    assert "".join(shared.run_code("!echo one\nnames = !echo two\nif True:\n    !echo {names[0]}").logs.stdout) == "one\ntwo\n"
    assert "".join(shared.run_code("%%bash\necho in bash").logs.stdout) == "in bash\n"
    assert shared.run_code("%pwd").text == shared.commands.run("pwd").stdout.strip()
    assert shared.run_code("text = '''\n!echo no\n'''\ntext").text == "\\n!echo no\\n"
    assert "`%nonsense` not found" in shared.run_code("%nonsense here").error.value
