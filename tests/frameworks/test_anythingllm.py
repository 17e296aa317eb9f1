"""The skill for AnythingLLM, driven by Node as AnythingLLM's runtime drives it."""

import json
import os
import shutil
import subprocess

import pytest

from tests.support import ROOT

SKILL = ROOT / "clients" / "anythingllm"
HUB = "limpet-python-sandbox"
WARNING = "\n\nErrors:\nlimpet: warning: the engine 'local' does not isolate: code runs as this user, on this machine"


@pytest.fixture
def projects(tmp_path):
    """A directory with a project."""
    project = tmp_path / "projects" / "my project"
    project.mkdir(parents=True)
    (project / "main.py").write_text("import sys\nprint('ran', sys.argv[1:])\n")
    (project / "lib").mkdir()
    (project / "lib" / "__init__.py").write_text("")
    return project.parent


@pytest.fixture
def agent(standard, tmp_path, projects):
    """Calls the skill; each agent is one of AnythingLLM's conversations, of a user."""
    skills = tmp_path / "storage" / "plugins" / "agent-skills"
    shutil.copytree(SKILL, skills / HUB)
    environment = os.environ | {"PATH": f"{os.environ['LIMPET_BUILD']}:{os.environ['PATH']}"}
    started = []

    def start(user="1", **setup):
        setup = {"PROJECTS_ROOT": str(projects), **setup}
        command = ["node", ROOT / "tests" / "frameworks" / "anythingllm.js", skills, HUB, json.dumps(setup), user]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)

        def call(on_told=lambda text: None, **arguments):
            arguments = {"projectPath": str(projects / "my project"), **arguments}
            process.stdin.write(json.dumps(arguments) + "\n")
            process.stdin.flush()
            told = []
            while "result" not in (answer := json.loads(process.stdout.readline())):
                told.append(answer["told"])
                on_told(answer["told"])
            assert isinstance(answer["result"], str)
            return answer["result"].replace(WARNING, ""), told

        return call

    yield start
    for process in started:
        process.stdin.close()
        process.stdout.close()
        process.wait(60)


def sessions(client):
    return [row.session for row in client.sessions() if row.session.startswith("anythingllm-")]


def test_the_description_is_what_anythingllm_takes():
    plugin = json.loads((SKILL / "plugin.json").read_text())
    assert plugin["active"] is True and plugin["imported"] is True and plugin["schema"] == "skill-1.0.0"
    assert plugin["hubId"] == HUB and plugin["entrypoint"]["file"] == "handler.js"
    for parameter in plugin["entrypoint"]["params"].values():
        assert parameter["description"] and parameter["type"] in ("string", "number", "boolean")
    for setup in plugin["setup_args"].values():
        assert setup["type"] == "string" and setup["input"]["hint"]
    for example in plugin["examples"]:
        assert set(json.loads(example["call"])) <= set(plugin["entrypoint"]["params"])


def test_a_clean_container_for_each_call(agent, client):
    call = agent()
    result, told = call(mode="ephemeral", command="python3 main.py a 'b c' && touch left && exit 3")
    assert result == "Exit code 3: it failed.\n\nOutput:\nran ['a', 'b c']"
    assert told[0].startswith("Preparing a clean container for my project") and any(line.startswith("Running: python3 main.py") for line in told)
    assert "left" not in call(command="ls")[0]
    assert sessions(client) == []


def test_one_container_for_each_project_and_user(agent, client, projects):
    shutil.copytree(projects / "my project", projects / "other")
    first, second = agent(), agent(user="2")
    first(mode="persistent", command="echo mine >kept")
    assert "mine" in first(mode="persistent", command="cat kept")[0]
    assert "mine" in agent()(mode="persistent", command="cat kept")[0]  # a conversation later
    assert "Exit code 1" in second(mode="persistent", command="cat kept")[0]
    assert "Exit code 1" in first(mode="persistent", command="cat kept", projectPath=str(projects / "other"))[0]
    assert len(sessions(client)) == 3
    for name in sessions(client):
        client.close_session(name)


def test_changes_of_the_project_are_seen(agent, projects):
    call = agent()
    call(mode="persistent", command="python3 main.py")
    (projects / "my project" / "main.py").write_text("print('changed')\n")
    assert "changed" in call(mode="persistent", command="python3 main.py")[0]
    call(mode="persistent", reset=True)


def test_reset(agent, client):
    call = agent()
    call(mode="persistent", command="echo x >kept")
    assert "Exit code 1" in call(mode="persistent", command="cat kept", reset=True)[0]
    assert "was removed" in call(mode="persistent", reset=True)[0]
    assert sessions(client) == []


def test_what_it_prints_is_told_while_it_runs(agent, client):
    """The command waits for a file, which is made once it was told what the command has printed."""

    def told(text):
        if "begun" in text and not text.startswith("Running"):
            client.attach(sessions(client)[0]).files.write("project/go", b"")

    result, _ = agent()(told, command="echo begun; while ! test -e go; do sleep 0.1; done; echo done", timeout=100)
    assert result.endswith("begun\ndone")


def test_the_time_limit(agent):
    result, _ = agent(RUN_TIMEOUT="10")(command="echo begun; sleep 1000")
    assert result.startswith("Exit code 124: it reached its time limit") and "begun" in result
    result, _ = agent()(command="sleep 1000", timeout=1)
    assert result.startswith("Exit code 124")
    for wrong in (-1, 100000, "soon"):
        assert "timeout is a number" in agent()(command="true", timeout=wrong)[0]


def test_a_flood_is_cut(agent):
    result, told = agent()(command="yes | head -c 3000000; echo the end")
    assert len(result) < 20000 and "characters left out" in result and result.endswith("the end")
    assert len(told) < 40


def test_requirements(agent, projects, client):
    """They are installed where this Limpet can; otherwise that is said, and the command runs."""
    (projects / "my project" / "requirements.txt").write_text("no-such-package-of-limpet==1.0\n")
    result, told = agent()(command="echo ran")
    assert "Installing the project's requirements …" in told
    assert result.startswith("requirements.txt was not installed: ") and result.endswith("Output:\nran")


def test_requirements_are_there(agent, projects):
    (projects / "my project" / "requirements.txt").write_text("idna>=3\n")
    result, _ = agent()(command="python3 -c 'import idna; print(idna.__name__)'")
    assert result.endswith("Output:\nidna")


def test_only_projects_below_the_root(agent, projects, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (projects / "link").symlink_to(outside)
    (projects / ".hidden").mkdir()
    (projects / "file").write_text("")
    call = agent()
    for wrong in (outside, projects / "link", projects / ".hidden", projects, projects / "my project" / ".." / ".."):
        assert "may not be run" in call(command="true", projectPath=str(wrong))[0]
    assert "absolute path" in call(command="true", projectPath="relative")[0]
    assert "There is no folder" in call(command="true", projectPath=str(projects / "nothing"))[0]
    assert "is not a folder" in call(command="true", projectPath=str(projects / "file"))[0]


def test_what_is_not_copied(agent, projects):
    project = projects / "my project"
    for name in (".git", ".venv", "node_modules", "lib/__pycache__"):
        (project / name).mkdir()
        (project / name / "file").write_text("")
    (project / ".env").write_text("SECRET=1")
    (project / "inside").symlink_to("main.py")
    (project / "outside").symlink_to("/etc/passwd")
    os.mkfifo(project / "fifo")
    result, told = agent()(command="find . | LC_ALL=C sort")
    assert result.endswith("Output:\n.\n./inside\n./lib\n./lib/__init__.py\n./main.py")
    assert any(line.startswith("Not copied: ") and "outside" in line and "fifo" in line for line in told)


def test_wrong_calls(agent):
    call = agent()
    assert 'not "other"' in call(mode="other", command="true")[0]
    assert "command is missing" in call(command=" ")[0]
    assert "command is missing" in call(reset=True)[0]
    result, told = agent(LIMPET_COMMAND="/no/such/limpet")(command="true")
    assert result.startswith("The sandbox failed: there is no command") and told[-1].startswith("log: ")
    assert "The sandbox failed" in agent(MEMORY="much")(command="true")[0]

