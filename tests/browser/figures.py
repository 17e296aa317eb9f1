"""Where sessions without an image find what draws in a page."""

import os

from tests.support.jupyter import FIGURES

FIND = f"import sys; sys.path.insert(1, {str(FIGURES)!r})\n" if os.environ.get("LIMPET_TEST_ENGINE") == "local" else ""
