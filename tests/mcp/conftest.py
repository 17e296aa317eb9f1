"""The MCP server on real controllers, spoken to by the client of the official SDK over standard input and output.

Needs limpet[mcp]. LIMPET_TEST_ENGINES names the engines, by default local.
"""

import contextlib
import os
import sys

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tests.support import ROOT
from tests.support.controllers import client, limpetd, name, own_limpetd, quiet  # noqa: F401
from tests.support.preloaded import Preloaded

BOTH = ("legacy", "auto")  # the handshake of 2025-11-25, and 2026-07-28


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=BOTH)
def mode(request):
    return request.param


def environment():
    """That of the server: no controller is started but by a test."""
    return {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "clients" / "python" / "src"),
        "LIMPET_NATIVE": os.environ.get("LIMPET_NATIVE", "0"),
        "LIMPET_AUTOSTART": "0", "PYTHONPYCACHEPREFIX": sys.pycache_prefix or "",
    }  # fmt: skip


def command(controller, *options):
    """The server's, for that controller."""
    return [sys.executable, "-W", "ignore", "-m", *arguments(controller, *options)]


def arguments(controller, *options):
    return ["limpet.mcp", "--address", controller.socket, *options]


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory):
    preloaded = Preloaded(tmp_path_factory.mktemp("preloaded"), "limpet.mcp._main", "limpet.mcp._server")
    yield preloaded
    preloaded.close()


class Session:
    """A connected client."""

    def __init__(self, client):
        self.client = client

    async def call(self, tool, /, progress_callback=None, **arguments):
        return Called(await self.client.call_tool(tool, arguments, progress_callback=progress_callback))

    async def run(self, code, **arguments):
        return await self.call("run_python", code=code, **arguments)


class Called:
    """The result of a tool."""

    def __init__(self, result):
        self.failed, self.content, self.data = bool(result.is_error), result.content, result.structured_content

    @property
    def text(self):
        return "\n".join(block.text for block in self.content if block.type == "text")

    def of(self, kind):
        return [block for block in self.content if block.type == kind]


@pytest.fixture(scope="package")
def connected(limpetd, preloaded):  # noqa: F811
    """connected(*options, mode=..., **callbacks): a context manager with a Session."""

    @contextlib.asynccontextmanager
    async def connected(*options, mode="auto", controller=limpetd, **callbacks):
        program, *rest = preloaded.command(*arguments(controller, *options))
        server = StdioServerParameters(command=program, args=rest, env=environment())
        async with Client(stdio_client(server), mode=mode, **callbacks) as client:
            yield Session(client)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 60.0)  # its own way to end takes what it takes
        yield connected


@pytest.fixture(scope="module")
async def server(connected, anyio_backend):
    """A connection that tests share which leave nothing behind that others notice."""
    async with connected() as server:
        yield server
