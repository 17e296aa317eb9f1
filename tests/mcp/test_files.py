"""Tools for files, and resources."""

import base64
import json

import pytest
from mcp import MCPError

from .test_running import PNG

pytestmark = pytest.mark.anyio


async def test_text(server):
    assert "6 bytes" in (await server.call("write_file", path="d/a.txt", content="hé\nx\n")).text
    assert (await server.call("read_file", path="d/a.txt")).text == "hé\nx\n"
    assert "read on with offset=1" in (await server.call("read_file", path="d/a.txt", limit=1)).text
    assert (await server.call("read_file", path="d/a.txt", offset=1)).text == "x\n"


async def test_code_sees_what_is_written(server):
    await server.call("write_file", path="a.bin", content=base64.b64encode(b"\0\xff").decode(), encoding="base64")
    assert (await server.run("open('a.bin', 'rb').read()")).data["result"] == repr(b"\0\xff")
    wrong = await server.call("write_file", path="a.bin", content="%", encoding="base64")
    assert wrong.failed and "no base64" in wrong.text


async def test_a_file_that_is_no_text(server):
    await server.run(f"open('a.bin', 'wb').write(b'\\0\\xff'); open('a.png', 'wb').write({PNG!r})")
    binary = await server.call("read_file", path="a.bin")
    assert binary.failed and 'encoding="base64"' in binary.text
    assert base64.b64decode((await server.call("read_file", path="a.bin", encoding="base64")).text) == b"\0\xff"
    (image,) = (await server.call("read_file", path="a.png")).of("image")
    assert base64.b64decode(image.data) == PNG


async def test_a_file_that_is_not_utf8(server):
    await server.run("open('a.txt', 'wb').write(b'caf\\xe9\\n')")
    read = await server.call("read_file", path="a.txt")
    assert not read.failed and read.text.startswith("caf\ufffd\n") and "not UTF-8" in read.text


async def test_a_name_that_is_not_utf8(server):
    made = await server.run("import os; os.close(os.open(b'artifacts/caf\\xe9', os.O_CREAT | os.O_WRONLY))")
    (link,) = made.of("resource_link")
    assert (link.uri, link.name) == ("limpet://artifacts/caf%E9", "caf\\udce9")
    assert list(made.data["artifacts"])[0].endswith("/artifacts/caf\\udce9")
    assert "caf\\udce9" in (await server.call("list_files", path="artifacts")).text
    (content,) = (await server.client.read_resource(link.uri)).contents
    assert content.blob == ""


async def test_lists(server):
    await server.run("import os; os.makedirs('many'); open('many/f', 'w').write('abc')")
    listed = await server.call("list_files", depth=2)
    assert {"path": "/session/many/f", "type": "file", "size": 3} in listed.data["entries"]
    assert "/session/many/f  3" in listed.text and "/session/many/\n" in listed.text
    await server.run("for i in range(600): open(f'many/{i}', 'w').close()")
    many = await server.call("list_files", path="many")
    assert (len(many.data["entries"]), many.data["more"]) == (500, 101) and "[101 more]" in many.text


async def test_files_that_cannot_be_read(server):
    missing = await server.call("read_file", path="nothing")
    assert missing.failed and missing.text.startswith("FileFailed: ")
    assert (await server.call("read_file", path="/session")).failed
    await server.run("open('huge', 'wb').truncate(64 << 20)")
    huge = await server.call("read_file", path="huge")
    assert huge.failed and huge.text.startswith("TooLarge: huge has more than ")


async def test_long_lines_and_pages(connected):
    async with connected("--max-chars", "100") as server:
        await server.call("write_file", path="a", content="x" * 1000 + "\nend\n")
        first = await server.call("read_file", path="a")
        assert len(first.text) < 200 and "offset=1]" in first.text
        assert (await server.call("read_file", path="a", offset=1)).text == "end\n"


async def test_nothing_is_listed_before_the_first_call(connected, limpetd):
    async with connected() as server:
        before = set(limpetd.sessions())
        assert [each.uri for each in (await server.client.list_resources()).resources] == ["limpet://variables"]
        assert set(limpetd.sessions()) == before


async def test_variables(server):
    await server.run("number = 5\nwords = ['a', 'b']")
    (content,) = (await server.client.read_resource("limpet://variables")).contents
    rows = {row["name"]: row for row in json.loads(content.text)["variables"]}
    assert rows["number"]["repr"] == "5" and rows["words"]["shape"] == [2]


async def test_artifacts_are_listed_in_pages(connected):
    async with connected() as server:
        await server.run("for i in range(250): open(f'artifacts/{i:03}.txt', 'w').write('1')")
        first = await server.client.list_resources()
        second = await server.client.list_resources(cursor=first.next_cursor)
        found = [each.name for each in first.resources + second.resources]
        assert found == ["variables", *(f"{i:03}.txt" for i in range(250))] and second.next_cursor is None
        with pytest.raises(MCPError, match="cursor"):
            await server.client.list_resources(cursor="x")


async def test_resources_that_are_not_there(server):
    await server.run("open('x', 'w').close()")
    for path in ("nothing", "../x", "%2e%2e/x", "/etc/passwd", "a%00b", "", "."):
        with pytest.raises(MCPError, match="Resource not found"):
            await server.client.read_resource(f"limpet://artifacts/{path}")
    with pytest.raises(MCPError, match="Resource not found"):
        await server.client.read_resource("file:///etc/passwd")


@pytest.mark.engine
async def test_a_link_out_of_the_artifacts_stays_in_the_sandbox(connected, limpetd, tmp_path):
    if not limpetd.isolates:
        pytest.skip("needs an engine with containers")
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    async with connected() as server:
        await server.run(f"import os; os.symlink({str(secret)!r}, 'artifacts/link')")
        with pytest.raises(MCPError, match="Resource not found"):
            await server.client.read_resource("limpet://artifacts/link")


async def test_a_resource_that_is_too_large(server):
    await server.run("open('artifacts/huge', 'wb').truncate(20 << 20)")
    with pytest.raises(MCPError, match="TooLarge"):
        await server.client.read_resource("limpet://artifacts/huge")
