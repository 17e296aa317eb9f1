"""The life of the server: its session, its client, its controller, and the process."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import anyio
import pytest

from .conftest import arguments, command, environment

pytestmark = pytest.mark.anyio

PATIENCE = 60
LOOP = "import pathlib\npathlib.Path('began').touch()\nwhile True: pass"


async def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.02)


def exists(session, path):
    return lambda: session.files.exists(path)


class Raw:
    """The server as a process, spoken to by hand."""

    def __init__(self, arguments):
        self.process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), text=True
        )
        self.send("initialize", 0, protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "raw", "version": "1"})
        assert self.answer()["result"]["serverInfo"]["name"] == "limpet"
        self.send("notifications/initialized")

    def send(self, method, number=None, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number})
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def run(self, code):
        self.send("tools/call", 1, name="run_python", arguments={"code": code})

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


@pytest.fixture
def raw(limpetd, preloaded):
    servers = []

    def start(*options, whole=False):
        started = command(limpetd, *options) if whole else preloaded.command(*arguments(limpetd, *options))
        servers.append(Raw(started))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


async def test_a_session_of_its_own_ends_with_the_connection(connected, limpetd, mode):
    async with connected(mode=mode) as server:
        name = (await server.run("1")).data["session"]
        assert name in limpetd.sessions()
    await until(lambda: name not in limpetd.sessions())


async def test_a_named_session_is_kept(connected, client, name):
    async with connected("--session", name, "--memory", "300m") as server:
        await server.run("x = 1")
    async with connected("--session", name) as server:
        assert (await server.run("x")).data["result"] == "1"
    async with connected("--session", name, "--memory", "400m") as server:
        assert "OptionsDiffer" in (await server.run("x")).text
    client.close_session(name)


async def test_two_connections_share_a_named_session(connected, client, name):
    async with connected("--session", name) as one, connected("--session", name, mode="legacy") as two:
        await one.run("x = 1")
        assert (await two.run("x")).data["result"] == "1"
    client.close_session(name)


async def test_a_session_that_somebody_closed(connected, client):
    async with connected() as server:
        client.close_session((await server.run("x = 1")).data["session"])
        gone = await server.run("x")
        assert gone.failed and "its variables and files are gone" in gone.text
        assert "of a new session" in (await server.run("1")).text


async def test_a_cancelled_call_is_interrupted(connected, client, name, mode):
    with client.open(name, timeout=600) as session:
        async with connected("--session", name, mode=mode) as server:
            await server.run("x = 1")
            async with anyio.create_task_group() as group:
                group.start_soon(server.run, LOOP)
                await until(exists(session, "began"))
                group.cancel_scope.cancel()
            after = await server.run("x")  # waits for its turn: the loop has ended
            assert (after.data["result"], after.data["execution_count"]) == ("1", 3)
            assert (await server.call("exec", command="true")).failed is False


async def test_a_cancelled_command_is_interrupted(connected, client, name):
    with client.open(name, timeout=600) as session:
        async with connected("--session", name) as server:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: server.call("exec", command="touch began; exec sleep 500"))
                await until(exists(session, "began"))
                group.cancel_scope.cancel()
            await until(lambda: session.exec("pgrep -f 'sleep [5]00'").exit_code == 1)


@pytest.mark.parametrize("how", ["close", "kill", "close output", "terminate"])
async def test_a_client_that_vanishes(raw, limpetd, client, how):
    """In the middle of a call: its pipes are closed, or the server is told to end."""
    server = raw("--timeout", "600", whole=how == "terminate")  # whose status is its own
    server.run("1")
    name = server.answer()["result"]["structuredContent"]["session"]
    server.run(LOOP)
    await until(exists(client.attach(name), "began"))
    if how == "terminate":
        server.process.send_signal(signal.SIGTERM)
    if how in ("kill", "close output"):
        server.process.stdout.close()
    if how in ("kill", "close"):
        server.process.stdin.close()
    if how == "close output":
        server.send("ping", 2)  # the answer cannot be written
    assert server.process.wait(PATIENCE) == (128 + signal.SIGTERM if how == "terminate" else 0)
    await until(lambda: name not in limpetd.sessions())


async def test_a_client_that_vanishes_while_its_session_is_opened(raw, limpetd):
    before = set(limpetd.sessions())
    server = raw()
    server.run("1")
    server.process.stdin.close()
    assert server.process.wait(PATIENCE) == 0
    await until(lambda: set(limpetd.sessions()) <= before)


async def test_calls_of_a_named_session_end_with_the_client(raw, client, name):
    with client.open(name, timeout=600) as session:
        server = raw("--session", name)
        server.run(LOOP)
        await until(exists(session, "began"))
        server.process.stdin.close()
        assert session.run("1").result == "1"


async def test_no_controller(connected, limpetd, tmp_path):
    async with connected("--address", str(tmp_path / "nobody")) as server:
        assert len((await server.client.list_tools()).tools) == 10
        failed = await server.run("1")
        assert failed.failed and failed.text.startswith("Unavailable: ") and "nobody" in failed.text


async def test_a_controller_that_is_killed_during_a_call(connected, own_limpetd):
    """The next one adopts the session and the call: it runs once, and its result is delivered."""
    own_limpetd.start()
    async with connected(controller=own_limpetd) as server:
        name = (await server.run("runs = 0")).data["session"]
        with own_limpetd.client() as client:
            session, results = client.attach(name), []
            code = "import pathlib, time\nruns += 1\npathlib.Path('began').touch()\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nprint('end')\nruns"

            async def run():
                results.append(await server.run(code))

            async with anyio.create_task_group() as group:
                group.start_soon(run)
                await until(exists(session, "began"))
                await anyio.to_thread.run_sync(own_limpetd.kill)
                await anyio.to_thread.run_sync(own_limpetd.start)
                await anyio.to_thread.run_sync(lambda: client.attach(name).files.write("go", b""))
        (result,) = results
        assert (result.data["status"], result.data["result"], result.data["stdout"]) == ("ok", "1", "end\n")
        assert (await server.run("runs")).data["result"] == "1"


async def test_what_is_no_message_is_refused_and_nothing_else(raw):
    server = raw()
    server.process.stdin.write("nonsense\n{}\n[1]\n")
    server.run("print('{\"jsonrpc\": \"2.0\"}')")
    answers = []
    while not answers or answers[-1].get("id") != 1:
        answers.append(server.answer())
    assert answers[-1]["result"]["structuredContent"]["stdout"] == '{"jsonrpc": "2.0"}\n'


async def test_standard_output_is_the_protocol_alone(raw, tmp_path):
    (tmp_path / "tools.py").write_text("print('loaded')\ndef noisy():\n    print('called')\n    return 1\n")
    server = raw("--tools", str(tmp_path / "tools.py"), "--allow", "noisy")
    server.run("import limpet_tools; limpet_tools.noisy()")
    assert server.answer()["result"]["structuredContent"]["result"] == "1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["--max-chars", "-1"], "--max-chars"),
        (["--env", "A"], "'A' is not NAME=VALUE"),
        (["--tools", "/nowhere.py"], "/nowhere.py: FileNotFoundError"),
        (["--tools", "/dev/null"], "/dev/null defines no function"),
        (["--allow", "x"], "--tools has no function 'x'"),
    ],
)
def test_wrong_options(preloaded, options, said):
    done = subprocess.run(preloaded.command("limpet.mcp", *options), env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr and "Try 'limpet mcp --help'" in done.stderr


def test_the_extra_is_missing(tmp_path):
    (tmp_path / "mcp.py").write_text("")  # as an older one: without what is needed
    environment_of_older = {**environment(), "PYTHONPATH": f"{tmp_path}:{environment()['PYTHONPATH']}"}
    done = subprocess.run([sys.executable, "-m", "limpet.mcp"], env=environment_of_older, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "") and "pip install 'mcp>=2.3,<3'" in done.stderr


def test_the_command(limpetd):
    program = os.path.join(os.environ["LIMPET_BUILD"], "limpet")
    env = {**environment(), "LIMPET_PYTHON": sys.executable}
    helped = subprocess.run([program, "mcp", "--help"], env=env, capture_output=True, text=True)
    assert helped.returncode == 0 and helped.stdout.startswith("usage: limpet mcp")
    missing = subprocess.run([program, "mcp"], env={**env, "LIMPET_PYTHON": "/nowhere"}, capture_output=True, text=True)
    assert missing.returncode == 125 and "set LIMPET_PYTHON to a Python that has limpet[mcp]" in missing.stderr
