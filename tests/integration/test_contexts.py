"""Contexts: variables of their own in the container of a session, in Python and in bash, which every image has."""

import asyncio
import os
import time

import limpet
import pytest

from .killed import Asking, wait_for


@pytest.fixture
def bash(session):
    return session.context(language="bash")


def test_it_begins_empty(session, name):
    session.run("x = 1")
    other = session.context("other")
    assert (other.name, other.created, other.language) == (f"{name}/other", True, "python")
    assert other.run("'x' in globals()").result == "False"
    other.run("y = 2")
    assert session.run("'y' in globals()").result == "False"
    assert [session.run("x").result, other.run("y").result] == ["1", "2"]


def test_files_are_shared_and_it_may_begin_elsewhere(session, bash):
    session.files.mkdir("place")
    session.files.write("place/a", "from the session\n")
    there = session.context("there", cwd="place")
    assert there.run("open('a').read()").result == repr("from the session\n")
    assert bash.run("basename $PWD; cat place/a").stdout.endswith("\nfrom the session\n")
    assert session.context("sh", language="sh", cwd="place").run("cat a").stdout == "from the session\n"
    there.reset()
    assert there.run("open('a').read()").result == repr("from the session\n")


def test_by_its_name_it_is_the_same(session):
    session.context("a", language="bash").run("x=5")
    again = session.context("a")
    assert not again.created and again.language == "bash" and again.run("echo $x").stdout == "5\n"
    assert session.context("a", language="sh").run("echo $x").stdout == "5\n"
    for others in ({"language": "python"}, {"language": "bash", "cwd": "/tmp"}):
        with pytest.raises(limpet.OptionsDiffer):
            session.context("a", **others)
    again.close()
    assert session.context("a").run("1 + 1").result == "2"


def test_the_context_of_a_language(session):
    assert session.run("x=5; echo here", language="sh").stdout == "here\n"
    result = session.run("echo $x", language="bash")
    assert (result.stdout, result.kind, result.session, result.execution_count) == ("5\n", "bash", f"{session.name}/bash", 2)
    session.run("x = 1", language="python")
    assert session.run("x").result == "1" and session.run("x").kind == "python"
    rows = {row.session: row.language for row in session.contexts()}
    assert rows == {f"{session.name}/bash": "bash"}


def test_what_cannot_be_had(session):
    with pytest.raises(limpet.BadRequest, match="there is no language 'cobol'; this image has python, bash"):
        session.context(language="cobol")
    with pytest.raises(limpet.BadRequest, match="cannot begin in '/nowhere': No such file or directory"):
        session.context("a", cwd="/nowhere")
    for wrong in ("", "../a", "a/b", "a" * 65):
        with pytest.raises(limpet.BadRequest):
            session.context(wrong)
    assert session.contexts() == []
    assert session.context("a").run("1").result == "1"


def test_as_many_as_there_may_be(session):
    for number in range(16):
        session.context(str(number))
    with pytest.raises(limpet.TooLarge, match="16"):
        session.context("more")


def test_what_stays_in_a_shell(bash):
    bash.run("x=5; a=(1 2 3); f() { echo \"f has $1\"; }; export Y=6; cd /tmp; alias greet='echo hello'")
    result = bash.run('f $x; echo "${a[2]}"; pwd; printenv Y\ngreet')
    assert result.stdout == "f has 5\n3\n/tmp\n6\nhello\n" and result.status == "ok"


def test_how_a_shell_fails(bash):
    result = bash.run("echo before\nnosuchprogram\n")
    assert (result.status, result.state, result.stdout) == ("error", "kept", "before\n")
    assert "nosuchprogram: command not found" in result.stderr
    assert result.error.name == "ExitStatus" and "exit code 127" in result.error.message
    result = bash.run("echo one\nif then\n")
    assert "line 2: syntax error" in result.stderr and result.status == "error"
    assert bash.run("return 3").error.message.endswith("exit code 3")
    assert bash.run("for i in 1 2; do break; done; echo $i").stdout == "1\n"
    assert bash.run("cat; read x; echo \"[$x]\"").stdout == "[]\n"


def test_output_comes_while_it_runs_and_in_order(bash):
    seen = []

    def see(text):
        seen.append(text)
        bash._client.open(bash.name.split("/")[0]).files.write("go", "")

    result = bash.run("echo first; until [ -e go ]; do sleep 0.02; done; echo second; seq 100000", on_stdout=see)
    assert seen[0] == "first\n"
    assert result.stdout_bytes == len("first\nsecond\n") + sum(len(f"{n}\n") for n in range(1, 100001))
    assert "".join(seen)[-7:] == "100000\n"


def test_a_shell_is_interrupted_and_lives(bash):
    bash.run("x=5")
    for code in ("sleep 1000; echo no", "while :; do :; done; echo no", "sleep 1000 | cat", "(trap '' INT; sleep 2.4); sleep 1000"):
        result = bash.run("echo begun; " + code, timeout=2)
        assert (result.status, result.state, result.stdout) == ("timeout", "kept", "begun\n"), code
    running = Asking(bash.run, "touch begun; sleep 1000")
    wait_for(lambda: bash.files.exists("begun"))
    assert bash.interrupt()
    assert running.result().status == "interrupted"
    assert bash.run("echo $x").stdout == "5\n"


def test_a_shell_that_is_interrupted_while_it_starts_a_program_is_there_for_the_next_cell(bash):
    """That program has not heard of it, and the shell would wait for it."""
    for number in range(60):
        running = Asking(bash.run, f"touch begun-{number}; sleep 1000")
        wait_for(lambda number=number: bash.files.exists(f"begun-{number}"))
        assert bash.interrupt()
        assert running.result().status == "interrupted"
        assert bash.run("true", timeout=10).status == "ok"


def test_a_shell_that_ends(session, bash):
    session.run("y = 1")
    for code, status in (("exit 3", "exited"), ("set -e; false", "exited"), ("kill -9 $$", "crashed")):
        bash.run("x=5")
        epoch = bash.run("echo last").epoch
        result = bash.run("echo said; " + code)
        assert (result.status, result.state, result.epoch, result.stdout) == (status, "lost", epoch + 1, "said\n"), code
        assert "there are no checkpoints of bash" in result.error.message
        assert bash.run("echo \"[$x]\"").stdout == "[]\n"
    assert bash.run("kill -9 $PPID; sleep 1000").state == "lost"
    assert bash.run("echo fine").stdout == "fine\n" and session.run("y").result == "1"


def test_what_it_left_running(bash):
    pid = bash.run("sleep 1000 & p=$!; echo $p").stdout.strip()
    assert bash.run("kill -0 $p && echo lives").stdout == "lives\n"
    bash.run("yes & yes >&2 & kill -0 $p && touch lives")  # its output may be more than is kept
    assert bash.files.exists("lives")
    bash.run("kill %% $!; true")
    bash.reset()
    assert "lives" not in bash.run(f"kill -0 {pid} && echo lives").stdout


def test_there_are_no_checkpoints_of_it(session, bash):
    bash.run("x=5")
    for ask in (bash.checkpoint, lambda: bash.branch("b")):
        with pytest.raises(limpet.CheckpointFailed, match="there are no checkpoints of bash"):
            ask()
    with pytest.raises(limpet.BadRequest, match="not committed"):
        session.commit(bash)
    with pytest.raises(limpet.BadRequest, match="not listed"):
        bash.namespace()
    for ask in (lambda: bash.value("x"), lambda: bash.set("x", 1)):
        with pytest.raises(limpet.BadRequest, match="is for Python, and '.+/bash' is a context of bash"):
            ask()
    result = bash.run("x=6", on_error="rollback")
    assert (result.status, result.error.name) == ("failed", "CheckpointFailed")
    result = bash.run("echo $x")
    assert result.stdout == "5\n" and result.state_protection["level"] == "none"


def test_the_session_goes_back_without_them(session, bash):
    session.run("y = 1")
    bash.run("x=5")
    other = session.context("other")
    other.run("z = 3")
    before = session.checkpoint()
    session.run("y = 2")
    session.rollback(before)
    session.run("import os; os._exit(1)")
    session.reset()
    assert bash.run("echo $x").stdout == "5\n" and other.run("z").result == "3"


def test_a_context_of_python_has_all_that_a_branch_has(session):
    other = session.context("other", cwd="/tmp")
    other.run("z = 3")
    checkpoint = other.checkpoint()
    other.run("z = 4")
    other.rollback(checkpoint)
    assert other.branch("try").run("import os; z, os.getcwd()").result == "(3, '/tmp')"
    assert other.run("os = __import__('os'); os._exit(1)").state == "rolled_back"
    assert other.run("z").result == "3"
    session.commit(other)
    assert session.run("z").result == "3"


@pytest.mark.engine
def test_artifacts_of_a_shell(limpetd, session, bash):
    if not limpetd.isolates:
        pytest.skip("/session is elsewhere")
    result = bash.run("mkdir -p artifacts; echo hello > artifacts/a.txt")
    with open(result.artifacts["/session/artifacts/a.txt"]) as file:
        assert file.read() == "hello\n"


def test_a_shell_that_says_nonsense_to_its_driver(session, bash):
    session.run("y = 1")
    bash.run("x=5")
    result = bash.run("for f in /proc/$$/fd/*; do echo 'nonsense \"' >&${f##*/}; done 2>/dev/null; true")
    assert result.status in ("error", "ok") and session.run("y").result == "1"
    bash.reset()
    assert bash.run("echo fine").stdout == "fine\n"
    result = bash.run("for f in /proc/$$/fd/*; do f=${f##*/}; [ $f -gt 2 ] && eval \"exec $f>&-\"; done; sleep 1000")
    assert result.state == "lost" and bash.run("echo fine").stdout == "fine\n"


def test_odd_code(bash):
    assert bash.run("").status == "ok"
    assert bash.run("# nothing").status == "ok"
    assert bash.run("echo 'é ✓'").stdout == "é ✓\n"
    assert bash.run("cat <<END\nhere $((1 + 1))\nEND").stdout == "here 2\n"
    assert bash.run("x='" + "a" * 200000 + "'; echo ${#x}").stdout == "200000\n"
    assert "unexpected EOF" in bash.run("echo 'open").stderr
    assert bash.run('rm -f "$BASH_SOURCE"; echo gone').stdout == "gone\n"
    assert bash.run("echo still").stdout == "still\n"


@pytest.mark.engine
def test_a_shell_leaves_no_files(client, limpetd, name, tmp_path):
    with client.open(name, env=None if limpetd.isolates else {"TMPDIR": str(tmp_path)}) as session:
        bash = session.context(language="bash")
        bash.run("echo one")
        assert bash.run("kill -9 $PPID; sleep 1000").state == "lost"
        bash.run("echo two")
        bash.close()
        assert session.exec("ls -A ${TMPDIR:-/tmp}").stdout == ""


def test_modules_of_the_session_are_not_its_drivers(session):
    for module in ("select", "signal", "subprocess", "tempfile", "json", "limpet_languages"):
        session.files.write(f"{module}.py", "raise RuntimeError('not me')\n")
    assert session.run("echo fine", language="bash").stdout == "fine\n"


def test_the_same_call_twice(bash):
    run_id = os.urandom(16).hex()
    first = bash.run("echo once >> log; cat log", run_id=run_id)
    assert bash.run("echo once >> log; cat log", run_id=run_id).stdout == first.stdout == "once\n"


def test_a_new_controller_finds_them(own_limpetd, name):
    limpetd = own_limpetd.start()
    with limpetd.client() as client:
        session = client.open(name)
        bash = session.context(language="bash", cwd="/")
        other = session.context("other")
        bash.run("x=5")
        other.run("z = 3")
        files = "/session" if limpetd.isolates else "$HOME"
        waits = f"touch {files}/begun; until [ -e {files}/go ]; do sleep 0.05; done; echo $x"
        running = Asking(bash.run, waits, timeout=300)
        wait_for(lambda: session.files.exists("begun"))
        limpetd.kill()
        limpetd.start()
        session.files.write("go", "")
        result = running.result()
        assert (result.stdout, result.kind, result.state) == ("5\n", "bash", "kept")
        with pytest.raises(limpet.OptionsDiffer):
            session.context("bash", cwd="/tmp")
        again = session.context("bash", language="sh", cwd="/")
        assert not again.created and again.run("echo $x").stdout == "5\n"
        assert other.run("z").result == "3"


def test_asyncio(limpetd, name):
    async def run():
        async with limpet.AsyncClient(limpetd.socket) as client, await client.open(name) as session:
            results = await asyncio.gather(
                session.run("x=1; echo bash $x", language="bash"), session.run("x = 2; print('python', x)")
            )
            other = await session.context("other", "bash")
            assert [row.session for row in await session.contexts()] == [f"{name}/bash", other.name]
            return [result.stdout for result in results]

    assert asyncio.run(run()) == ["bash 1\n", "python 2\n"]


def test_it_ends_with_its_session(client, name):
    session = client.open(name)
    bash = session.context(language="bash")
    bash.run("sleep 1000 & x=5")
    session.close()
    with pytest.raises(limpet.NoSuchSession):
        bash.run("echo $x")
    with client.open(name) as again:
        assert again.run("echo \"[$x]\"", language="bash").stdout == "[]\n"


def test_one_that_another_client_closed(limpetd, session):
    session.run("x=5", language="bash")
    with limpetd.client() as other:
        other.open(session.name).context("bash").close()
    with pytest.raises(limpet.NoSuchSession):
        session.run("echo $x", language="bash")
    assert session.run("echo \"[$x]\"", language="bash").stdout == "[]\n"


def test_calls_queue(session, bash):
    running = Asking(session.run, "open('begun', 'w').close()\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.02)")
    wait_for(lambda: session.files.exists("begun"))
    waiting = Asking(bash.run, "date +%s.%N")
    time.sleep(0.2)
    let_go = time.time()
    session.files.write("go", "")
    assert running.result().ok and float(waiting.result().stdout) >= let_go
