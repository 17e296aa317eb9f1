"""The adapters for agent frameworks, with the real frameworks and real controllers. Only models are scripted.

The controllers and their settings are those of tests/integration.
"""

import importlib.util
import os
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "clients", "python", "src"))
sys.path.insert(0, os.path.join(ROOT, "examples"))


def _integration():
    path = os.path.join(ROOT, "tests", "integration", "conftest.py")
    spec = importlib.util.spec_from_file_location("integration_conftest", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_controllers = _integration()
limpetd, quiet, client, name = (
    _controllers.limpetd,
    _controllers.quiet,
    _controllers.client,
    _controllers.name,
)
pytest_configure = _controllers.pytest_configure


@pytest.fixture
def isolating(limpetd):
    if not limpetd.isolates:
        pytest.skip("needs an engine with containers: there is no /data without")
