"""The scripts that set things up: what they cannot do they say before they begin."""

import os
import pathlib
import shutil
import subprocess

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


def run(*command, **env):
    return subprocess.run(
        [SCRIPTS / command[0], *command[1:]], env={**os.environ, **env}, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    "command, says",
    [
        (["install-deps"], "There are: "),
        (["install-deps", "frob"], "nothing is listed for 'frob'. There are: "),
        (["build", "frob"], "usage: scripts/build [bench]"),
        (["package", "frob"], "usage: scripts/package [deb] [wheel]"),
    ],
)
def test_what_they_do_not_know_is_refused(command, says):
    done = run(*command)
    assert done.returncode == 1 and says in done.stderr and done.stdout == ""


@pytest.mark.parametrize("purpose", ["build", "run", "client", "bench", "package", "test"])
def test_packages_are_listed_for_each_purpose(purpose):
    assert f" {purpose}" in run("install-deps").stderr


def test_bench_names_what_makes_the_programs_it_measures(tmp_path):
    done = run("bench", "--quick", LIMPET_BUILD=str(tmp_path))
    assert done.returncode == 1 and "`scripts/build bench` makes them" in done.stderr


def test_bench_names_what_installs_the_modules_it_needs(tmp_path):
    (tmp_path / "msgpack.py").write_text("raise ModuleNotFoundError(\"No module named 'msgpack'\")\n")
    done = run("bench", "--list", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "msgpack" in done.stderr and "scripts/install-deps client" in done.stderr


def test_check_names_what_installs_the_formatter(tmp_path):
    for program in ("git", "python3"):
        (tmp_path / program).symlink_to(shutil.which(program))
    done = run("check", PATH=str(tmp_path))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "clang-format" in done.stderr and "sudo scripts/install-deps test" in done.stderr


def test_pytest_names_what_installs_the_modules_that_tests_import(tmp_path):
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", tmp_path], check=True)
    done = run("pytest", "--version", LIMPET_PYTHON=str(tmp_path / "bin/python"))
    assert done.returncode == 1 and "sudo scripts/install-deps client test" in done.stderr
    assert "msgpack pytest pytest_timeout" in done.stderr
