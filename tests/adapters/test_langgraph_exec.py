"""exec beside code_sandbox, as an agent's tool node calls it."""

import asyncio

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from limpet.langgraph import code_sandbox, exec_tool, file_tools


@pytest.fixture
def tools(sandbox):
    return [sandbox, exec_tool(sandbox, max_timeout=60)]


def test_commands_and_code_see_the_same_files(call):
    call("code_sandbox", code="x = 41; open('f', 'w').write('text')")
    message = call("exec", command="cat f; echo from the command > artifacts/made.txt")
    assert message.status == "success" and message.content.startswith("[ok, ")
    assert "stdout:\ntext" in message.content and "/session/artifacts/made.txt (text/plain, 17 bytes)" in message.content
    assert "value:\n42" in call("code_sandbox", code="x + 1").text
    assert call("exec", command="basename $PWD", cwd="artifacts").content.endswith("stdout:\nartifacts")


def test_what_fails_is_an_error_that_tells_all(call):
    message = call("exec", command="echo out; echo err >&2; exit 3")
    assert message.status == "error"
    assert "stdout:\nout" in message.content and "stderr:\nerr" in message.content and "exit code 3" in message.content
    message = call("exec", command="echo begun; sleep 1000", timeout=2.0)
    assert message.status == "error" and "stdout:\nbegun" in message.content and "did not end within 2 s" in message.content


@pytest.mark.parametrize("how", ["blocking", "asyncio"])
def test_one_message_is_worked_off_in_its_order(client, name, how):
    """Also where calls in it never run: their arguments are wrong, or their tool is not of this sandbox."""
    sandbox = code_sandbox(client, list_packages=False)
    node = ToolNode([sandbox, exec_tool(sandbox), *file_tools(sandbox)])
    graph = StateGraph(MessagesState).add_node("tools", node).set_entry_point("tools").compile()
    steps = [
        ("code_sandbox", {"code": "import time; time.sleep(0.2); n = open('f', 'w').write('one ')"}),
        ("code_sandbox", {"codes": "a wrong name"}),
        ("no_such_tool", {}),
        ("exec", {"command": "sleep 0.1; printf two >> f"}),
        ("read_file", {"path": "f"}),
        ("write_file", {"path": "f", "content": "three"}),
        ("code_sandbox", {"code": "open('f').read()"}),
    ]
    calls = [{"name": tool, "args": args, "id": str(number)} for number, (tool, args) in enumerate(steps)]
    given = {"messages": [AIMessage("", tool_calls=calls)]}, {"configurable": {"thread_id": name}}
    state = graph.invoke(*given) if how == "blocking" else asyncio.run(graph.ainvoke(*given))
    texts = [message.text for message in state["messages"][1:]]
    assert texts[4] == "one two" and "value:\n'three'" in texts[6]
    client.close_session(name)


def test_long_output_is_cut(call):
    text = call("exec", command="yes | head -c 3000000; echo the end").content
    assert len(text) < 9000 and "3000008 bytes in total" in text and text.rstrip().endswith("the end")


def test_without_a_session_nothing_runs(call):
    message = call("exec", thread=None, command="true")
    assert message.status == "error" and "only in a session" in message.content


def test_what_the_model_is_offered(client):
    sandbox = code_sandbox(client, name="lab", list_packages=False)
    assert exec_tool(sandbox).name == "lab_exec" and set(exec_tool(sandbox).args) == {"command", "cwd"}
    assert exec_tool(sandbox, max_timeout=5).args["timeout"]["anyOf"][0]["maximum"] == 5
    with pytest.raises(ValueError, match="above 0"):
        exec_tool(sandbox, max_timeout=0)
