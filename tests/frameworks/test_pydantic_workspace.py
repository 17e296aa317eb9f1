"""Pydantic AI: its own suite of workspaces, and what it does not ask."""

import asyncio

import limpet
import pytest
from limpet.pydantic_ai import LimpetWorkspace
from pydantic_ai.messages import WorkspaceRef
from pydantic_ai.workspaces import WorkspaceOutputLimitError, WorkspaceTimeoutError, WorkspaceUnavailableError
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

import limpet.pydantic_ai._workspace as workspaces

pytestmark = pytest.mark.anyio


class TestStandard(WorkspaceBackendSuite):
    @pytest.fixture
    def fresh_backend(self, standard):
        return LimpetWorkspace

    @pytest.fixture
    async def backend(self, fresh_backend):
        backend = fresh_backend()
        yield backend
        await (await backend.session()).close()

    @pytest.fixture
    def attach_backend(self, standard):
        return LimpetWorkspace

    @pytest.fixture
    def destroy_environment(self):
        async def destroy(backend):
            async with limpet.AsyncClient(autostart=False) as client:
                await client.close_session(backend.ref.id.partition("@")[0])

        return destroy

    def test_all_of_them_are_here(self):
        assert sum(name.startswith("test_") for name in dir(WorkspaceBackendSuite)) >= 40


@pytest.fixture
async def workspace(standard):
    workspace = LimpetWorkspace()
    yield workspace
    await (await workspace.session()).close()


async def test_python_lives_beside_it(workspace):
    session = await workspace.session()
    await session.run("x = 41")
    await workspace.write_bytes("/session/f", b"text")
    assert (await session.run("open('f').read(), x + 1")).result == "('text', 42)"
    assert (await workspace.run(["cat", "f"])).stdout == "text"


async def test_what_was_written_before_the_time_limit_is_told(workspace):
    with pytest.raises(WorkspaceTimeoutError) as raised:
        await workspace.run("echo out; echo err >&2; sleep 3600", shell=True, timeout=10)
    assert (raised.value.stdout, raised.value.stderr) == ("out\n", "err\n")
    for wrong in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError):
            await workspace.run(["true"], timeout=wrong)


async def test_a_flood_is_an_error_and_ends(workspace, monkeypatch, name):
    monkeypatch.setattr(workspaces, "OUTPUT", 1000)
    with pytest.raises(WorkspaceOutputLimitError) as raised:
        await workspace.run(["bash", "-c", f"exec -a {name} yes"])
    assert raised.value.stdout == "y\n" * 500
    assert (await workspace.run(f"ps ax | grep '[{name[0]}]{name[1:]}'", shell=True)).stdout == ""


async def test_signals_are_exit_codes(workspace):
    assert (await workspace.run("kill -9 $$", shell=True)).exit_code == 137


async def test_another_instance_is_never_taken_for_it(standard, client, name):
    workspace = LimpetWorkspace(name=name)
    await workspace.working_dir()
    client.close_session(name)
    with client.open(name), pytest.raises(WorkspaceUnavailableError, match="another one has its name"):
        await LimpetWorkspace(workspace.ref).working_dir()
    with pytest.raises(ValueError):
        LimpetWorkspace(WorkspaceRef(provider="e2b", id="x"))


async def test_whoever_is_cancelled_while_it_opens_leaves_its_ref(standard, client):
    before = len(client.sessions())
    workspace = LimpetWorkspace()
    first = asyncio.create_task(workspace.working_dir())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    session = await workspace.session()
    assert workspace.ref.id == f"{session.name}@{session.instance}"
    assert len(client.sessions()) == before + 1
    await session.close()


def test_it_goes_from_one_event_loop_to_the_next(standard):
    workspace = LimpetWorkspace()
    asyncio.run(workspace.write_bytes("/session/f", b"text"))
    assert asyncio.run(workspace.read_bytes("/session/f")) == b"text"
    with limpet.Client() as client:
        client.close_session(workspace.ref.id.partition("@")[0])
