"""What frameworks of agents have for E2B, unchanged: each in an environment of its own, with the version of E2B's client
that it asks for. LIMPET_E2B_PROVIDERS is the directory of these environments."""

import os
import pathlib
import subprocess

import pytest

from tests.support import ROOT

from .conftest import options

pytestmark = pytest.mark.long

SCRIPTS = pathlib.Path(__file__).with_name("providers")
PROVIDERS = {
    "smolagents": "smolagents_agent.py",
    "openai-agents": "openai_agents.py",
    "deepagents": "deepagents_backend.py",
    "haystack": "haystack_tools.py",
    "agno": "agno_tools.py",
    "adk": "adk_plugin.py",
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_of_a_framework(gateway, name, isolates):
    if name == "smolagents" and not isolates:
        pytest.skip("its code imports Pillow, which the image has")
    python = ROOT / "build/environments" / f"e2b-{name}" / "bin/python"
    assert python.exists(), f"{python} is not there: scripts/environment e2b-{name}"
    where = options(gateway)
    environment = {
        "PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "E2B_API_KEY": where["api_key"],
        "E2B_API_URL": where["api_url"], "E2B_SANDBOX_URL": where["sandbox_url"],
    }  # fmt: skip
    command = [python, "-W", "ignore", SCRIPTS / PROVIDERS[name]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    # Not its status: threads of E2B's newest client now and then abort a Python that has ended.
    assert done.stdout.splitlines()[-1:] == ["done"], done.stdout + done.stderr
