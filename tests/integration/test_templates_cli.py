"""`limpet template`, on a real controller."""

import json
import os
import subprocess

import pytest

from .test_contexts_cli import LIMPET, command  # noqa: F401


@pytest.fixture
def template(command, name):
    """Makes one of the name; it is removed in the end."""

    def template(*words):
        return command("template", "create", name, *words)

    yield template
    command("template", "rm", name)


def test_from_its_making_to_its_end(command, template, name, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "table.csv").write_text("1,2")
    (tmp_path / "setup.py").write_text("table = open('table.csv').read()\n")
    words = ("--files", str(tmp_path / "files"), "--setup", str(tmp_path / "setup.py"), "--env", "LEVEL=3", "--env", "A=1")
    assert template(*words) == (0, f"created {name}\n", "")
    look = "import os; print(table, os.environ['LEVEL'])"
    assert command("run", "--template", name, "-c", look) == (0, "1,2 3\n", "")
    assert command("open", "--template", name, f"{name}-s")[0] == 0
    assert command("run", "-s", f"{name}-s", "-c", look) == (0, "1,2 3\n", "")
    status, out, _ = command("template", "ls")
    [row] = [line.split() for line in out.splitlines() if line.startswith(name)]
    assert row[1] == "default" and row[4] == "2" and out.startswith("TEMPLATE")
    [listed] = [row for row in json.loads(command("template", "ls", "--json")[1])["templates"] if row["name"] == name]
    assert (listed["env"], listed["setup"], listed["image"]) == (["LEVEL", "A"], 33, None)
    status, _, err = template()
    assert status == 125 and "TemplateExists" in err
    assert command("template", "create", f"{name}-2", "--from", f"{name}-s", "--replace")[0] == 0
    assert command("run", "--template", f"{name}-2", "-c", "print(open('table.csv').read())") == (0, "1,2\n", "")
    for made in (name, f"{name}-2"):
        assert command("template", "rm", made) == (0, "", "")
    assert command("run", "-s", f"{name}-s", "-c", look)[0] == 0
    assert command("close", f"{name}-s")[0] == 0
    assert name not in command("template", "ls")[1] + command("ls")[1]


def test_setup_of_standard_input(limpetd, template, command, name):
    environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}
    subprocess.run([LIMPET, "template", "create", name, "--setup", "-"], input=b"x = 41", env=environment, check=True, timeout=120)
    assert command("run", "--template", name, "-c", "x + 1") == (0, "42\n", "")


def test_a_failure_has_its_traceback(template, command, name, tmp_path):
    (tmp_path / "setup.py").write_text("def f():\n    return 1 / 0\nf()\n")
    status, out, err = template("--setup", str(tmp_path / "setup.py"))
    assert (status, out) == (125, "")
    assert "return 1 / 0" in err and "limpet: TemplateFailed: the setup code" in err and "division by zero" in err
    assert name not in command("template", "ls")[1]


def test_what_is_wrong(template, command, name, tmp_path):
    (tmp_path / "file").write_bytes(b"x = 1\0")
    for words, text in [
        (("--setup", str(tmp_path / "none")), "No such file or directory"),
        (("--setup", str(tmp_path / "file")), "null character"),
        (("--files", str(tmp_path / "file")), "Not a directory"),
        (("--files", str(tmp_path), "--from", "a"), "not from both"),
    ]:
        status, _, err = template(*words)
        assert status == 2 and text in err
    assert template("--from", "nobody")[0] == 125
    assert command("template", "rm", name)[0] == 125
    for words in ((), ("create",), ("ls", "x"), ("rm",), ("other", "x")):
        assert command("template", *words)[0] == 2
