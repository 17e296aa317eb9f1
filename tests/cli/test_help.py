"""limpet help, the man page, and limpet image."""

import os
import re
import shutil
import subprocess


def test_help(limpet):
    overview = limpet()
    assert overview.returncode == 0
    for command in ("run repl open ls vars close reset interrupt put get files checkpoint checkpoints rollback drop branch fork sleep context "
                    "commit logs shutdown up down doctor image jupyter mcp serve key completion version help").split():
        assert re.search(rf"^  {command} ", overview.out, re.M)
        assert limpet("help", command).out.startswith(f"Usage: limpet {command}")
    assert limpet("help").out == limpet("--help").out == overview.out
    assert limpet("run", "--help").out == limpet("help", "run").out
    assert "-t, --timeout SECONDS" in limpet("help", "run").out


def test_an_older_name(limpet):
    assert limpet("namespace", "--help").out == limpet("help", "vars").out


def test_version(limpet):
    assert limpet("version").out == limpet("--version").out == "limpet 0.1.0\n"


def test_man_page(limpet):
    page = limpet("help", "--man").out
    assert page.startswith(".TH LIMPET 1")
    for line in page.splitlines():
        assert not line.startswith(".") or re.match(r"\.(TH|SH|SS|TP|B|I|BR|nf|fi|PP)\b", line), line
    assert not re.search(r"[^\n]\.(TH|SH|SS|TP|PP|nf|fi)\b", page)
    assert "\\-\\-memory SIZE" in page and "LIMPET_AUTOSTART" in page


def test_the_python_of_its_environment_is_taken(limpet):
    environment = limpet.directory / "environment"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").touch()
    python = environment / "bin" / "python3"
    python.write_text("#!/bin/sh\necho \"$0 $@\"\n")
    python.chmod(0o755)
    program = environment / "bin" / "limpet"
    program.symlink_to(os.path.join(os.environ["LIMPET_BUILD"], "limpet"))
    for call, path in ((str(program), "/bin"), ("limpet", f"/nowhere:{environment}/bin:/bin")):
        done = subprocess.run(["env", "-u", "LIMPET_PYTHON", f"PATH={path}", call, "key", "ls"], capture_output=True, text=True)
        assert done.stdout == f"{python} -m limpet.serve key ls\n", done.stderr


def test_a_link_leads_to_the_environment_of_its_program(limpet):
    """As that of pipx in ~/.local/bin does."""
    place = limpet.directory / "place"
    (place / "bin").mkdir(parents=True)
    (place / "pyvenv.cfg").touch()
    shutil.copy(os.path.join(os.environ["LIMPET_BUILD"], "limpet"), place / "bin")
    (place / "bin" / "python3").write_text("#!/bin/sh\necho \"$0 $@\"\n")
    (place / "bin" / "python3").chmod(0o755)
    link = limpet.directory / "limpet"
    link.symlink_to(place / "bin" / "limpet")
    done = subprocess.run(["env", "-u", "LIMPET_PYTHON", link, "doctor"], capture_output=True, text=True)
    assert done.stdout == f"{place}/bin/python3 -m limpet.doctor\n", done.stderr


def test_the_first_python_that_has_the_package_is_taken(limpet):
    pythons = []
    for name, has_it in (("path", 1), ("active", 0)):
        python = limpet.directory / name / "bin" / "python3"
        python.parent.mkdir(parents=True)
        (python.parents[1] / "pyvenv.cfg").touch()
        python.write_text(f"#!/bin/sh\n[ $1 != -c ] || exit {has_it}\necho \"$0 $@\"\n")
        python.chmod(0o755)
        pythons.append(python)
    lacks, has = pythons
    environment = {"PATH": f"{lacks.parent}:/bin", "VIRTUAL_ENV": str(has.parents[1])}
    assert limpet("save", "a", "b", environment=environment).out == f"{has} -m limpet.saving save a b\n"
    for without, said in ((environment | {"VIRTUAL_ENV": ""}, "python3"), (environment | {"LIMPET_PYTHON": str(lacks)}, lacks)):
        result = limpet("save", "a", "b", environment=without)
        assert result.returncode == 125 and result.err == (f"limpet: {said} does not have the Python package; activate the environment that has it, "
                                                           "or set LIMPET_PYTHON to a Python that has limpet\n")


def test_image_runs_its_tool(limpet):
    tool = limpet.directory / "tool"
    tool.write_text("#!/bin/sh\necho \"$@\"\nexit 7\n")
    tool.chmod(0o755)
    result = limpet("image", "build", "--packages", "p.txt", environment={"LIMPET_IMAGE_TOOL": str(tool)})
    assert (result.returncode, result.out) == (7, "build --packages p.txt\n")
    result = limpet("image", "ls", environment={"LIMPET_IMAGE_TOOL": "/nowhere"})
    assert (result.returncode, result.err) == (125, "limpet: /nowhere: No such file or directory\n")
