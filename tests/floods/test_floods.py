"""A minute of `yes` through each door, all at once: nobody on the host holds more and more.

Doors that need packages which this Python lacks are left out. LIMPET_TEST_SECONDS makes it longer. What each holds is
printed: -rP shows it."""

import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.support import CLIENT, ROOT
from tests.support.gateway import Gateway
from tests.support.limpetd import running

pytestmark = pytest.mark.long

SECONDS = int(os.environ.get("LIMPET_TEST_SECONDS", "60"))
LATEST = SECONDS + 600  # the processors are shared by all of them
GROWTH = 48  # MiB
OF_MANY = 100  # of who serves all of them, and keeps what those who come later may ask for
OF_THE_CONTROLLER = "limpetd", "limpet-files", "limpet-egress", "limpet-guest"

# What they begin with. Each is a program that has a session of its own.
BEGIN = """
import asyncio, os, pty, subprocess, sys, time
import limpet
NAME, SECONDS, URL, LIMPET = os.environ["NAME"], int(os.environ["SECONDS"]), os.environ["URL"], os.environ["LIMPET"]
LONG = SECONDS + 200
YES = f"timeout {SECONDS} yes; true"
CELL = f"import subprocess; _ = subprocess.run(['timeout', '{SECONDS}', 'yes'])"

def command(*words):
    os.execv(LIMPET, ["limpet", *words])

def at_terminal(words, prompt, *lines):
    lines, begun = list(lines), time.monotonic()
    def read(terminal):
        said = os.read(terminal, 1 << 16)
        if lines and prompt in said and (lines[0] != ":quit" or time.monotonic() > begun + SECONDS):
            os.write(terminal, f"{lines.pop(0)}\\r".encode())
        return said
    assert pty.spawn([LIMPET, *words], read) == 0

def asked(path, body, **headers):
    import httpx
    with httpx.stream("POST", URL + "/v1/sessions" + path, json=body, headers=headers, timeout=None, trust_env=False) as answer:
        for _ in answer.iter_bytes(): pass
    assert answer.status_code in (200, 201), answer

def again_and_again(): # for doors that end a command which writes too much
    begun = time.monotonic()
    while time.monotonic() < begun + SECONDS: yield

async def tool(server, name, **arguments):
    from mcp import Client
    async with Client(server) as client:
        result = await client.call_tool(name, {**arguments, "timeout": LONG})
    assert not result.is_error, result.content
"""

DOORS = {
    "limpet run": 'command("run", "-s", NAME, "-t", str(LONG), "-c", CELL)',
    "limpet exec": 'command("exec", "-s", NAME, "-t", str(LONG), "-c", YES)',
    "limpet attach": """
subprocess.run([LIMPET, "start", "-s", NAME, "-n", "flood", "-c", YES], check=True)
command("attach", NAME, "flood")
""",
    "limpet repl": 'at_terminal(["repl", "-s", NAME, "-t", str(LONG)], b">>> ", CELL, ":quit")',
    "limpet shell": 'at_terminal(["shell", NAME], b" ", f"{YES}; exit")',
    "Python": """
with limpet.open(NAME) as session: session.exec(YES, timeout=LONG)
""",
    "Python, live": """
with limpet.open(NAME) as session: session.run(CELL, LONG, on_stdout=len)
""",
    "Python, a process": """
with limpet.open(NAME) as session:
    for _ in session.start(YES).follow(): pass
""",
    "asyncio": """
async def main():
    async with limpet.AsyncClient() as client, await client.open(NAME) as session: await session.exec(YES, timeout=LONG, on_stdout=len)
asyncio.run(main())
""",
    "LangGraph": """
from limpet.langgraph import code_sandbox
code_sandbox(timeout=LONG).invoke({"code": CELL}, {"configurable": {"thread_id": NAME}})
""",
    "deep agents": """
from limpet.deepagents import LimpetSandbox
with limpet.open(NAME) as session: LimpetSandbox(session).execute(YES, timeout=LONG)
""",
    "MCP": """
from mcp import StdioServerParameters, stdio_client
server = StdioServerParameters(command=sys.executable, args=["-m", "limpet.mcp"], env=dict(os.environ))
asyncio.run(tool(stdio_client(server), "exec", command=YES))
""",
    "MCP over HTTP": """
from mcp.client.streamable_http import streamable_http_client
import httpx2
async def main():
    async with httpx2.AsyncClient(timeout=None, trust_env=False) as http:
        await tool(streamable_http_client(URL + "/mcp", http_client=http), "exec", command=YES)
asyncio.run(main())
""",
    "Jupyter": """
import jupyter_client.manager
os.environ["JUPYTER_DATA_DIR"] = os.environ["HOME"]
subprocess.run([sys.executable, "-m", "limpet.jupyter", "install", "--user"], check=True, capture_output=True)
manager, client = jupyter_client.manager.start_new_kernel(kernel_name="limpet")
try:
    assert client.execute_interactive(CELL, timeout=LONG, output_hook=len)["content"]["status"] == "ok"
finally:
    client.stop_channels()
    manager.shutdown_kernel()
""",
    "REST": """
asked("", {"name": NAME})
asked(f"/{NAME}/exec", {"command": YES, "timeout": LONG})
""",
    "REST, events": """
asked("", {"name": NAME})
asked(f"/{NAME}/run", {"code": CELL, "timeout": LONG}, accept="text/event-stream")
""",
    "E2B": """
from e2b import Sandbox
from e2b.sandbox.commands.command_handle import PtySize
sandbox = Sandbox.create(api_key="e2b_0000", api_url=URL, sandbox_url=URL, timeout=LONG)
terminal = sandbox.pty.create(PtySize(24, 80), timeout=LONG)
sandbox.pty.send_stdin(terminal.pid, f"{YES}; exit\\n".encode())
terminal.wait(on_pty=len)
""",
    "inspect_ai": """
from inspect_ai.util import OutputLimitExceededError
from limpet.inspect_ai import LimpetConfig, LimpetSandboxEnvironment
async def main():
    made = await LimpetSandboxEnvironment.sample_init("flood", LimpetConfig(), {})
    for _ in again_and_again():
        try: await made["default"].exec(["yes"])
        except OutputLimitExceededError: pass
    await LimpetSandboxEnvironment.sample_cleanup("flood", None, made, False)
asyncio.run(main())
""",
    "llm-sandbox": """
from limpet.llm_sandbox import SandboxSession
with SandboxSession(default_timeout=LONG) as session: session.execute_command(YES)
""",
    "OpenAI Agents": """
from limpet.openai_agents import LimpetSandboxClient, LimpetSandboxClientOptions
async def main():
    client = LimpetSandboxClient()
    async with await client.create(options=LimpetSandboxClientOptions()) as sandbox: await sandbox.exec(YES, timeout=LONG)
    await client.delete(sandbox)
asyncio.run(main())
""",
    "Pydantic AI": """
from limpet.pydantic_ai import LimpetWorkspace
from pydantic_ai.workspaces import WorkspaceOutputLimitError
async def main():
    workspace = LimpetWorkspace(name=NAME)
    for _ in again_and_again():
        try: await workspace.run("yes", shell=True)
        except WorkspaceOutputLimitError: pass
asyncio.run(main())
""",
    "smolagents": """
from limpet.smolagents import LimpetExecutor
with LimpetExecutor(timeout=LONG) as executor: executor(CELL)
""",
    "the page": """
import pathlib
from tests.browser.page import browser
asked("", {"name": NAME})
page = browser(pathlib.Path(os.environ["HOME"], "browser"), (1440, 1000))
try:
    page.get(f"{URL}/#{NAME}")
    asked(f"/{NAME}/run", {"code": CELL, "timeout": LONG})
    assert page.execute_script("return document.querySelector('.cells').innerText.includes('y\\\\ny')")
finally:
    page.quit()
""",
}

GATEWAY = "msgspec"
PACKAGES = {
    "LangGraph": "langgraph", "deep agents": "deepagents", "MCP": "mcp", "MCP over HTTP": GATEWAY, "Jupyter": "jupyter_client",
    "REST": GATEWAY, "REST, events": GATEWAY, "E2B": "e2b", "the gateway": GATEWAY,
    "inspect_ai": "inspect_ai", "llm-sandbox": "llm_sandbox", "OpenAI Agents": "agents", "Pydantic AI": "pydantic_ai",
    "smolagents": "smolagents", "the page": "selenium",
}  # fmt: skip
NAMES = [name for name in ("the controller", "the gateway", *DOORS) if name not in PACKAGES or importlib.util.find_spec(PACKAGES[name])]


class Process:
    """One that is looked at, with all that it has started and has a name that counts."""

    def __init__(self, pid, most=GROWTH, counts=lambda name: True):
        self.pid, self.most, self.counts, self.held = pid, most, counts, []

    def look(self, processes):
        """processes: of each its parent, its name, and the MiB that it holds."""
        below, found = [self.pid], 0
        while below:
            pid = below.pop()
            below += [other for other, (parent, _, _) in processes.items() if parent == pid]
            if pid in processes and self.counts(processes[pid][1]):
                found += processes[pid][2]
        self.held.append((time.monotonic(), found))

    def growth(self):
        """Since the first part of `yes`: a program ends when that has."""
        half = self.held[-1][0] - SECONDS * 0.6
        before, then = ([held for when, held in self.held if (when > half) == later] for later in (False, True))
        return max(then) - max(before)


def processes():
    """Of each its parent, its name, and the MiB that it holds."""
    found = {}
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = dict(line.split(":\t", 1) for line in (directory / "status").read_text().splitlines() if ":\t" in line)
        except OSError:
            continue  # it has ended
        found[int(directory.name)] = int(fields["PPid"]), fields["Name"], int(fields.get("VmRSS", "0 kB").split()[0]) >> 10
    return found


class Floods:
    """These doors at once, until the last has ended."""

    def __init__(self, names, limpetd, directory):
        self.watched = {"the controller": Process(limpetd.process.pid, OF_MANY, lambda name: name in OF_THE_CONTROLLER)}
        self.started, gateway = {}, None
        try:
            if "the gateway" in NAMES:
                gateway = Gateway(limpetd.socket, directory, "--rate-limit-max", "0", "--max-sessions", "100").start()
                self.watched["the gateway"] = Process(gateway.process.pid, OF_MANY)
            self.started = {door: self.start(door, limpetd, gateway, directory) for door in DOORS if door in names}
            self.watch()
        finally:
            for started in self.started.values():
                if started.poll() is None:
                    os.killpg(started.pid, signal.SIGKILL)
            if gateway:
                gateway.stop()

    def start(self, door, limpetd, gateway, directory):
        home = directory / door.replace(" ", "-")
        home.mkdir()
        environment = os.environ | {
            "NAME": f"flood-{len(self.watched)}", "SECONDS": str(SECONDS), "URL": gateway.url if gateway else "", "HOME": str(home),
            "LIMPET": shutil.which("limpet", path=os.environ["LIMPET_BUILD"]), "LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0",
            "PYTHONPATH": f"{CLIENT}:{ROOT}", "TERM": "xterm",
        }  # fmt: skip
        with open(home / "said", "wb") as said:
            started = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", BEGIN + DOORS[door]], env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
            )  # fmt: skip
        started.said = home / "said"
        self.watched[door] = Process(started.pid)
        return started

    def watch(self):
        """Once a second. Whoever has ended is not looked at."""
        end = time.monotonic() + LATEST
        while any([started.poll() is None for started in self.started.values()]) and time.monotonic() < end:
            now = processes()
            for name, process in self.watched.items():
                if name not in self.started or self.started[name].returncode is None:
                    process.look(now)
            time.sleep(1)


@pytest.fixture(scope="module")
def floods(request, tmp_path_factory):
    names = {item.callspec.params["name"] for item in request.session.items if item.module is request.module}
    with running() as limpetd:
        yield Floods(names, limpetd, tmp_path_factory.mktemp("floods"))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", NAMES)
def test_nobody_holds_more_and_more(floods, name):
    started = floods.started.get(name)
    assert started is None or started.returncode == 0, started.said.read_text()
    watched = floods.watched[name]
    print("MiB, after seconds:", *(f"{held} {when - watched.held[0][0]:.0f}" for when, held in watched.held))
    assert watched.growth() < watched.most
