"""The OpenAI Agents SDK: sessions as its sandboxes. The model is a script."""

import asyncio
import io
import json
import tarfile
import urllib.request
from pathlib import Path

import limpet
import pytest
from agents import RunConfig, Runner, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.sandbox import (
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    LocalSnapshotSpec,
    Manifest,
    SandboxAgent,
    SandboxRunConfig,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.entries import File
from agents.sandbox.errors import ConfigurationError, PtySessionNotFoundError
from agents.usage import Usage
from limpet.openai_agents import LimpetSandboxClient, LimpetSandboxClientOptions
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from tests.support.ports import free_port

pytestmark = pytest.mark.anyio
set_tracing_disabled(True)


@pytest.fixture
def sandboxes(standard):
    return LimpetSandboxClient()


@pytest.fixture
async def sandbox(sandboxes):
    async with await sandboxes.create(options=LimpetSandboxClientOptions(memory="512m")) as sandbox:
        yield sandbox
    await sandboxes.delete(sandbox)


async def test_commands(sandbox):
    ran = await sandbox.exec("echo out; echo err >&2; exit 3")
    assert (ran.stdout, ran.stderr, ran.exit_code) == (b"out\n", b"err\n", 3)
    assert (await sandbox.exec("printf", "%s", "a b", shell=False)).stdout == b"a b"
    assert (await sandbox.exec("no-such-program", shell=False)).exit_code == 127
    assert (await sandbox.exec("kill -9 $$")).exit_code == 137
    ran = await sandbox.exec("yes | head -c 11000000; exit 3")
    assert (len(ran.stdout), ran.exit_code) == (10 << 20, 3) and b"only the beginning of stdout" in ran.stderr
    with pytest.raises(ExecTimeoutError):
        await sandbox.exec("sleep 1000", timeout=1)
    with pytest.raises(ConfigurationError, match="one user"):
        await sandbox.exec("true", user="root")


async def test_files(sandbox):
    await sandbox.write(Path("a/b.bin"), io.BytesIO(b"\0data\xff"))
    assert (await sandbox.read(Path("a/b.bin"))).read() == b"\0data\xff"
    assert (await sandbox.exec("cat a/b.bin | wc -c")).stdout.strip() == b"6"
    assert [entry.path.rsplit("/", 1)[-1] for entry in await sandbox.ls("a")] == ["b.bin"]
    await sandbox.mv("a/b.bin", "c.bin")
    await sandbox.rm("a", recursive=True)
    with pytest.raises(WorkspaceReadNotFoundError):
        await sandbox.read(Path("a/b.bin"))
    assert await sandbox.read_bounded(Path("c.bin"), max_bytes=3) == b"\0da"


async def test_paths_do_not_lead_out(sandbox):
    await sandbox.exec("ln -s /etc/passwd link; ln -s /tmp out")
    for path in ("../../etc/passwd", "/etc/passwd", "link"):
        with pytest.raises(Exception, match="escape|absolute|root|manifest path"):
            await sandbox.read(Path(path))
    with pytest.raises(Exception, match="escape|absolute|root|manifest path"):
        await sandbox.write(Path("out/file"), io.BytesIO(b""))


async def test_python_lives_beside_it(sandbox):
    live = sandbox._inner.limpet
    await live.run("x = 41; open('f', 'w').write('text')")
    assert (await sandbox.read(Path("f"))).read() == b"text"
    assert (await live.run("x + 1")).result == "42"


async def test_a_manifest_is_applied(sandboxes):
    manifest = Manifest(entries={"docs/a.txt": File(content=b"text")}, environment={"value": {"WHO": "me"}})
    async with await sandboxes.create(manifest=manifest) as sandbox:
        assert (await sandbox.exec("cat docs/a.txt; echo $WHO")).stdout == b"textme\n"


async def test_a_sandbox_that_runs_is_found_again_with_its_variables(sandboxes):
    first = await sandboxes.create()
    await first.start()
    await first._inner.limpet.run("x = 41")
    state = sandboxes.deserialize_session_state(json.loads(json.dumps(sandboxes.serialize_session_state(first.state))))
    async with await LimpetSandboxClient().resume(state) as again:
        assert (await again._inner.limpet.run("x + 1")).result == "42"
    with pytest.raises(limpet.NoSuchSession):
        await sandboxes.resume(state)
    assert not await first.running()
    with pytest.raises(ExecTransportError, match="no session named"):
        await first.exec("true")


async def test_a_snapshot_has_the_files_of_one_that_has_ended(sandboxes, tmp_path):
    spec = LocalSnapshotSpec(base_path=tmp_path)
    first = await sandboxes.create(snapshot=spec)
    async with first:
        await first.write(Path("a/b"), io.BytesIO(b"kept"))
        await first.exec("echo too >artifacts/c; touch -- '--help' 'a b'")
    payload = sandboxes.serialize_session_state(first.state)
    async with await sandboxes.resume(sandboxes.deserialize_session_state(payload)) as again:
        assert (await again.read(Path("a/b"))).read() == b"kept"
        assert (await again.exec("cat artifacts/c")).stdout == b"too\n"
        assert (await again.exec("LC_ALL=C ls -A")).stdout.split(b"\n") == [b"--help", b".limpet", b"a", b"a b", b"artifacts", b""]
        assert again.state.reference != payload["reference"]


async def test_an_archive_that_leads_out_is_refused(sandbox):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    data.seek(0)
    with pytest.raises(WorkspaceArchiveWriteError):
        await sandbox.hydrate_workspace(data)


@pytest.fixture
def port():
    """Sessions without a container share those of this machine."""
    return free_port()


async def test_ports(sandboxes, port):
    async with await sandboxes.create(options=LimpetSandboxClientOptions(exposed_ports=(port,))) as sandbox:
        await sandbox.write(Path("a.txt"), io.BytesIO(b"served"))
        server = await sandbox._inner.limpet.start(f"exec python3 -u -m http.server {port} --bind 127.0.0.1")
        while "Serving" not in (await server.output()).text:
            await asyncio.sleep(0.05)
        endpoint = await sandbox.resolve_exposed_port(port)
        with await asyncio.to_thread(urllib.request.urlopen, f"{endpoint.url_for('http')}a.txt", timeout=60) as reply:
            assert reply.read() == b"served"
        with pytest.raises(ExposedPortUnavailableError):
            await sandbox.resolve_exposed_port(port + 1)


async def test_programs_that_a_model_looks_at_again(sandbox):
    first = await sandbox.pty_exec_start("echo begun; while ! test -e go; do sleep 0.1; done; echo ended; exit 3", yield_time_s=1)
    assert first.process_id is not None and first.exit_code is None
    await sandbox.write(Path("go"), io.BytesIO(b""))
    again = await sandbox.pty_write_stdin(session_id=first.process_id, chars="", yield_time_s=30)
    assert (again.process_id, again.exit_code, first.output + again.output) == (None, 3, b"begun\nended\n")
    with pytest.raises(PtySessionNotFoundError):
        await sandbox.pty_write_stdin(session_id=first.process_id, chars="")


async def test_terminals(sandbox):
    started = await sandbox.pty_exec_start("read line; tty >&2; echo got $line", tty=True, yield_time_s=0.3)
    typed = await sandbox.pty_write_stdin(session_id=started.process_id, chars="text\n", yield_time_s=30)
    assert typed.exit_code == 0 and b"/dev/pts/" in typed.output and typed.output.endswith(b"got text\n")
    without = await sandbox.pty_exec_start("cat; sleep 1000", yield_time_s=0.3)
    with pytest.raises(RuntimeError, match="stdin is not available"):
        await sandbox.pty_write_stdin(session_id=without.process_id, chars="x")
    (running,) = [process for process in await sandbox._inner.limpet.processes() if process.running]
    await sandbox.pty_terminate_all()
    assert (await running.wait(60)).signal == 9


async def test_characters_that_come_in_two_parts(sandbox):
    script = "printf '\\303'; while ! test -e go; do sleep 0.1; done; printf '\\251'"
    first = await sandbox.pty_exec_start(script, yield_time_s=1)
    await sandbox.exec("touch go")
    again = await sandbox.pty_write_stdin(session_id=first.process_id, chars="", yield_time_s=30)
    assert first.output + again.output == "é".encode()


class Scripted(Model):
    def __init__(self, *calls):
        self.calls, self.shown = list(calls), []

    async def get_response(self, system_instructions, input, *ignored, **more):
        self.shown = [item.get("output") for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        if self.calls:
            name, arguments = self.calls.pop(0)
            call = ResponseFunctionToolCall(type="function_call", name=name, arguments=json.dumps(arguments), call_id=f"call-{len(self.calls)}")
            return ModelResponse(output=[call], usage=Usage(), response_id=None)
        text = ResponseOutputText(type="output_text", text="done", annotations=[])
        message = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *ignored, **more):
        raise AssertionError("nothing streams here")


async def test_an_agent(sandboxes, client):
    model = Scripted(("exec_command", {"cmd": "cat docs/a.txt"}), ("exec_command", {"cmd": "exit 3"}))
    agent = SandboxAgent(name="a", model=model, default_manifest=Manifest(entries={"docs/a.txt": File(content=b"what it says")}))
    before = len(client.sessions())
    result = await Runner.run(agent, "Read it.", run_config=RunConfig(sandbox=SandboxRunConfig(client=sandboxes)))
    assert result.final_output == "done"
    assert "what it says" in model.shown[0] and "exited with code 3" in model.shown[1]
    assert len(client.sessions()) == before


def test_the_example(example):
    assert example("openai_agents_sandbox.py").endswith("There are 344.\n")


async def test_nothing_is_left_where_a_sandbox_cannot_be_made(sandboxes, client, monkeypatch):
    def fails(*arguments):
        raise ValueError("no snapshot")

    monkeypatch.setattr(limpet.openai_agents._client, "resolve_snapshot", fails)
    with pytest.raises(ValueError):
        await sandboxes.create(options=LimpetSandboxClientOptions())
    assert client.sessions() == []
