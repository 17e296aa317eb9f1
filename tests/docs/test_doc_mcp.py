"""The configuration that docs/mcp.md shows for MCP clients starts a server that works, or reaches one over HTTP."""

import asyncio
import importlib.util
import json
import os
import re
import sys

import pytest
from tests.docs.documents import ROOT, blocks
from tests.support.gateway import Gateway
from tests.support.needs import WITHOUT

CONFIGURATIONS = [block for block in blocks(ROOT / "docs/mcp.md") if block.language == "json"]
ADDRESS = "http://127.0.0.1:8000"


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=lambda block: block.place)
def test_a_configuration(block, place):
    if "network" in WITHOUT and not importlib.util.find_spec("mcp"):
        pytest.skip("without network")
    configuration = json.loads(block.text)
    (server,) = (configuration.get("mcpServers") or configuration["servers"]).values()
    if ADDRESS in block.text:
        assert asyncio.run(over_http(server, configuration.get("inputs", ()), place)) == "42"
        return
    path = f"{os.path.dirname(sys.executable)}:{place.environment['PATH']}"
    environment = {**place.environment, "PATH": path, **server.get("env", {})}
    assert asyncio.run(over_pipes(server["command"], server["args"], environment)) == "42"


async def answer(transport):
    from mcp import Client

    async with Client(transport) as client:
        result = await client.call_tool("run_python", {"code": "6 * 7"})
        return result.structured_content["result"]


async def over_pipes(command, arguments, environment):
    from mcp import StdioServerParameters, stdio_client

    return await answer(stdio_client(StdioServerParameters(command=command, args=arguments, env=environment)))


async def over_http(server, inputs, place):
    """As the client, or mcp-remote, would: what stands for the key is replaced by one."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    gateway = Gateway(place.environment["LIMPET_SOCKET"], place.root, environment={**place.environment, "LIMPET_AUTOSTART": "1"})
    key = gateway.key("create", "reader")
    gateway.start()
    try:
        url, headers = where(server, {each["id"] for each in inputs}, key)
        async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=120) as http:
            return await answer(streamable_http_client(url.replace(ADDRESS, gateway.url), http_client=http))
    finally:
        gateway.stop()


def where(server, inputs, key):
    """The address, and the headers."""
    if "url" in server:
        url, headers = server["url"], server["headers"]
    else:
        program, url, header = server["args"][1], server["args"][2], server["args"][server["args"].index("--header") + 1]
        assert (server["command"], program) == ("npx", "mcp-remote")
        name, _, value = header.partition(":")
        headers = {name: re.sub(r"\$\{(\w+)\}", lambda found: server["env"][found[1]], value)}
    known = {f"${{input:{name}}}" for name in inputs} | {"${env:LIMPET_KEY}", "e2b_..."}
    (secret,) = (each for each in known if each in headers["Authorization"])
    return url, {name: value.replace(secret, key) for name, value in headers.items()}
