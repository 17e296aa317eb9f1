"""The %limpet commands."""

import base64
import re
import xml.etree.ElementTree

import pytest


def limpet(notebook, command):
    cell = notebook.run(f"%limpet {command}")
    assert cell.status == "ok", cell.shown
    return cell.stdout


@pytest.fixture
def notebook(own_notebook):
    notebook = own_notebook()
    notebook.run("0")
    return notebook


def test_checkpoint_and_rollback(notebook):
    count = notebook.run("x = 1").reply["execution_count"]
    assert (
        limpet(notebook, "checkpoint before")
        == f"checkpoint before: the variables as cell {count} left them\n"
    )
    notebook.run("x = 2")
    assert f"as cell {count} left them" in limpet(notebook, "rollback before")
    assert notebook.run("x").result == "1"
    assert "before" in limpet(notebook, "checkpoints")
    limpet(notebook, "drop before")
    assert "before" not in limpet(notebook, "checkpoints")
    assert notebook.run("%limpet rollback before").of("error")[0]["ename"] == "NoSuchCheckpoint"


def test_branches(notebook):
    notebook.run("x = 1")
    assert limpet(notebook, "branch idea").startswith("cells run in jupyter-")
    notebook.run("x = 2")
    limpet(notebook, "branch -")
    assert notebook.run("x").result == "1"
    assert "as it was left" in limpet(notebook, "branch idea")
    assert limpet(notebook, "branch").strip().endswith("/idea")
    limpet(notebook, "commit")
    assert notebook.run("x").result == "2"
    assert "/idea" not in limpet(notebook, "branch")
    assert "in no branch" in notebook.run("%limpet commit").traceback


def test_namespace(notebook):
    notebook.run("numbers = [1, 2, 3]\nanswer = 42")
    rows = [line.split() for line in limpet(notebook, "namespace").splitlines()]
    assert ["numbers", "list", "3"] in rows and ["answer", "int", "42"] in rows


def history(notebook):
    (shown,) = notebook.run("%limpet history").of("display_data")
    picture = re.fullmatch('<img src="data:image/svg\\+xml;base64,([A-Za-z0-9+/=]+)"/>', shown["data"]["text/html"])
    drawn = xml.etree.ElementTree.fromstring(base64.b64decode(picture[1]))
    words = ["".join(text.itertext()) for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert [line.replace("*", " ").strip() for line in shown["data"]["text/plain"].splitlines()] == words
    return [re.sub(r"  \[c\d+\]", "", line) for line in shown["data"]["text/plain"].splitlines()]


def test_history_is_a_tree(notebook):
    first = notebook.run("base = 1").reply["execution_count"]
    limpet(notebook, "checkpoint before")
    second = notebook.run("base = '<&>'").reply["execution_count"]
    limpet(notebook, "rollback before")
    third = notebook.run("1 / 0").reply["execution_count"]
    limpet(notebook, "branch idea")
    fourth = notebook.run("base = 4").reply["execution_count"]
    limpet(notebook, "branch -")
    fifth = notebook.run("base").reply["execution_count"]
    lines = history(notebook)
    assert f"* In [{first}]  [before]  base = 1" in lines
    assert f"* In [{second}]  base = '<&>'" in lines
    assert f"  * In [{third}]  1 / 0" in lines and f"  * In [{fourth}]  base = 4" in lines
    assert f"    * In [{fifth}]  base  ← now" in lines


def test_history_after_the_variables_were_lost(notebook):
    notebook.run("lost = 1")
    crash = notebook.run("import os; os._exit(1)").reply["execution_count"]
    after = notebook.run("2").reply["execution_count"]
    lines = [line.lstrip() for line in history(notebook)]
    assert f"* In [{crash}]  import os; os._exit(1)" in lines and f"* In [{after}]  2  ← now" in lines


def test_artifacts(notebook):
    assert "no cell" in limpet(notebook, "artifacts")
    notebook.run(
        "import os\nos.makedirs('artifacts', exist_ok=True)\nopen('artifacts/a.txt', 'w').write('made')"
    )
    path = limpet(notebook, "artifacts").splitlines()[1].split()[-1]
    with open(path) as file:
        assert file.read() == "made"


def test_several_in_one_cell_and_notes_between_them(notebook):
    assert len(notebook.run("# both\n%limpet branch\n\n%limpet branch").stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("rollbck c", "invalid choice"),
        ("rollback", "required: checkpoint"),
        ("namespace x", "unrecognized arguments: x"),
        ("branch 'a", "No closing quotation"),
        ("checkpoint a b", "unrecognized arguments: b"),
    ],
)
def test_wrong_use_is_told(notebook, command, says):
    cell = notebook.run(f"%limpet {command}")
    assert cell.of("error")[0]["ename"] == "UsageError" and says in cell.traceback


def test_python_and_commands_do_not_mix(notebook):
    assert "without Python in it" in notebook.run("y = 1\n%limpet namespace").traceback
    assert notebook.run("y").of("error")[0]["ename"] == "NameError"
    assert notebook.run("text = '''\n%limpet namespace\n'''\ntext").result == repr("\n%limpet namespace\n")


def test_help(notebook):
    for word in ("checkpoint", "rollback", "branch", "namespace", "artifacts"):
        assert word in limpet(notebook, "") and word in limpet(notebook, "help")
