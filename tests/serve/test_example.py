"""examples/rest.py, as a user starts it."""

import subprocess
import sys

import pytest

from tests.support import EXAMPLES


@pytest.mark.engine
def test_rest(guarded, limpetd):
    if not limpetd.isolates:
        pytest.skip("it writes to /session/artifacts, which the engine local has elsewhere")
    environment = {**guarded.environment, "LIMPET_URL": guarded.url, "LIMPET_KEY": guarded.anna}
    done = subprocess.run([sys.executable, EXAMPLES / "rest.py"], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "Who are you?  → Ada" and "hello Ada 2" in lines
    assert lines[-2:] == ["status: ok", "the file says: hello Ada"]
