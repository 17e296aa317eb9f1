"""E2B's clients for JavaScript, as npm has them. LIMPET_E2B_NODE is a directory with their node_modules."""

import os
import pathlib
import subprocess

import pytest

from tests.support import ROOT
from tests.support.needs import need

pytestmark = pytest.mark.long

SCRIPT = pathlib.Path(__file__).with_name("clients.cjs")
PARTS = ["code", "contexts", "lost", "commands", "terminal", "files", "watch", "limits", "life", "ended"]


def test_the_clients_for_javascript(gateway):
    version = subprocess.run([need("node", "network"), "--version"], capture_output=True, text=True).stdout
    if int(version.strip("v\n").partition(".")[0]) < 20:
        pytest.skip(f"E2B's clients need Node 20; this is {version.strip()}")
    modules = ROOT / "build/environments/e2b-npm/node_modules"
    assert (modules / "e2b").is_dir(), f"{modules} has no e2b: scripts/environment e2b-npm"
    environment = {
        "PATH": os.environ["PATH"], "NODE_PATH": str(modules), "E2B_API_KEY": gateway.ada, "E2B_API_URL": gateway.url,
        "E2B_SANDBOX_URL": gateway.url,
    }  # fmt: skip
    done = subprocess.run(["node", str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.split()) == (0, PARTS), done.stdout + done.stderr
