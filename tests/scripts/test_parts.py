"""Parts of a script that run beside each other: what each says is whole, and none outlives the script."""

import os
import pathlib
import pty
import signal
import subprocess

import pytest

from tests.scripts.test_scripts import alive, until

LIB = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "lib.sh"

SCRIPT = """set -euo pipefail
. {lib}
cd {directory}
LOG=main.log
: >main.log
trap 'status=$?; step_report "$status"; parts_end; exit "$status"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
fails() {{ LOG=fails.log; step "falling" sh -c 'until [ -s asleep ]; do sleep 0.05; done; echo a reason; exit 3'; }}
works() {{ step "walking" true; say "  arrived"; }}
sleeps() {{ step "sleeping" sh -c 'sleep 600 & echo $! >asleep.new; mv asleep.new asleep; wait'; }}
{body}
parts_wait "all"
say "done"
"""


def start(directory, body, **options):
    script = directory / "script"
    script.write_text(SCRIPT.format(lib=LIB, directory=directory, body=body))
    return subprocess.Popen(
        ["bash", script], **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    )


def sleeper(directory):
    return int((directory / "asleep").read_text())


def test_all_parts_are_waited_for_and_each_tells_its_steps(tmp_path):
    process = start(tmp_path, "beside works\nbeside sh -c 'sleep 1; echo later >later'\nbeside works")
    said = process.communicate(timeout=60)[0].splitlines()
    assert process.returncode == 0 and (tmp_path / "later").exists()
    assert said.count("  walking …") == said.count("  arrived") == 2
    assert said[-2].startswith("  ✓ all  ") and said[-1] == "done"


def test_a_part_that_fails_ends_the_others_and_the_script(tmp_path):
    process = start(tmp_path, "beside sleeps\nbeside fails")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 1 and "done" not in said
    assert "✗ falling  failed" in said and "last lines of fails.log:\n    == falling\n    a reason" in said
    assert "✗ sleeping  interrupted" in said
    until(lambda: not alive(sleeper(tmp_path)))


@pytest.mark.parametrize("how, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_script_that_is_told_to_end_ends_its_parts(tmp_path, how, status):
    process = start(tmp_path, "beside sleeps\nbeside sleep 600", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    until((tmp_path / "asleep").exists)
    process.send_signal(how)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == status and "✗ all  interrupted" in said
    until(lambda: not alive(sleeper(tmp_path)))


def test_on_a_terminal_lines_of_parts_do_not_run_into_the_live_one(tmp_path):
    ours, theirs = pty.openpty()
    os.mkfifo(tmp_path / "told")
    process = start(tmp_path, f"beside works\nbeside cat {tmp_path}/told", stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", "PROGRESS": "auto"})
    os.close(theirs)
    said, shown = b"", False
    try:
        while piece := os.read(ours, 4096):
            said += piece
            if not shown and "all … ".encode() in said:
                shown = True
                (tmp_path / "told").write_text("")
    except OSError:
        pass
    os.close(ours)
    assert process.wait(60) == 0
    lines = said.decode().replace("\r\n", "\n").split("\n")
    shown = [line.rpartition("\r\x1b[K")[2] for line in lines]
    assert "  walking …" in shown and "  arrived" in shown and shown[-2] == "done"
