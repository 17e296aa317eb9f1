"""The order of scripts/quickstart, with programs that only say that they were called. tests/package has the real thing."""

import os
import pathlib
import shutil
import subprocess

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


class Clone:
    """Each stand-in appends its line to `called`."""

    def __init__(self, directory):
        self.directory = directory
        for folder in ("scripts", "image", "clients/python", "proto", "build/venv/bin", "bin", "prefix/bin"):
            (directory / folder).mkdir(parents=True)
        for name in ("quickstart", "lib.sh", "docker.sh"):
            shutil.copy(SCRIPTS / name, directory / "scripts")
        for path in ("scripts/install-deps", "scripts/build", "image/build", "prefix/bin/limpet", "build/venv/bin/python",
                     "bin/cmake", "bin/ldconfig", "bin/getent"):  # fmt: skip
            self.program(path)
        self.program("prefix/bin/limpet", "[ $1 != ls ]")  # no controller runs
        (directory / "docker.sock").touch()

    def program(self, path, *lines):
        called = f'echo "{pathlib.Path(path).name} $*" >>{self.directory}/called'
        (self.directory / path).write_text("\n".join(["#!/bin/sh", called, *lines, ""]))
        (self.directory / path).chmod(0o755)

    def run(self, engine):
        """The exit status, what was said, and the calls since the last time."""
        (self.directory / "called").write_text("")
        environment = {
            "PATH": f"{self.directory}/bin:{os.environ['PATH']}", "PREFIX": str(self.directory / "prefix"), "LIMPET_ENGINE": engine,
            "LIMPET_DOCKER_SOCKET": str(self.directory / "docker.sock"), "LIMPET_STATE_DIR": str(self.directory / "state"),
        }  # fmt: skip
        done = subprocess.run(
            [self.directory / "scripts/quickstart"], env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout, (self.directory / "called").read_text().splitlines()


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path)


EXTRAS = "python -m pip install ./clients/python[langgraph,jupyter,mcp,serve]"


def test_the_result_comes_before_the_extras_and_what_is_done_is_not_done_again(clone):
    status, said, called = clone.run("oci")
    assert status == 0 and "Done in" in said
    example = called.index("python examples/quickstart.py")
    assert called.index("python -m pip install ./clients/python") < example < called.index(EXTRAS)
    assert called.index("build build --engine oci") < example
    status, said, called = clone.run("oci")
    assert status == 0 and not any("pip" in line for line in called)
    (clone.directory / "clients/python/new.py").touch()
    assert EXTRAS in clone.run("oci")[2]


def test_extras_that_cannot_be_had_do_not_spoil_the_rest(clone):
    clone.program("build/venv/bin/python", 'case $* in *langgraph*) exit 1 ;; esac')
    for _ in range(2):
        status, said, called = clone.run("oci")
        assert status == 0 and "They could not be installed; later: " in said and EXTRAS in called


def test_an_image_that_fails_ends_the_build_and_says_why(clone):
    clone.program("scripts/build", "echo $$ >pid.new; mv pid.new pid; exec sleep 600")
    clone.program("image/build", "until [ -e pid ]; do sleep 0.05; done; echo no mirror answers; exit 1")
    status, said, called = clone.run("oci")
    assert status == 1 and "no mirror answers" in said and "interrupted" in said and "python examples/quickstart.py" not in called
    assert not pathlib.Path("/proc", (clone.directory / "pid").read_text().strip()).exists()


def test_a_build_that_fails_ends_the_image_and_shows_its_log(clone):
    clone.program("scripts/build", "until [ -e pid ]; do sleep 0.05; done; echo no compiler; exit 1")
    clone.program("image/build", "echo $$ >pid.new; mv pid.new pid; exec sleep 600")
    status, said, _ = clone.run("oci")
    assert status == 1 and "✗ compiling" in said and "    no compiler" in said
    assert not pathlib.Path("/proc", (clone.directory / "pid").read_text().strip()).exists()


def test_without_isolation_no_image_is_made(clone):
    status, said, called = clone.run("local")
    assert status == 0 and not any(line.startswith("build build") for line in called)
    assert called.index("limpet run -c 6 * 7") < called.index(EXTRAS)
