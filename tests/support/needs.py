"""Programs that tests need: one that is missing is an error, unless it was left out by `scripts/test --without`.

LIMPET_TEST_WITHOUT has the words of that option.
"""

import os
import shutil

import pytest

WITHOUT = os.environ.get("LIMPET_TEST_WITHOUT", "").split()


def need(program, what):
    """The program's path; `what` is the word of --without that it belongs to."""
    if what in WITHOUT:
        pytest.skip(f"without {what}")
    path = shutil.which(program)
    if path is None:
        pytest.fail(f"{program} is not in PATH: install it, or leave it out by scripts/test --without {what}")
    return path
