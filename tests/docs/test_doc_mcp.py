"""The configuration that docs/mcp.md shows for MCP clients starts a server that works."""

import asyncio
import importlib.util
import json
import os
import sys

import pytest
from tests.docs.documents import ROOT, blocks
from tests.support.needs import WITHOUT

CONFIGURATIONS = [block for block in blocks(ROOT / "docs" / "mcp.md") if block.language == "json"]


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=lambda block: block.place)
def test_a_configuration(block, place):
    if "network" in WITHOUT and not importlib.util.find_spec("mcp"):
        pytest.skip("without network")
    configuration = json.loads(block.text)
    (server,) = (configuration.get("mcpServers") or configuration["servers"]).values()
    path = f"{os.path.dirname(sys.executable)}:{place.environment['PATH']}"
    environment = {**place.environment, "PATH": path, **server.get("env", {})}
    assert asyncio.run(answer(server["command"], server["args"], environment)) == "42"


async def answer(command, arguments, environment):
    from mcp import Client, StdioServerParameters, stdio_client

    async with Client(stdio_client(StdioServerParameters(command=command, args=arguments, env=environment))) as client:
        result = await client.call_tool("run_python", {"code": "6 * 7"})
        return result.structured_content["result"]
