"""A session as a deep agent's backend: LangChain's own tests of sandboxes, and what they do not ask."""

import asyncio
import inspect
import os
import subprocess
import sys

import limpet
import pytest

pytest.importorskip("deepagents", reason="the oldest frameworks are tried without")

from langchain_tests.integration_tests import SandboxIntegrationTests
from limpet.deepagents import LimpetSandbox

from tests.support import ROOT
from tests.support.controllers import ENGINES, session  # noqa: F401
from tests.support.limpetd import running

# What deepagents itself does otherwise, with any sandbox.
UNLIKE = {
    "test_write_existing_file_fails": "it replaces a file that is there",
    "test_glob": "its paths are absolute",
    "test_glob_basic_pattern": "its paths are absolute",
    "test_glob_hidden_files_explicitly": "its paths are absolute",
    "test_glob_with_character_class": "its paths are absolute",
    "test_glob_with_question_mark": "its paths are absolute",
    "test_glob_with_directories": "it finds files",
}

for _, coroutine in inspect.getmembers(SandboxIntegrationTests, inspect.iscoroutinefunction):
    pytest.mark.asyncio(coroutine)


@pytest.mark.engine
class TestStandard(SandboxIntegrationTests):
    @pytest.fixture(autouse=True)
    def unlike(self, request):
        if request.node.originalname in UNLIKE:
            request.applymarker(pytest.mark.xfail(reason=UNLIKE[request.node.originalname], strict=True))

    @pytest.fixture(scope="class", params=ENGINES)
    def sandbox(self, request):
        if request.param == "local":
            pytest.skip("they need a sandbox of its own")
        with running(request.param) as limpetd, limpetd.client() as client, client.open("standard") as session:
            yield LimpetSandbox(session)


@pytest.fixture
def sandbox(session):
    return LimpetSandbox(session)


def test_what_ends_otherwise(sandbox):
    assert sandbox.execute("echo out; echo err >&2; exit 3") == sandbox.execute("printf 'out\\nerr\\n'; exit 3")
    assert sandbox.execute("echo begun; sleep 1000", timeout=1).exit_code == 124
    assert sandbox.execute("kill -9 $$").exit_code == 137
    assert sandbox.execute("no-such-program").exit_code == 127


def test_of_endless_output_the_beginning_is_kept(sandbox):
    ran = sandbox.execute("yes | head -c 11000000; exit 3")
    assert (len(ran.output), ran.exit_code, ran.truncated) == (10 << 20, 3, True)
    assert not sandbox.execute("yes | head -c 1000000").truncated


def test_long_output_is_kept_up_to_a_limit(sandbox):
    for size, kept, truncated in (5_000_000, 5_000_000, False), (12_000_000, 10 << 20, True):
        response = sandbox.execute(f"head -c {size} /dev/zero | tr '\\0' x")
        assert (len(response.output), response.truncated) == (kept, truncated)


def test_what_a_model_reads(sandbox):
    """Its commands go another way than those by which the tools for files work."""
    command = r"printf 'one\rtwo\n\033[31mred\n'; yes | head -n 90"
    told = sandbox.execute_with_offload(command, "/tmp/limpet-capture", max_inline_bytes=10_000)
    assert told.response.output.rstrip() == "two\nred\ny\n[the line above 89 more times]"
    assert sandbox.execute(command).output.startswith("one\rtwo\n\033[31mred\ny\ny\ny\ny\n")


def test_variables_live_beside_it(sandbox, session):
    session.run("x = 41")
    sandbox.execute("echo text > f")
    assert session.run("open('f').read(), x + 1").result == "('text\\n', 42)"


def test_it_is_found_again_and_never_replaced(sandbox, session, client, name):
    assert LimpetSandbox.attach(sandbox.id, client).execute("echo here").output == "here\n"
    session.close()
    with pytest.raises(limpet.NoSuchSession):
        LimpetSandbox.attach(sandbox.id, client)
    with client.open(name), pytest.raises(limpet.NoSuchSession, match="another one has its name"):
        LimpetSandbox.attach(sandbox.id, client)
    with pytest.raises(limpet.SessionClosed):
        sandbox.execute("true")


def test_asyncio(sandbox):
    async def both():
        return await asyncio.gather(sandbox.aexecute("echo one"), sandbox.aexecute("echo two"))

    assert [answer.output for answer in asyncio.run(both())] == ["one\n", "two\n"]


@pytest.mark.engine
def test_the_example(limpetd, tmp_path):
    if not limpetd.isolates:
        pytest.skip("its files are below /session")
    environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}
    program = ROOT / "examples" / "deepagents_agent.py"
    ended = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith("There are 344.\n")


def test_relative_paths_are_refused(sandbox):
    assert sandbox.upload_files([("a", b"")])[0].error == sandbox.download_files(["a"])[0].error == "invalid_path"
