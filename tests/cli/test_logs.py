"""limpet logs: of a controller in the background, of one in the foreground, and of none."""

import fcntl
import re
import stat
import subprocess

import pytest

from .conftest import BUILD


@pytest.fixture
def log(real):
    real.good("ls")
    return real.directory / "state/limpetd.log"


def test_the_log_of_a_controller_in_the_background(real, log):
    real.good("run", "-s", "logged", "-c", "1")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert real.good("logs") == log.read_text()
    assert real.good("logs", "-n", "1") == log.read_text().splitlines(True)[-1]
    assert " session=logged" in real.good("logs")


def test_one_session(real, log):
    for name in ("alone", "alone-not"):
        real.good("open", name)
        real.good("close", name)
    lines = real.good("logs", "-s", "alone").splitlines()
    assert lines and all(re.search(r" session=alone( |$)", line) for line in lines)
    assert real.good("logs", "-s", "nothing") == ""


def test_following(real, log):
    process = real.start("logs", "-f", "-n", "1")
    assert process.stdout.readline()
    real.good("open", "followed")
    line = process.stdout.readline()
    while b"session=followed" not in line:
        assert line
        line = process.stdout.readline()
    process.kill()
    process.communicate()


def test_a_full_log_makes_way(real, log):
    """What is followed goes on in the new file; what is shown begins in the old one."""
    with open(log, "a") as file:
        file.write("filler\n" * (1 << 18))
    process = real.start("logs", "-f", "-n", "1")
    assert process.stdout.readline() == b"filler\n"
    real.good("open", "first")  # this line goes to the old file, which is full then
    real.good("open", "second")
    said = process.stdout.readline() + process.stdout.readline()
    while b"session=second" not in said:
        line = process.stdout.readline()
        assert line
        said += line
    assert b"session=first" in said
    process.kill()
    process.communicate()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert log.stat().st_size < 1 << 20 and log.with_name("limpetd.log.1").stat().st_size > 1 << 20
    shown = real.good("logs")
    assert "filler\n" in shown and "session=second" in shown


def test_without_a_controller(real, log, tmp_path):
    real.good("shutdown")
    environment = {"LIMPET_AUTOSTART": "0"}
    assert " shutting down " in real.good("logs", environment=environment)
    result = real("logs", environment=environment | {"LIMPET_STATE_DIR": str(tmp_path)})
    assert result.returncode == 125
    assert result.err == f"limpet: no controller is running, and there is no log at {tmp_path}/limpetd.log\n"


def foreground(real, stderr):
    with open(real.directory / "state/lock") as lock:  # the one before may still be ending
        fcntl.flock(lock, fcntl.LOCK_EX)
    process = subprocess.Popen([BUILD / "limpetd"], env=real.environment, cwd=real.directory, stderr=stderr)
    while real("ls", environment={"LIMPET_AUTOSTART": "0"}).returncode != 0:
        assert process.poll() is None
    return process


def test_a_controller_in_the_foreground(real, log):
    real.good("shutdown")
    process = foreground(real, subprocess.PIPE)
    try:
        result = real("logs")
        assert result.returncode == 125
        assert f"(pid {process.pid}) does not write a log file: it logs to its standard error" in result.err
        assert "pipe:" in result.err
    finally:
        real.good("shutdown")
        process.communicate(timeout=60)


def test_a_controller_whose_output_goes_to_a_file(real, log, tmp_path):
    real.good("shutdown")
    with open(tmp_path / "log", "w") as file:
        process = foreground(real, file)
    try:
        assert real.good("logs") == (tmp_path / "log").read_text()
    finally:
        real.good("shutdown")
        process.wait(60)
