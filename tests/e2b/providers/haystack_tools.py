"""Haystack's tools for E2B, in one sandbox that they share."""

from haystack_integrations.tools.e2b import E2BToolset

toolset = E2BToolset(environment_vars={"COLOUR": "green"})
toolset.warm_up()
tools = {tool.name: tool for tool in toolset}
said = tools["run_bash_command"].invoke(command="echo $COLOUR; echo err >&2; exit 3")
assert "green" in said and "err" in said and "3" in said, said
tools["write_file"].invoke(path="sub/a.txt", content="text")
assert "text" in tools["read_file"].invoke(path="sub/a.txt")
assert "a.txt" in tools["list_directory"].invoke(path="sub")
toolset.close()
print("done")
