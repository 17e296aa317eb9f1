"""llm-sandbox's API: a program that uses it changes one import."""

import base64
import inspect

import limpet
import pytest
from limpet.llm_sandbox import SandboxSession
from llm_sandbox import SupportedLanguage
from llm_sandbox.core.config import SessionConfig
from llm_sandbox.core.session_base import BaseSession
from llm_sandbox.exceptions import (
    CommandEmptyError,
    ContainerError,
    LanguageNotSupportedError,
    LibraryInstallationNotSupportedError,
    NotOpenSessionError,
    SandboxTimeoutError,
    SecurityError,
    ValidationError,
)

METHODS = ("run", "execute_command", "execute_commands", "copy_to_runtime", "copy_from_runtime", "install", "open", "close")
# What Limpet does another way: it contains code instead of reading it, sets nothing up, and replaces what is no UTF-8.
UNLIKE = {"security_policy", "skip_environment_setup", "encoding_errors"}


@pytest.fixture
def sandbox(client):
    with SandboxSession(client=client, checkpoint="always") as sandbox:
        yield sandbox


def test_calls_are_written_as_for_llm_sandbox():
    for method in METHODS:
        theirs = [(p.name, p.default) for p in inspect.signature(getattr(BaseSession, method)).parameters.values()]
        ours = [(p.name, p.default) for p in inspect.signature(getattr(SandboxSession, method)).parameters.values()]
        assert ours == theirs, method
    assert set(SessionConfig.model_fields) - UNLIKE <= set(inspect.signature(SandboxSession.__init__).parameters)


def test_what_code_gives(sandbox):
    result = sandbox.run("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "out\n", "err\n")
    assert result.success()
    result = sandbox.run("print('before'); 1 / 0")
    assert result.exit_code == 1 and result.stdout == "before\n" and "ZeroDivisionError" in result.stderr
    assert [sandbox.run(f"raise SystemExit({code})").exit_code for code in ("", "0", "3", "'text'")] == [0, 0, 3, 1]


def test_of_endless_output_the_beginning_is_kept(sandbox):
    heard = []
    result = sandbox.run("import sys\nfor i in range(11): print('x' * 999_999)\n1 / 0", on_stdout=heard.append)
    assert len(result.stdout) == 10 << 20 and sum(map(len, heard)) == 11_000_000
    assert "only the beginning of stdout is kept" in result.stderr and "ZeroDivisionError" in result.stderr
    output = sandbox.execute_command("yes | head -c 11000000 >&2; exit 3")
    assert output.exit_code == 3 and len(output.stderr) < 11_000_000 and "beginning of stderr" in output.stderr


def test_variables_stay(sandbox):
    sandbox.run("x = 41")
    assert sandbox.run("print(x + 1)").stdout == "42\n"
    ended = sandbox.run("import os; os._exit(7)")
    assert ended.exit_code == 7 and "the variables" in ended.stderr
    assert sandbox.run("print(x)").stdout == "41\n"


def test_a_timeout_keeps_the_session(sandbox):
    sandbox.run("x = 41")
    with pytest.raises(SandboxTimeoutError) as raised:
        sandbox.run("while True: pass", timeout=1)
    assert raised.value.timeout_duration == 1
    assert sandbox.run("print(x)").stdout == "41\n"


def test_output_comes_as_it_is_written_and_whole(sandbox):
    pieces = []
    result = sandbox.run("print('x' * 3_000_000)", on_stdout=pieces.append)
    assert len(result.stdout) == 3_000_001 and "".join(pieces) == result.stdout


def test_figures_are_plots(sandbox):
    result = sandbox.run(
        "class Figure:\n  def _repr_mimebundle_(self, **kw): return {'image/png': b'\\x89PNG\\r\\n'}\ndisplay(Figure())"
    )
    assert [(plot.format.value, base64.b64decode(plot.content_base64)) for plot in result.plots] == [("png", b"\x89PNG\r\n")]


def test_commands(sandbox):
    assert sandbox.execute_command("echo out; echo err >&2; exit 3") == sandbox.execute_command("echo err >&2; echo out; exit 3")
    assert sandbox.execute_command("no-such-program").exit_code == 127
    outputs = sandbox.execute_commands(["echo one", ("pwd", "/tmp"), "exit 5", "echo never"])
    assert outputs.exit_code == 5
    assert sandbox.execute_command("pwd", workdir="/tmp").stdout == "/tmp\n"
    with pytest.raises(CommandEmptyError):
        sandbox.execute_command("")


def test_files_go_in_and_out(sandbox, tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "a.txt").write_text("a")
    (tmp_path / "b.py").write_text("print('b ran')")
    sandbox.copy_to_runtime(str(tmp_path / "in"), "/sandbox/tree")
    sandbox.copy_to_runtime(str(tmp_path / "b.py"), "/sandbox/new/b.py")
    assert sandbox.execute_command("cat tree/deep/a.txt; python3 new/b.py").stdout == "ab ran\n"
    sandbox.copy_from_runtime("/sandbox/tree", str(tmp_path / "out" / "tree"))
    sandbox.copy_from_runtime("/sandbox/new/b.py", str(tmp_path / "made" / "b.py"))
    assert (tmp_path / "out" / "tree" / "deep" / "a.txt").read_text() == "a"
    assert (tmp_path / "made" / "b.py").read_text() == "print('b ran')"
    with pytest.raises(FileNotFoundError):
        sandbox.copy_to_runtime(str(tmp_path / "nothing"), "/sandbox/nothing")
    with pytest.raises(FileNotFoundError):
        sandbox.copy_from_runtime("/sandbox/nothing", str(tmp_path / "nothing"))
    for climb in ("/sandbox/../etc/passwd", "../x"):
        with pytest.raises(SecurityError):
            sandbox.copy_to_runtime(str(tmp_path / "b.py"), climb)


@pytest.mark.engine
def test_its_directory_is_there(sandbox, isolating, tmp_path):
    (tmp_path / "test.py").write_text("open('/sandbox/output.txt', 'w').write('written')")
    sandbox.copy_to_runtime(str(tmp_path / "test.py"), "/sandbox/test.py")
    assert sandbox.execute_command("python3 /sandbox/test.py && cat output.txt").stdout == "written"
    sandbox.copy_from_runtime("/sandbox/output.txt", str(tmp_path / "output.txt"))
    assert (tmp_path / "output.txt").read_text() == "written"


def test_other_languages(client):
    with SandboxSession(lang="bash", client=client) as sandbox:
        sandbox.run("x=41")
        assert sandbox.run("echo $((x + 1))").stdout == "42\n"
        with pytest.raises(LibraryInstallationNotSupportedError):
            sandbox.install(["polars"])
    assert SandboxSession(lang=SupportedLanguage.PYTHON, client=client).lang == "python"
    sandbox = SandboxSession(lang="cobol", client=client)
    with pytest.raises(LanguageNotSupportedError, match="cobol"):
        sandbox.open()
    assert not sandbox.is_open


def test_before_and_after(client):
    sandbox = SandboxSession(client=client)
    for call in (lambda: sandbox.run("1"), lambda: sandbox.execute_command("true"), lambda: sandbox.copy_from_runtime("a", "b")):
        with pytest.raises(NotOpenSessionError):
            call()
    with sandbox:
        name = sandbox.container_id.partition("@")[0]
        assert [row.session for row in client.sessions() if row.session == name]
    assert not [row.session for row in client.sessions() if row.session == name]
    sandbox.close()


def test_an_existing_session_is_found_again_and_left_open(client, session):
    session.run("x = 41")
    wanted = f"{session.name}@{session.instance}"
    with SandboxSession(container_id=wanted, client=client) as sandbox:
        assert sandbox.run("print(x)").stdout == "41\n"
        assert sandbox.container_id == wanted
    assert session.run("x").result == "41"
    session.close()
    with client.open(session.name), pytest.raises(ContainerError, match="another one has its name"):
        SandboxSession(container_id=wanted, client=client).open()


def test_what_a_container_runtime_was_told(client):
    configs = {"mem_limit": "300m", "pids_limit": 50, "environment": ["WHO=me"]}
    with SandboxSession(client=client, runtime_configs=configs, ttl=60) as sandbox:
        assert sandbox.limpet.options["memory"] == 300 << 20
        assert sandbox.execute_command("echo $WHO").stdout == "me\n"
    for wrong in ({"runtime_configs": {"privileged": True}}, {"client": object()}, {"image": "a", "dockerfile": "b"}):
        with pytest.raises(ValidationError):
            SandboxSession(**({"client": client} | wrong))


def test_it_ends_after_its_lifetime(client):
    with SandboxSession(client=client, session_timeout=0.5) as sandbox:
        with pytest.raises((ContainerError, NotOpenSessionError)):
            while True:
                sandbox.run("import time; time.sleep(0.05)")


def test_what_was_printed_is_kept_when_the_session_ends(client):
    """A failure of the sandbox is llm-sandbox's exception."""
    with SandboxSession(client=client) as sandbox:
        client.close_session(sandbox.limpet.name)
        with pytest.raises(ContainerError, match="NoSuchSession|SessionClosed"):
            sandbox.run("1")


def docker(path, script):
    program = path / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_dockerfile(limpetd, client, tmp_path, monkeypatch):
    """The command builds it, and its image goes with the session. The engine local takes any image, as it has none."""
    if limpetd.isolates:
        pytest.skip("the command is a script here, and builds nothing")
    given = tmp_path / "Dockerfile"
    given.write_text("FROM limpet:default\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ContainerError, match="which is not here"):
        SandboxSession(dockerfile=str(given), client=client).open()
    docker(tmp_path, "echo no such base >&2; exit 1")
    with pytest.raises(ContainerError, match="no such base"):
        SandboxSession(dockerfile=str(given), client=client).open()
    docker(tmp_path, f'echo "$@" >>{tmp_path}/said')
    for keep in (True, False):
        with SandboxSession(dockerfile=str(given), keep_template=keep, client=client) as sandbox:
            image = sandbox.limpet.options["image"]
    build = f"build --tag limpet:{image} --file {given} {tmp_path}"
    assert (tmp_path / "said").read_text().splitlines() == [build, build, f"image rm limpet:{image}"]


def test_libraries(client, monkeypatch):
    installed = []
    monkeypatch.setattr(limpet.Session, "install", lambda session, packages: installed.append(packages))
    with SandboxSession(client=client, libraries=["polars"]) as sandbox:
        sandbox.run("1", libraries=["rich==13.*", "attrs"])
        sandbox.install(["idna"])
    assert installed == [["polars"], ["rich==13.*", "attrs"], ["idna"]]


def test_libraries_are_there(client):
    with SandboxSession(client=client, libraries=["idna>=3"]) as sandbox:
        assert sandbox.run("import idna; print(idna.__name__)").stdout == "idna\n"


def test_the_example(example):
    assert example("llm_sandbox_session.py").endswith("42\n")


def test_nothing_is_left_where_it_cannot_be_opened(standard):
    sandbox = SandboxSession(image="no-such-image", memory="1k")
    with pytest.raises(ContainerError):
        sandbox.open()
    assert not sandbox.is_open and sandbox._client is None
