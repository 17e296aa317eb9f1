"""The OpenAI Agents SDK's own client of E2B: commands, files, a terminal, and a session that is resumed."""

import asyncio
import io
import json
from pathlib import Path

from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from agents.sandbox import Manifest
from agents.sandbox.entries import File
from e2b_code_interpreter import Sandbox


async def main():
    with_home = Sandbox.create()
    home = with_home.commands.run("pwd").stdout.strip()
    with_home.kill()
    client = E2BSandboxClient()
    options = E2BSandboxClientOptions(
        sandbox_type="e2b_code_interpreter", timeout=600, pause_on_exit=True
    )
    manifest = Manifest(
        root=f"{home}/work", entries={"docs/a.txt": File(content=b"text")}, environment={"value": {"WHO": "me"}}
    )
    async with await client.create(manifest=manifest, options=options) as sandbox:
        ran = await sandbox.exec("cat docs/a.txt; echo $WHO; echo err >&2; exit 3")
        assert (ran.stdout, ran.stderr, ran.exit_code) == (b"textme\n", b"err\n", 3), ran
        await sandbox.write(Path("b/c.bin"), io.BytesIO(b"\0data\xff"))
        assert (await sandbox.read(Path("b/c.bin"))).read() == b"\0data\xff"
        assert [Path(entry.path).name for entry in await sandbox.ls("b")] == ["c.bin"]
        started = await sandbox.pty_exec_start("cat", tty=True, yield_time_s=0.2)
        seen = await sandbox.pty_write_stdin(session_id=started.process_id, chars="hello\n", yield_time_s=0.2)
        said = seen.output
        while b"hello" not in said:
            said += (await sandbox.pty_write_stdin(session_id=started.process_id, chars="", yield_time_s=1)).output
        state = json.loads(json.dumps(client.serialize_session_state(sandbox.state)))
    async with await client.resume(client.deserialize_session_state(state)) as again:
        assert (await again.read(Path("b/c.bin"))).read() == b"\0data\xff"
        assert again.state.sandbox_id == state["sandbox_id"]
    Sandbox.kill(state["sandbox_id"])


asyncio.run(main())
print("done")
