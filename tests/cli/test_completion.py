"""Completion in bash, zsh and fish: what the shells themselves offer."""

import re

import pytest

from tests.support.needs import need

from .real import run
from .terminal import Terminal

COMMANDS = {"run", "repl", "vars", "rollback", "completion"}
READY = "ready> "


class Shell:
    """An interactive shell that knows `limpet`, with sessions `one` and `two` and a checkpoint `before` of `one`."""

    def __init__(self, real, *command, setup):
        environment = real.environment | {
            "PATH": f"{real.program.rpartition('/')[0]}:/usr/bin:/bin", "PS1": READY, "PROMPT": READY,
            "INPUTRC": "/dev/null"}
        self.terminal = Terminal(command, environment, real.directory)
        self.terminal.last_line(READY.strip())
        for line in setup:
            self.enter(line)

    def enter(self, line):
        rows = self.terminal.screen.text().count("\n")
        self.terminal.enter(line)
        self.terminal.until(lambda text: text.count("\n") > rows and text.endswith("\n" + READY.strip()), "a prompt")

    def becomes(self, line, whole):
        """Tab makes `whole` of the line."""
        self.terminal.type(line + "\t")
        self.terminal.last_line((READY + whole).rstrip())
        self.clear()

    def offers(self, line, *words):
        """Tab shows these words, among others, below the line."""
        begin = len(self.terminal.screen.text())
        self.terminal.type(line + "\t\t")
        for word in words:
            self.terminal.until(lambda text: re.search(rf"(^|\s){re.escape(word)}(\s|$)", text[begin:]), word)
        self.clear()

    def clear(self):
        self.terminal.type("\x15")
        self.terminal.last_line(READY.strip())


@pytest.fixture(scope="module")
def limpet(real):
    real.good("run", "-s", "one", "-c", "1")
    real.good("run", "-s", "two", "-c", "1")
    real.good("checkpoint", "--name", "before", "one")
    (real.directory / "analysis.py").write_text("1\n")
    (real.directory / "tables").mkdir()
    return real


@pytest.fixture(params=["bash", "zsh"])
def shell(request, limpet):
    need(request.param, "shells")
    if request.param == "bash":
        shell = Shell(limpet, "bash", "--norc", "--noprofile", "-i",
                      setup=["bind 'set enable-bracketed-paste off'", "source <(limpet completion bash)"])
    else:
        shell = Shell(limpet, "zsh", "-f", "-i", setup=[
            "autoload -Uz compinit; compinit -u -D; unset zle_bracketed_paste; setopt no_prompt_cr no_prompt_sp",
            "source <(limpet completion zsh)"])
    yield shell
    shell.terminal.close()


def test_commands_and_options(shell):
    shell.becomes("limpet rollb", "limpet rollback ")
    shell.becomes("limpet run --on", "limpet run --on-error ")
    shell.becomes("limpet run --on-error r", "limpet run --on-error rollback ")
    shell.becomes("limpet completion f", "limpet completion fish ")
    shell.becomes("limpet help rollb", "limpet help rollback ")
    shell.offers("limpet checkpoint", "checkpoint", "checkpoints")


def test_names(shell):
    shell.becomes("limpet run -s on", "limpet run -s one ")
    shell.becomes("limpet vars tw", "limpet vars two ")
    shell.becomes("limpet rollback one be", "limpet rollback one before ")
    shell.becomes("limpet branch --at be", "limpet branch --at be")  # of which session?
    shell.becomes("limpet close one tw", "limpet close one two ")
    shell.becomes("limpet get on", "limpet get one:")
    shell.offers("limpet close ", "one", "two")


def test_files(shell):
    shell.becomes("limpet run ana", "limpet run analysis.py ")
    shell.becomes("limpet run -s one ana", "limpet run -s one analysis.py ")
    shell.becomes("limpet open --data ta", "limpet open --data tables/")
    shell.becomes("limpet put ana", "limpet put analysis.py ")


def test_fish(limpet):
    need("fish", "shells")

    def complete(line):
        script = f'limpet completion fish | source; complete -C "{line}"'
        environment = limpet.environment | {"PATH": f"{limpet.program.rpartition('/')[0]}:/usr/bin:/bin"}
        lines = run("fish", "--no-config", "-c", script, env=environment, cwd=limpet.directory).splitlines()
        return {line.partition("\t")[0] for line in lines}

    assert complete("limpet ") >= COMMANDS
    assert complete("limpet rollb") == {"rollback"}
    assert complete("limpet run --on") == {"--on-error"}
    assert complete("limpet run --on-error ") == {"keep", "rollback"}
    assert complete("limpet run -s ") == {"one", "two"}
    assert "before" in complete("limpet rollback one ")
    assert complete("limpet get on") == {"one:"}
    assert complete("limpet run ana") == {"analysis.py"}
    assert complete("limpet open --data t") == {"tables/"}


def test_words(limpet):
    def words(*line):
        kind, *rest = limpet.good("completion", "words", *line).splitlines()
        return kind, {word.partition("\t")[0] for word in rest}

    assert words("")[1] >= COMMANDS
    assert words("nothing", "") == ("words", set())
    assert words("commit", "one", "") == ("words", set())
    limpet.good("branch", "one", "try")
    assert words("commit", "one", "") == ("words", {"try"})
    limpet.good("close", "one/try")
    assert words("rollback", "one", "before", "") == ("words", set())
    assert words("namespace", "")[1] == {"one", "two"}
    assert words("put", "x", "") == ("prefixes", {"one:", "two:"})


def test_no_controller_is_started(tmp_path, limpet):
    environment = {"LIMPET_SOCKET": str(tmp_path / "s")}
    assert limpet.good("completion", "words", "close", "", environment=environment) == "words\n"
    assert not (tmp_path / "s").exists()


def test_another_shell(limpet):
    result = limpet("completion", "csh")
    assert (result.returncode, result.err) == (2, "limpet: unknown shell; completion is available for bash, zsh and fish\n")
