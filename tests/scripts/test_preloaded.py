"""tests/support/preloaded.py"""

import os
import subprocess

import pytest

from tests.support.preloaded import Preloaded


@pytest.fixture
def dying(tmp_path, capfd):
    preloaded = Preloaded(tmp_path, "no_module_has_this_name")
    yield preloaded
    preloaded.close()


def test_whoever_waits_hears_that_it_has_died(dying):
    """Whether it dies before or after it is asked."""
    with pytest.raises((EOFError, ConnectionError)):
        dying.start([0, 1, 2], dict(os.environ), "json.tool")
    assert subprocess.run(dying.command("json.tool"), stderr=subprocess.PIPE, timeout=60).returncode == 1
