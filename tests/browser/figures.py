"""Where sessions without an image find what draws in a page."""

import os

from tests.support.jupyter import FIGURES

ENGINE = os.environ.get("LIMPET_TEST_ENGINE", "oci")


def find(engine):
    """The code that does so, before a cell."""
    return f"import sys; sys.path.insert(1, {str(FIGURES)!r})\n" if engine == "local" else ""


FIND = find(ENGINE)
