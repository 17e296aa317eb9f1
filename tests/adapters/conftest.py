"""The adapters for agent frameworks, with the real frameworks and real controllers. Only models are scripted."""

import pytest

from tests.support.controllers import client, limpetd, name, own_limpetd, quiet  # noqa: F401
from tests.support.langgraph import call, sandbox  # noqa: F401


@pytest.fixture
def isolating(limpetd):  # noqa: F811
    if not limpetd.isolates:
        pytest.skip("needs an engine with containers: there is no /data without")
