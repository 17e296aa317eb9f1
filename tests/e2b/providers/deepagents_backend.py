"""langchain-e2b, the backend of deepagents, blocking and not."""

import asyncio

import e2b
from langchain_e2b import AsyncE2BSandbox, E2BSandbox

sandbox = e2b.Sandbox.create()
home = sandbox.commands.run("pwd").stdout.strip()
backend = E2BSandbox(sandbox=sandbox, workdir=home)
assert backend.id == sandbox.sandbox_id
ran = backend.execute("echo out; echo err >&2; exit 3")
assert ran.exit_code == 3 and "out" in ran.output and "err" in ran.output, ran
assert backend.execute("sleep 600", timeout=1).exit_code == 124
assert backend.write(f"{home}/notes/a.txt", "one\ntwo\n").error is None
assert "two" in str(backend.read(f"{home}/notes/a.txt"))
assert backend.edit(f"{home}/notes/a.txt", "two", "three").error is None
found = backend.grep("three", f"{home}/notes")
assert [match["path"] for match in found.matches] == [f"{home}/notes/a.txt"], found
assert "a.txt" in str(backend.glob("*.txt", f"{home}/notes")) and "a.txt" in str(backend.ls(f"{home}/notes"))
uploaded = backend.upload_files([(f"{home}/b.bin", b"\0data\xff")])
assert uploaded[0].error is None
assert backend.download_files([f"{home}/b.bin", f"{home}/none"])[0].content == b"\0data\xff"


async def main():
    own = await e2b.AsyncSandbox.connect(sandbox.sandbox_id)
    again = AsyncE2BSandbox(sandbox=own, workdir=home)
    assert "three" in (await again.aexecute("cat notes/a.txt")).output
    assert (await again.adownload_files([f"{home}/b.bin"]))[0].content == b"\0data\xff"


asyncio.run(main())
sandbox.kill()
print("done")
