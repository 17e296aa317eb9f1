"""The tools for processes and languages beside code_sandbox, as an agent's tool node calls them."""

import pytest
from limpet.langgraph import code_sandbox, language_tool, process_tools


@pytest.fixture
def tools(sandbox):
    return [sandbox, *process_tools(sandbox), language_tool(sandbox, ["bash", "cobol"])]


def test_a_process_is_started_written_to_and_stopped(call):
    assert call("list_processes").content == "no process runs"
    assert call("start_process", command="while read line; do echo got $line; done", name="echo").content == "echo was started"
    assert call("send_to_process", name="echo", text="one\n").content == "echo has read it"
    message = call("read_process", name="echo", wait=60)
    assert message.content == "[running, next since=8]\ngot one\n"
    assert call("read_process", name="echo", since=8).content == "[running, next since=8]"
    call("code_sandbox", code="import os; os._exit(1)")
    assert call("list_processes").content.startswith("echo: running: while read line")
    assert call("stop_process", name="echo", signal="KILL").content == "echo was sent SIGKILL"
    message = call("read_process", name="echo", since=8, wait=60)
    assert message.content.startswith("[ended")
    assert "echo: signal 9" in call("list_processes").content


def test_what_the_sandbox_refuses_is_told(call):
    assert call("read_process", name="nothing").status == "error"
    call("start_process", command="sleep 1000", name="sleeper")
    message = call("stop_process", name="sleeper", signal="NONE")
    assert message.status == "error" and "there is no signal 'NONE'" in message.content
    message = call("list_processes", thread=None)
    assert message.status == "error" and "only in a session" in message.content


def test_long_output_is_cut(call):
    call("start_process", command="yes | head -c 300000; echo the end", name="long")
    call("code_sandbox", code="1")
    content = call("read_process", name="long", wait=60).content
    assert len(content) < 9000


def test_another_language_keeps_its_variables(call):
    assert "stdout:\nhere" in call("run_code", language="bash", code="x=5; echo here").content
    assert "stdout:\n5" in call("run_code", language="bash", code="echo $x").content
    message = call("run_code", language="bash", code="echo out; false")
    assert message.status == "error" and "ExitStatus" in message.content and "stdout:\nout" in message.content
    message = call("run_code", language="cobol", code="DISPLAY")
    assert message.status == "error" and "this image has python, bash" in message.content
    message = call("run_code", thread=None, language="bash", code="true")
    assert message.status == "error" and "only in a session" in message.content


def test_what_the_model_is_offered(client):
    sandbox = code_sandbox(client, name="lab", list_packages=False)
    assert [tool.name for tool in process_tools(sandbox)][0] == "lab_start_process"
    tool = language_tool(sandbox, ["bash", "ruby"])
    assert tool.name == "lab_run_code" and tool.args["language"]["enum"] == ["bash", "ruby"]
    for wrong in ([], "bash"):
        with pytest.raises(ValueError, match="list of names"):
            language_tool(sandbox, wrong)
