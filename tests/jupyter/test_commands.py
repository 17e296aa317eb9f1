"""The %limpet commands."""

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
