"""Which session a call has: that of its thread, of its run, or none; and tools beside each other."""

import asyncio
import contextlib
import os
import socket
import uuid

import langgraph.runtime
import limpet
import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_scripted import Scripted
from limpet.langgraph import Rewind, code_sandbox, exec_tool
from limpet.langgraph._both import Clients

from . import agents


@pytest.fixture(autouse=True)
def tidy(client, name):
    yield
    for row in client.sessions():
        if name in row.session and "/" not in row.session:
            client.close_session(row.session)


def sessions(client):
    """Without the containers of single calls, which may still be closing."""
    return {row.session for row in client.sessions() if not row.session.startswith("~")}


def answers(state):
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def go(tool, question, config=None, **options):
    """In an agent without a checkpointer."""
    agent = create_agent(agents.model(), [tool], **options)
    return answers(agent.invoke({"messages": [("human", question)]}, config))


def test_without_a_thread_it_works_and_says_that_nothing_stays(client):
    tool = code_sandbox(client)
    before = sessions(client)
    first, second = go(tool, "x = 1; x" + agents.THEN + "'x' in globals()")
    assert (first.status, first.artifact["result"], second.artifact["result"]) == ("success", "1", "False")
    assert first.artifact["session"] is second.artifact["session"] is None
    assert first.text.startswith("NOTHING STAYS: ") and "unless a result says otherwise" in tool.description
    assert sessions(client) == before
    assert tool.invoke({"code": "6 * 7"}).endswith("value:\n42"), "outside of a graph"


def test_a_clean_container_that_was_asked_for_is_no_surprise(client):
    (message,) = go(code_sandbox(client, session="ephemeral"), "1")
    assert "NOTHING STAYS" not in message.text


def test_calls_of_one_run_share_a_session(client, name):
    tool = code_sandbox(client)
    config = {"metadata": {"run_id": name}}
    first, second = go(tool, "x = 1" + agents.THEN + "x + 1", config)
    assert second.artifact["result"] == "2" and "NOTHING STAYS" not in first.text + second.text
    assert first.artifact["session"] == f"run-{name}" == tool.session_name(config)
    assert client.attach(f"run-{name}").options["ttl"] == 600
    (other,) = go(tool, "'x' in globals()", {"metadata": {"run_id": f"{name}-2"}})
    assert other.artifact["result"] == "False"
    go(code_sandbox(client, ttl=60), "1", {"metadata": {"run_id": f"{name}-3"}})
    assert client.attach(f"run-{name}-3").options["ttl"] == 60


@pytest.mark.skipif(not hasattr(langgraph.runtime, "ExecutionInfo"), reason="this LangGraph does not say")
def test_the_id_of_a_run_is_found_in_the_config_itself(client, name):
    tool = code_sandbox(client, session_prefix=name)
    first, second = go(tool, "x = 1" + agents.THEN + "x + 1", {"run_id": uuid.uuid4()})
    assert second.artifact["result"] == "2" and first.artifact["session"].startswith(f"{name}run-")


def test_a_run_may_be_rewound(client, name):
    tool = code_sandbox(client)
    first, second = go(tool, "x = 1" + agents.THEN + "x + 1", {"metadata": {"run_id": name}}, middleware=[Rewind(tool)])
    assert second.artifact["result"] == "2" and second.artifact["checkpoint_id"]


def test_a_prefix_keeps_applications_apart(client, name):
    one, two = code_sandbox(client), code_sandbox(client, session_prefix="app.")
    config = {"configurable": {"thread_id": name}}
    assert (one.session_name(config), two.session_name(config)) == (name, f"app.{name}")
    go(one, "x = 1", config)
    (message,) = go(two, "'x' in globals()", config)
    assert message.artifact["result"] == "False"


class Chooser(Scripted):
    """Calls the tool whose name is the first line of the code."""

    def _generate(self, *arguments, **named):
        result = super()._generate(*arguments, **named)
        for call in result.generations[0].message.tool_calls:
            call["name"], _, call["args"]["code"] = call["args"]["code"].partition("\n")
        return result


@pytest.mark.parametrize("rewind", [False, True])
def test_two_tools_in_one_agent(client, name, rewind):
    """Each has its own sessions and options, and its own place in the history."""
    small, large = code_sandbox(client, name="small", memory="128m"), code_sandbox(client, name="large", memory="256m")
    middleware = [Rewind(small), Rewind(large)] if rewind else []
    graph = create_agent(Chooser(turns=agents.turns), [small, large], middleware=middleware, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": name}}

    def ask(*codes, at=None):
        state = graph.invoke({"messages": [("human", agents.THEN.join(codes))]}, at or config)
        return [message.artifact["result"] for message in answers(state)][-len(codes) :]

    assert ask("small\nx = 's'; x", "large\nx = 'l'; x") == ["'s'", "'l'"]
    assert {row.session for row in client.sessions() if name in row.session} == {f"small-{name}", f"large-{name}"}
    here = graph.get_state(config).config
    ask("small\nx = 'later'", "large\nx = 'later'")
    assert ask("small\nx", "large\nx", at=here) == (["'s'", "'l'"] if rewind else ["'later'", "'later'"])


def test_the_description_is_what_holds_and_never_changes(client, limpetd, name, tmp_path):
    for number in range(40):
        (tmp_path / f"table{number:02}.csv").write_text("a,b\n")
    tool = code_sandbox(client, timeout=12, memory="256m", checkpoint="always", data=tmp_path, notes="Be brief.")
    before = tool.description
    inside = client.run("import platform; print(platform.python_version())").stdout.strip()
    assert f"Runs Python {inside} code" in before and "Installed: " in before
    assert "12 s per call" in before and "Be brief." in before and "state before that call" in before
    assert "After 1 h without a call, the session is saved" in before, "the controller's default"
    for promise in ("no network", "256 MiB of memory", "in /data table00.csv (4 bytes), ", " and 10 more", "/session, the w"):
        assert (promise in before) == limpetd.isolates, before
    tool.invoke({"code": "1"}, {"configurable": {"thread_id": name}})
    assert tool.description == before == code_sandbox(
        client, timeout=12, memory="256m", checkpoint="always", data=tmp_path, notes="Be brief."
    ).description  # fmt: skip
    assert ("/data" in code_sandbox(client).description) == limpetd.isolates


def test_the_description_of_what_was_not_asked(client):
    for policy, promise in (("off", "all variables are lost"), ("auto", "the result says which")):
        assert promise in code_sandbox(client, list_packages=False, checkpoint=policy).description
    ephemeral = code_sandbox(client, list_packages=False, session="ephemeral").description
    assert "clean container" in ephemeral and "persist between calls" not in ephemeral and "Installed" not in ephemeral
    described = code_sandbox(client, list_packages=False, network={"allow": ["a.example"]}, bindings={"b": {"url": "https://c"}}).description
    assert "The network reaches only a.example, http://b.limpet/, through the proxy" in described
    assert "network is available (bridge)" in code_sandbox(client, list_packages=False, network="bridge").description
    longer = code_sandbox(client, list_packages=False, timeout=5, max_timeout=50).description
    assert "5 s per call (pass `timeout` for up to 50 s)" in longer


def test_a_tool_is_made_without_leaving_anything(client):
    before = sessions(client)
    code_sandbox(client, memory="200m")
    assert sessions(client) == before


def test_a_tool_opens_nothing_when_it_is_made(client, tmp_path):
    """What a sandbox says of the options is raised when the description is read."""
    tool = code_sandbox(client, memory="much")
    with pytest.raises(limpet.BadRequest):
        tool.description
    path = tmp_path / "nobody.sock"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(os.fspath(path))
        listener.listen()
        listener.setblocking(False)
        made = code_sandbox(limpet.Client(path), memory="1g")
        create_agent(agents.model(), [made, exec_tool(made)])
        with pytest.raises(BlockingIOError):
            listener.accept()
    tool = code_sandbox(limpet.Client(tmp_path / "none.sock", autostart=False))
    assert "Runs Python 3 code" in tool.description, "where nobody is there to ask"


def test_a_client_with_keys_is_followed_by_one_of_the_other_kind(tmp_path):
    pair = tmp_path / "limpet.key_secret"
    pair.write_text(f'public-key = "{"p" * 40}"\nsecret-key = "{"s" * 40}"\n')
    given = {"key": pair, "server_key": "k" * 40, "reconnect_timeout": 1}

    async def other(clients):
        return await clients.of_this_loop()

    blocking = limpet.Client("tcp://127.0.0.1:1", **given)
    assert asyncio.run(other(Clients(blocking)))._endpoint.keys == blocking._endpoint.keys
    waiting = limpet.AsyncClient("tcp://127.0.0.1:1", **given)
    assert Clients(waiting).blocking()._endpoint.keys == waiting._endpoint.keys
