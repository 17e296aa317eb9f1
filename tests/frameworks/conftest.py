"""Agent frameworks on real controllers: their own suites of conformance where they have one, and what those do not ask.

Needs them in build/environments/frameworks. LIMPET_TEST_ENGINES names the engines, by default local.
"""

import os
import subprocess
import sys

import pytest

from tests.support import ROOT
from tests.support.controllers import client, limpetd, name, quiet, session  # noqa: F401


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture
def standard(limpetd, monkeypatch):  # noqa: F811
    """The controller is the one that programs find by themselves."""
    monkeypatch.setenv("LIMPET_SOCKET", limpetd.socket)
    monkeypatch.setenv("LIMPET_AUTOSTART", "0")
    return limpetd


@pytest.fixture
def isolating(limpetd):  # noqa: F811
    if not limpetd.isolates:
        pytest.skip("needs an engine with containers")


@pytest.fixture
def example(standard):
    """Runs a program of examples/, and returns what it printed."""

    def run(name):  # noqa: F811
        ended = subprocess.run([sys.executable, ROOT / "examples" / name], env=dict(os.environ), capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run
