"""E2B's plugin for Google's ADK: its tools, called as an agent calls them."""

import asyncio

from e2b_adk import E2BPlugin


async def main():
    plugin = E2BPlugin(timeout=600)
    tools = {tool.name: tool for tool in plugin.get_tools()}

    async def call(name, **args):
        return await tools[name].run_async(args=args, tool_context=None)

    assert (await call("run_code", code="x = 41\nx + 1"))["text"] == "42"
    assert "NameError" in (await call("run_code", code="missing"))["error"]
    assert (await call("run_code", code="echo $COLOUR", language="bash", envs={"COLOUR": "red"}))["stdout"] == "red\n"
    ran = await call("run_command", command="echo out")
    assert ran["success"] and "out" in ran["stdout"], ran
    assert (await call("write_file", path="sub/a.txt", content="text"))["success"]
    assert (await call("read_file", path="sub/a.txt"))["content"] == "text"
    assert "a.txt" in str(await call("list_files", path="sub"))
    assert (await call("start_background_command", command="sleep 600"))["success"]
    await plugin.close()


asyncio.run(main())
print("done")
