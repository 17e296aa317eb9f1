"""The commands of the benchmark find what they are made of, wherever they are called from."""
import os
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.mark.parametrize("name", ["bench", "profile-call"])
def test_they_say_what_they_do(name, tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([SCRIPTS / name, "--help"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith(f"usage: {name}"), done.stderr
