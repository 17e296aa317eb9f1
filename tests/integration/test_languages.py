"""Languages besides Python and bash, where this machine has them."""

import os

import limpet
import pytest

from .killed import wait_for

LIVE = {
    "javascript": {
        "set": "let x = 41",
        "get": "x + 1",
        "print": "console.log('out'); console.error('err')",
        "fail": "function f() {\n  throw new TypeError('no good')\n}\nf()",
        "error": ("TypeError", "no good", "cell 4:2"),
        "loop": "while (true) {}",
        "wait": "await new Promise((resolve) => setTimeout(resolve, 100000))",
        "syntax": "let = = 3",
        "end": "process.exit(3)",
        "show": "display({'text/html': '<b>hi</b>'})",
    },
    "typescript": {
        "set": "let x: number = 41",
        "get": "(x as number) + 1",
        "print": "console.log('out'); console.error('err')",
        "fail": "function f(): never { throw new TypeError('no good') }\nf()",
        "error": ("TypeError", "no good", "cell 4"),
        "loop": "while (true) {}",
        "wait": "await new Promise<void>((resolve) => setTimeout(resolve, 100000))",
        "syntax": "let = = 3",
        "end": "process.exit(3)",
        "show": "display({'text/html': '<b>hi</b>'})",
    },
    "ruby": {
        "set": "x = 41",
        "get": "x + 1",
        "print": "puts 'out'; warn 'err'",
        "fail": "def f\n  raise TypeError, 'no good'\nend\nf",
        "error": ("TypeError", "no good", "cell 4:2"),
        "loop": "loop {}",
        "wait": "sleep",
        "syntax": "def (",
        "end": "exit!(3)",
        "show": "Limpet.display('text/html' => '<b>hi</b>')",
    },
}

PROGRAMS = {
    "c": ('#include <stdio.h>\nint main(void) { puts("out"); fputs("err\\n", stderr); return 3; }', "int main(void) { return y; }",
          "int pause(void); int main(void) { for (;;) pause(); }", "int main(void) { *(volatile int *)0 = 1; }"),
    "cpp": ('#include <iostream>\nint main() { std::cout << "out\\n"; std::cerr << "err\\n"; return 3; }', "int main() { return y; }",
            "#include <unistd.h>\nint main() { for (;;) pause(); }", "#include <cstdlib>\nint main() { *(volatile int *)0 = 1; }"),
}  # fmt: skip


JAVA = "public class Sum {\n  public static void main(String[] words) {\n    %s\n  }\n}\n"


@pytest.fixture(autouse=True)
def of_this_machine(limpetd):
    if limpetd.isolates and "LIMPET_IMAGE" not in os.environ:
        pytest.skip("the default image has Python and bash")


@pytest.fixture
def r(session):
    try:
        return session.context(language="r")
    except limpet.BadRequest as error:
        pytest.skip(str(error))


def test_r(r):
    r.run("x <- 41")
    assert r.run("x + 1").result == "[1] 42"
    assert r.run("cat('out\n'); message('err')").stdout == "out\n"
    plots = r.run("plot(1:3); hist(c(1, 2, 2)); invisible(3)")
    assert [display.data["image/png"][1:4] for display in plots.displays] == [b"PNG"] * 2 and plots.result is None
    for code in "while (TRUE) {}", "Sys.sleep(1000)":
        assert (r.run(code, timeout=0.5).status, r.run("x").result) == ("timeout", "[1] 41")
    assert r.run("quit(status = 3)").state == "lost"


def test_where_r_has_failed(r):
    r.run("f <- function(x) {\n  stop('no good')\n}\ng <- function() f(1)")
    traceback = r.run("1\ng()").error.traceback
    assert traceback == "Error in f(1): no good\n  cell 2:2: g()\n  cell 1:4: f(1)\n  cell 1:2: stop(\"no good\")\n"
    assert r.run("let = = 3").error.traceback.startswith("Error: cell 3:1:7: unexpected '='")


@pytest.fixture(params=LIVE)
def live(request, session):
    context = session.context(language=request.param)
    context.words = LIVE[request.param]
    return context


@pytest.fixture(params=PROGRAMS)
def program(request, session):
    context = session.context(language=request.param)
    context.words = PROGRAMS[request.param]
    return context


def test_variables_stay(live):
    live.run(live.words["set"])
    result = live.run(live.words["get"])
    assert (result.result, result.kind, result.state) == ("42", live.language, "kept")


def test_streams(live):
    result = live.run(live.words["print"])
    assert (result.stdout, result.stderr, result.result) == ("out\n", "err\n", None)


def test_errors(live):
    name, message, place = live.words["error"]
    live.run(live.words["set"])
    live.run(live.words["get"])
    live.run("1")
    result = live.run(live.words["fail"])
    assert (result.status, result.error.name, result.error.message) == ("error", name, message)
    assert place in result.error.traceback and "limpet" not in result.error.traceback
    result = live.run(live.words["syntax"])
    assert result.status == "error" and "yntax" in result.error.traceback + result.error.name
    assert live.run(live.words["get"]).result == "42"


@pytest.mark.parametrize("how", ["loop", "wait"])
def test_interrupts_keep_the_variables(live, how):
    live.run(live.words["set"])
    result = live.run(live.words[how], timeout=0.5)
    assert (result.status, result.state) == ("timeout", "kept")
    assert live.run(live.words["get"]).result == "42"


def test_interrupts_while_ruby_answers_keep_the_variables(session):
    """What was raised says what it is with code of the cell, and takes until it is interrupted again."""
    ruby = session.context(language="ruby")
    ruby.run("x = 41")
    ruby.run("""
        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        class Slow < Exception
          def message
            @until ||= now + 0.8
            nil while now < @until
            'slow'
          end
        end
    """)
    result = ruby.run("begin\n  sleep\nrescue Interrupt\n  raise Slow\nend", timeout=0.5)
    assert (result.status, result.state) == ("timeout", "kept")
    assert ruby.run("x + 1").result == "42"


def test_its_end(live):
    live.run(live.words["set"])
    result = live.run(live.words["end"])
    assert (result.status, result.state, result.exit_code) == ("exited", "lost", 3)
    assert live.run(live.words["get"]).status == "error"


def test_displays(live):
    assert live.run(live.words["show"]).displays[0].data == {"text/html": "<b>hi</b>"}


def test_rich_values_of_javascript(session):
    png = "Buffer.from('89504e470d0a1a0a', 'hex')"
    assert session.run(png, language="js").displays[0].data["image/png"] == bytes.fromhex("89504e470d0a1a0a")
    shown = session.run("({[Symbol.for('Jupyter.display')]: () => ({'text/html': '<i>a</i>'})})", language="js")
    assert shown.displays[0].data["text/html"] == "<i>a</i>"


def test_javascript_imports_modules_and_the_cell_may_run_again(session):
    cell = "import os, { EOL as end,\n  type } from 'node:os'\nimport * as path from \"path\"\n[typeof os.type, end, typeof type, path.sep].join()"
    for _ in range(2):
        assert session.run(cell, language="js").result == r"'function,\n,function,/'"
    assert "nowhere" in session.run("import x from 'nowhere'", language="js").error.message
    assert session.run("import { type as kind } from 'os'; typeof kind as string", language="ts").result == "'function'"


def test_what_javascript_does_later(session):
    later = """
        const fs = require('fs')
        const timer = setInterval(() => {
            if (!fs.existsSync('go')) return
            clearInterval(timer)
            fs.writeFileSync('late', '')
            throw new Error('late')
        }, 10)
    """
    session.run(later, language="js")
    session.files.write("go", "")
    wait_for(lambda: session.files.exists("late"))
    assert "late" in session.run("await 1; 2", language="js").stderr
    result = session.run("Promise.reject(new Error('nobody')); await new Promise((r) => setTimeout(r, 100000))", language="js")
    assert (result.error.message, result.state) == ("nobody", "kept")
    assert session.run("3", language="js").result == "3"


def test_types_are_taken_away_not_checked_and_wrong_ones_are_told(session):
    assert session.run("const x: string = 5 as any; x", language="ts").result == "5"
    result = session.run("let x: = 3", language="ts")
    assert result.error.name == "SyntaxError" and "Unexpected" in result.error.message


def test_a_program(program):
    result = program.run(program.words[0])
    assert (result.status, result.stdout, result.stderr) == ("error", "out\n", "err\n")
    assert (result.error.name, result.error.message) == ("ExitStatus", "the program ended with exit code 3")


def test_a_program_that_does_not_compile(program):
    result = program.run(program.words[1])
    assert result.error.name == "CompileError" and result.error.message.startswith("main.c") and "‘y’" in result.error.message
    assert "error:" in result.error.traceback


@pytest.mark.long
def test_java_compiles_what_it_runs(session):
    java = session.context(language="java")
    result = java.run(JAVA % "int x = 1;\n    x = y;")
    assert (result.error.name, result.error.message) == ("CompileError", "Main.java:4: error: cannot find symbol")
    assert "x = y;" in result.error.traceback and (result.stdout, result.stderr) == ("", "")
    result = java.run(JAVA % 'System.out.println("out"); System.err.println("error: compilation failed"); System.exit(3);')
    assert (result.stdout, result.stderr) == ("out\n", "error: compilation failed\n")
    assert (result.error.name, result.error.message) == ("ExitStatus", "the program ended with exit code 3")
    assert "Main.java:3" in java.run(JAVA % 'throw new Error("no good");').stderr


@pytest.mark.long
def test_java_keeps_variables_between_its_cells(session):
    java = session.context(language="java")
    assert java.run("int x = 41;").result is None
    result = java.run('int next(int of) { return of + 1; }\nSystem.out.println("é");\nnext(x)')
    assert (result.stdout, result.result) == ("é\n", "42")
    result = java.run("int[] few = new int[2];\nfew[x]")
    assert (result.error.name, result.error.message) == ("ArrayIndexOutOfBoundsException", "Index 41 out of bounds for length 2")
    result = java.run("int y = 1;\nint z = nothing;")
    assert result.error.name == "CompileError" and "nothing" in result.error.traceback
    assert java.run("while (true) {}", timeout=1).status == "timeout"
    assert java.run(JAVA % 'System.out.println("whole");').stdout == "whole\n"
    assert java.run('"" + x + y').result == '"411"'
    assert java.run("System.exit(3);").state == "lost"


def test_a_program_is_interrupted(program):
    result = program.run(program.words[2], timeout=3)
    assert (result.status, result.state) == ("timeout", "kept")


def test_a_program_is_interrupted_until_it_ends(session):
    """Those of the deadline alone would be too few for it."""
    code = """
        #include <signal.h>
        #include <unistd.h>
        static void on_interrupt(int number) { static int seen; if (++seen == 3) _exit(0); }
        int main(void) { signal(SIGINT, on_interrupt); for (;;) pause(); }
    """
    result = session.run(code, language="c", timeout=3)
    assert (result.status, result.state) == ("timeout", "kept")


def test_a_program_that_crashes(program):
    assert "SIGSEGV" in program.run(program.words[3]).error.message


def test_programs_have_the_files_of_the_session_and_leave_none(client, name, tmp_path):
    session = client.open(name, env={"TMPDIR": str(tmp_path)})
    session.files.write("in.txt", "hello")
    code = '#include <stdio.h>\nint main(void) { char b[9] = ""; FILE *f = fopen("in.txt", "r"); fgets(b, 9, f); puts(b); fopen("out.txt", "w"); }'
    assert session.run(code, language="c").stdout == "hello\n"
    assert session.files.exists("out.txt")
    assert os.listdir(tmp_path) == []
    session.close()


def test_what_is_missing_is_named(session):
    with pytest.raises(limpet.BadRequest, match="this image has no go: build one with the Debian packages golang-go"):
        session.context(language="golang")
