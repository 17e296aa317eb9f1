"""The tool that installs packages, from an index on loopback."""

import pytest

from tests.support import index as indexes

pytestmark = pytest.mark.anyio


async def test_packages(connected, own_limpetd):
    """What they are, what the installer writes, and why one cannot be installed is told."""
    said = []

    async def heard(progress, total, message):
        said.append(message)

    with indexes.serving() as index:
        index.add("greeting", requires=["tone"])
        index.add("tone")
        own_limpetd.start("--package-index", f"{index.url}/simple")
        async with connected(controller=own_limpetd) as server:
            await server.run("x = 41")
            done = await server.call("install", packages=["greeting"], progress_callback=heard)
            assert not done.failed and done.text == "The session has installed:\ngreeting 1.0\ntone 1.0"
            assert done.data["packages"] == {"greeting": "1.0", "tone": "1.0"} and done.data["cached"] is False
            assert done.data["lock"].count("--hash=sha256:") == 2
            assert (await server.run("import greeting; greeting.version, x")).data["result"] == "('1.0', 41)"
            assert "Successfully installed" in "".join(said)
            failed = await server.call("install", packages=["nowhere"])
            assert failed.failed and failed.text.startswith("InstallFailed: there is no package 'nowhere' in the index")
            assert "No matching distribution" in failed.text
            refused = await server.call("install", packages=["--index-url=http://127.0.0.1:1"])
            assert refused.failed and refused.text.startswith("BadRequest: ")
            assert (await server.call("install", packages=[])).failed
            assert (await server.run("1 + 1")).data["result"] == "2"
