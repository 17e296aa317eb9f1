"""Variables that follow a thread back to an earlier point, and on from there in two ways."""

import asyncio
import operator
import threading
from typing import Annotated

import pytest
from langchain_core.messages import RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from limpet.langgraph import Rewind, RewindState, code_sandbox

from . import agents


@pytest.fixture(params=["blocking", "asyncio"])
def kind(request):
    return request.param


@pytest.fixture
def sandbox(client):
    return code_sandbox(client, timeout=30)


@pytest.fixture
def agent(sandbox, name, kind, client):
    agent = agents.Agent(sandbox, name, kind)
    yield agent
    agent.close()
    client.close_session(name)


def ours(client, name):
    return [kept for kept in client.open(name).checkpoints() if (kept.name or "").startswith("rewind-")]


def test_each_call_has_its_checkpoint(agent, client, name):
    messages = agent.ask("x = [1]", "x.append(2)")
    kept = {one.id: one for one in ours(client, name)}
    assert len(kept) == 3  # and where the thread began
    assert [kept[message.artifact["checkpoint_id"]].execution_count for message in messages] == [1, 2]
    assert not any("REWOUND" in message.text for message in messages)


def test_back_to_an_earlier_point(agent):
    agent.ask("x = [1]")
    here = agent.here()
    agent.ask("x.append(2); later = True")
    message = agent.one("x, 'later' in globals()", at=here)
    assert message.artifact["result"] == "([1], False)"
    assert "REWOUND" in message.text and "their state after call 1" in message.text
    assert agent.value("x.append(3); x") == "[1, 3]"  # and goes on from there


def test_two_ways_on_from_one_point(agent):
    agent.ask("x = ['root']")
    root = agent.here()
    agent.ask("x.append('left')", at=root)
    left = agent.here()
    agent.ask("x.append('right')", at=root)
    right = agent.here()
    for _ in range(2):  # by turns, each as if it were alone
        assert agent.value("x.append('on'); x", at=left) == "['root', 'left', 'on']"
        assert agent.value("x.append('on'); x", at=right) == "['root', 'right', 'on']"


def test_back_to_before_the_first_call(agent, client, name):
    with_setup = client.open(name, timeout=30)
    with_setup.run("prepared = 1")
    begin = agent.graph.update_state(agent.config, {"messages": [("human", "hello"), ("ai", "hello")]})
    agent.ask("x = 1")
    assert agent.value("'x' in globals(), prepared", at=begin) == "(False, 1)"


def test_a_call_made_again(agent):
    """Resumed before the call itself, which is in the history already."""
    agent.ask("x = [1]", "x.append(2)", "x.append(3)")
    pending = [state for state in agent.graph.get_state_history(agent.config) if state.next == ("tools",)]
    (again, last) = agent.go(None, at=pending[1].config)  # before the second call
    assert "REWOUND" in again.text and "REWOUND" not in last.text
    assert agent.value("x") == "[1, 2, 3]"


def test_the_last_calls_made_again(agent):
    """Where the session is right behind what is to be done again."""
    agent.ask("x = []")
    for codes in (["x.append(1)"], ["x.append(2)", "x.append(3)"]):
        agent.ask(*codes, beside=True)
        state = next(
            iter(state for state in agent.graph.get_state_history(agent.config) if "tools" in state.next)
        )
        messages = agent.go(None, at=state.config)
        assert sum("REWOUND" in message.text for message in messages) == 1
    assert agent.value("sorted(x)") == "[1, 2, 3]"


def test_calls_side_by_side(agent):
    agent.ask("x = []")
    both = agent.ask("x.append('a')", "x.append('b')", beside=True)
    assert not any("REWOUND" in message.text for message in both)
    assert agent.value("sorted(x)") == "['a', 'b']"
    pending = [state for state in agent.graph.get_state_history(agent.config) if len(state.tasks) == 2]
    agent.go(None, at=pending[0].config)  # both once more, from where they began
    assert agent.value("sorted(x)") == "['a', 'b']"


def test_the_first_calls_side_by_side(agent):
    both = agent.ask("a = 1", "b = 2", beside=True)
    assert not any("REWOUND" in message.text for message in both)
    assert agent.value("a, b") == "(1, 2)"


def test_after_a_rollback_of_its_own(agent):
    """A call that destroys the interpreter is a point of the history as every other."""
    agent.ask("x = [1]")
    crashed = agent.one("x.append(2); import os; os._exit(3)")
    assert crashed.status == "error" and "STATE ROLLED BACK" in crashed.text
    message = agent.one("x")
    assert message.artifact["result"] == "[1]" and "REWOUND" not in message.text


def test_a_process_started_anew(agent, client, name, kind):
    """Nothing that is needed is in the memory of the process that runs the graph."""
    agent.ask("x = [1]")
    here = agent.here()
    agent.ask("x.append(2)")
    other = agents.Agent(code_sandbox(client, timeout=30), name, kind)
    other.graph.checkpointer = agent.graph.checkpointer
    assert "REWOUND" not in other.one("x").text
    assert other.value("x", at=here) == "[1]"
    other.close()


def test_what_was_dropped_is_told(agent, client, name):
    agent.ask("x = [1]")
    here = agent.here()
    agent.ask("x.append(2)")
    session = client.open(name)
    for kept in ours(client, name):
        session.drop(kept)
    message = agent.one("x", at=here)
    assert message.artifact["result"] == "[1, 2]"
    assert "NOT REWOUND" in message.text and message.status == "success"
    assert "NOT REWOUND" not in agent.one("x").text  # from there on it is this history


def test_a_session_that_ended_is_told(agent, client, name):
    agent.ask("x = [1]")
    client.close_session(name)
    message = agent.one("'x' in globals()")
    assert message.artifact["result"] == "False"
    assert "SESSION ENDED" in message.text and "[call 1 of a new session" in message.text
    assert "SESSION ENDED" not in agent.one("1").text


def test_messages_that_were_removed(agent):
    """What a history has left is no matter of the messages that are still there."""
    agent.ask("x = [1]")
    messages = agent.graph.get_state(agent.config).values["messages"]
    agent.graph.update_state(
        agent.config, {"messages": [RemoveMessage(message.id) for message in messages[:-1]]}
    )
    message = agent.one("x")
    assert message.artifact["result"] == "[1]" and "REWOUND" not in message.text


def test_a_bounded_number_is_kept(sandbox, client, name, kind):
    agent = agents.Agent(sandbox, name, kind, keep=2)
    agent.ask("x = [1]")
    first = agent.here()
    agent.ask("x.append(2)")
    second = agent.here()
    agent.ask("x.append(3)")
    assert len(ours(client, name)) == 3  # two calls and the beginning
    assert agent.value("x", at=second) == "[1, 2]"
    assert "NOT REWOUND" in agent.one("x", at=first).text
    agent.close()
    client.close_session(name)


def test_files_too(sandbox, client, name, kind):
    agent = agents.Agent(sandbox, name, kind, files=True)
    agent.ask("open('notes', 'w').write('one')")
    here = agent.here()
    agent.ask("open('notes', 'w').write('two')")
    message = agent.one("open('notes').read()", at=here)
    assert message.artifact["result"] == "'one'" and "Files were restored" in message.text
    agent.close()
    client.close_session(name)


def test_what_a_copy_does_not_bring_back(agent):
    agent.ask(
        "import subprocess; poller = subprocess.Popen(['sleep', '1000'])\n"
        "while open(f'/proc/{poller.pid}/comm').read() != 'sleep\\n': pass"  # the kernel names it a moment after exec
    )
    here = agent.here()
    agent.ask("x = 1")
    assert "sleep" in agent.one("1", at=here).text


def test_a_cancelled_call_is_undone(client, sandbox, name):
    agent = agents.Agent(sandbox, name, "asyncio")
    agent.ask("x = [1]")

    async def cancelled():
        started = asyncio.Event()

        async def run():
            question = {"messages": [("human", "x.append(2); print('begun', flush=True)\nwhile True: pass")]}
            async for event in agent.graph.astream(question, agent.config, stream_mode="custom"):
                assert event["data"] == "begun\n"
                started.set()

        task = asyncio.create_task(run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    agent.loop.run_until_complete(cancelled())
    state = agent.graph.get_state(agent.config)
    assert state.next == ("tools",)
    agent.graph.update_state(agent.config, {"messages": [("ai", "stopped")]}, as_node="model")
    message = agent.one("x")
    assert message.artifact["result"] == "[1]" and "REWOUND" in message.text
    agent.close()
    client.close_session(name)


def test_two_ways_on_at_once(sandbox, client, name):
    """From several threads of one process: each call sees the variables of its own history."""
    agent = agents.Agent(sandbox, name)
    agent.ask("x = []")
    root = agent.here()
    values, gate = {}, threading.Barrier(2)

    def go_on(way):
        gate.wait()
        question = {"messages": [("human", agents.THEN.join([f"x.append({way!r})"] * 3 + ["x"]))]}
        values[way] = agent.graph.invoke(question, root)["messages"][-2].artifact["result"]

    threads = [threading.Thread(target=go_on, args=(way,)) for way in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == {"a": "['a', 'a', 'a']", "b": "['b', 'b', 'b']"}
    client.close_session(name)


class Own(RewindState):
    seen: Annotated[int, operator.add]


def graph_of_ones_own(sandbox, schema):
    rewind = Rewind(sandbox)
    graph = StateGraph(schema)
    graph.add_node("model", lambda state: {"messages": agents.model().invoke(state["messages"])})
    graph.add_node("tools", ToolNode([sandbox], wrap_tool_call=rewind.wrap_tool_call))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(InMemorySaver())


def test_a_state_without_positions(sandbox, name):
    app = graph_of_ones_own(sandbox, MessagesState)
    with pytest.raises(TypeError, match="RewindState"):
        app.invoke({"messages": [("human", "x = 1")]}, {"configurable": {"thread_id": name}})


def test_a_graph_of_ones_own(sandbox, client, name):
    app = graph_of_ones_own(sandbox, Own)
    config = {"configurable": {"thread_id": name}}
    app.invoke({"messages": [("human", "x = [1]")]}, config)
    here = app.get_state(config).config
    app.invoke({"messages": [("human", "x.append(2)")]}, config)
    assert app.invoke({"messages": [("human", "x")]}, here)["messages"][-2].artifact["result"] == "[1]"
    client.close_session(name)


def test_wrong_use(sandbox):
    with pytest.raises(TypeError, match=r"returned by code_sandbox"):
        Rewind(object())
    with pytest.raises(ValueError, match="pinned"):
        Rewind(code_sandbox(session="ephemeral"))
    with pytest.raises(ValueError, match="keep must be"):
        Rewind(sandbox, keep=0)
