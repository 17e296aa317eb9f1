"""The official conformance suite of MCP, from npm, on a gateway that offers what it asks for.

LIMPET_MCP_CONFORMANCE is a directory with its node_modules, and with the Node that runs it.
"""

import re
import subprocess

import pytest

from tests.support import ROOT
from tests.support.controllers import limpetd, quiet  # noqa: F401
from tests.support.gateway import Gateway

SCENARIOS = {"2025-11-25": 30, "2026-07-28": 37}  # that the specification requires
TASKS = ["capability-negotiation", "dispatch-and-envelope", "lifecycle", "mrtr-composition", "mrtr-input", "request-headers",
         "request-state-removal", "required-task-error", "status-notifications", "wire-fields"]  # fmt: skip


@pytest.fixture(scope="module")
def gateway(limpetd, tmp_path_factory):  # noqa: F811
    directory = tmp_path_factory.mktemp("gateway")
    gateway = Gateway(limpetd.socket, directory, "--rate-limit-max", "0", module="tests.conformance.extension").start()
    yield gateway
    gateway.stop()


def command(*arguments):
    """The suite as a program."""
    modules = ROOT / "build/environments/mcp-conformance/node_modules"
    program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    assert program.exists(), f"{program} is not there: scripts/environment mcp-conformance"
    return [str(modules / "node" / "bin" / "node"), str(program), *arguments]


@pytest.mark.parametrize("version", SCENARIOS)
@pytest.mark.timeout(600)
def test_what_the_specification_requires_and_what_it_does_not(gateway, version):
    """No scenario fails, also of those that do not count: extensions, and what its own example cannot do."""
    url = f"http://localhost:{gateway.port}/mcp"
    done = subprocess.run(command("server", "--url", url, "--requirements", version), capture_output=True, text=True)
    summary = done.stdout.partition("=== SUMMARY ===")[2]
    passed, rest = re.findall(r"^✓ (\S+): \d+ passed, 0 failed$", summary, re.M), re.findall(r"✗.*", summary)
    assert (done.returncode, rest) == (0, []), done.stdout + done.stderr + gateway.said()
    uncounted = int(re.search(r"^Not scored for \S+: (\d+) scenario", summary, re.M)[1])
    assert len(passed) - uncounted == SCENARIOS[version]
    if version == "2026-07-28":
        assert sorted(name.removeprefix("tasks-") for name in passed if name.startswith("tasks-")) == TASKS
