"""This suite itself: a wrong path of the programs under test must not look like success."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def test_without_its_programs_the_suite_fails(tmp_path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", str(HERE)]
    environment = os.environ | {"LIMPET_BUILD": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert f"{tmp_path}/engine_probe" in done.stderr and "set LIMPET_BUILD" in done.stderr
