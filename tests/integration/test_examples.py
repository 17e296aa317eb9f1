"""The examples as a user starts them, on images that have pandas."""

import os
import re
import subprocess
import sys

import pytest

from tests.support import ROOT
from tests.support import index as indexes

pytestmark = pytest.mark.engine


@pytest.fixture
def example(limpetd, tmp_path):
    """Runs one to its end; what it printed."""
    if not limpetd.isolates:
        pytest.skip("the examples use what is installed in the image")

    def run(program, *arguments):
        environment = os.environ | {
            "LIMPET_SOCKET": limpetd.socket,
            "LIMPET_AUTOSTART": "0",
            "PYTHONPATH": os.path.join(ROOT, "clients", "python", "src"),
        }
        ended = subprocess.run(
            [sys.executable, os.path.join(ROOT, "examples", program), *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run


def test_files(example):
    said = example("files.py")
    assert re.search(r"^first event: Event\(kind='created', path='/session/report/\w+\.txt'\)$", said, re.M)
    assert "penguins.txt" in said and "refused: '/run/limpet/secret': Permission denied" in said


def test_commands(example):
    said = example("commands.py")
    assert "exit code 1: FAILED (failures=1)" in said and "timeout, after it printed 'working'" in said
    assert said.endswith("Python kept its variables: [1, 0]\n")


def test_processes(example):
    said = example("processes.py")
    assert "it serves: <h1>from the sandbox</h1>" in said and "in its terminal: 24 80" in said
    assert "'sh': exit code 7" in said and "http.server --bi': running" in said
    assert said.endswith("ended by signal 15\n")


def test_languages(example):
    said = example("languages.py")
    assert "bash says: hello, there are 10 numbers\nerror: the last command ended with exit code 2\nstill: hello\n" in said
    assert "its own end: exited, variables are lost, epoch 2\n" in said and said.endswith("is a context of bash\n")


def test_templates(example):
    said = example("templates.py")
    assert "first opened in " in said and re.search("^exited, rolled_back to call [01]: 344 rows$", said, re.M)
    assert "own: 344 rows\n" in said and "\nnot kept: NameError: name 'pd' is not defined" in said


@pytest.mark.long
def test_packages(own_limpetd, tmp_path):
    """With an index on loopback."""
    with indexes.serving() as index:
        index.add("cowsay")
        own_limpetd.start("--package-index", f"{index.url}/simple")
        environment = os.environ | {
            "LIMPET_SOCKET": own_limpetd.socket,
            "LIMPET_AUTOSTART": "0",
            "PYTHONPATH": os.path.join(ROOT, "clients", "python", "src"),
            "PYTHONWARNINGS": "ignore",
        }
        command = [sys.executable, os.path.join(ROOT, "examples", "packages.py")]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert ended.stdout == "cowsay 1.0\n(2, 'cowsay')\ncached: True\n", ended.stdout + ended.stderr


def test_network(example):
    said = example("network.py")
    assert "by the binding: 'HELLO!'\nthe key is inside: False\n" in said
    assert "another place: '403: 198.51.100.7:80 is not allowed in this session;" in said
    assert said.endswith("by a rule: 'who are you?'\n")


def test_analysis(example, tmp_path):
    said = example("analysis.py")
    page = (tmp_path / "penguins.html").read_text()
    assert "333 complete rows" in said
    assert re.findall("Model: ([^<]*)", page) == ["flipper length", "flipper and bill", "flipper, species and sex"]
    assert "signal 11; back at call" in page
    assert "data:image/png;base64,iVBORw0KGgo" in page
    assert {"Adelie", "Chinstrap", "Gentoo"} <= set(re.findall("<th>([A-Z][a-z]+)</th>", page))
    assert len(re.findall("<tr><th>[^<]*</th><td>", page)) >= 9


@pytest.mark.docker
def test_quickstart(example):
    assert "2 artifacts, each found on this machine and read back" in example("quickstart.py")


def test_saving(example):
    said = example("saving.py")
    assert "restored: ({'a': 2}, True, 'kept as well')" in said and "exported 1 cell: add('a')" in said
    assert "not pickled: {'lock': \"TypeError" in said and "missing: [" in said
