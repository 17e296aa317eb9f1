"""`limpet context` and `limpet run --language`, on a real controller."""

import json
import os
import subprocess

import pytest

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")


@pytest.fixture
def command(limpetd):
    environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}

    def command(*words):
        """Exit status, and both streams without the warning that an engine does not isolate."""
        ended = subprocess.run([LIMPET, *words], capture_output=True, text=True, env=environment, timeout=120)
        own = [line for line in ended.stderr.splitlines(True) if not line.startswith("limpet: warning: ")]
        return ended.returncode, ended.stdout, "".join(own)

    return command


def test_the_context_of_a_language(command, session, name):
    assert command("run", "-s", name, "-l", "bash", "-c", "x=5; echo set") == (0, "set\n", "")
    assert command("run", "-s", name, "--language", "sh", "-c", "echo $x; exit_code() { return 3; }; exit_code")[:2] == (1, "5\n")
    assert command("run", "-s", f"{name}/bash", "-c", "echo $x")[1] == "5\n"
    assert command("run", "-s", name, "-l", "python", "-c", "6 * 7") == (0, "42\n", "")
    status, out, err = command("run", "-s", name, "-l", "bash", "-c", "exit 4")
    assert status == 137 and "lost" in err


def test_opening_one(command, session, name):
    assert command("context", name, "other")[1].startswith(f"opened {name}/other (")
    status, out, _ = command("context", name, "-l", "sh", "--json")
    assert status == 0 and json.loads(out)["session"] == f"{name}/bash"
    assert command("context", name, "bash", "--language", "python")[0] == 125
    assert command("run", "-s", f"{name}/other", "-c", "1 + 1")[1] == "2\n"
    assert command("close", f"{name}/other")[0] == 0


def test_what_is_wrong(command, session, name):
    status, _, err = command("context", name, "-l", "cobol")
    assert status == 125 and "there is no language 'cobol'; this image has python, bash" in err
    status, _, err = command("run", "-l", "bash", "-c", "true")
    assert status == 2 and "--language needs a session: add -s SESSION" in err
    assert command("context")[0] == 2
