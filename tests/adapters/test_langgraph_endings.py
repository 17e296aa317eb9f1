"""What the code_sandbox tool leaves behind, and what ends a call of it: event loops, Ctrl-C, cancelled tasks."""

import asyncio
import gc
import os
import signal
import time

import pytest
from limpet.langgraph import code_sandbox

from tests.support import CLIENT, EXAMPLES, ROOT

from . import agents


def descriptors():
    """Open ones, without those that only wait for the garbage collector."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_event_loops_leave_nothing_behind(client, name):
    """A web application has one of each request, and closes it as asyncio.run() does."""
    tool = code_sandbox(client)
    config = {"configurable": {"thread_id": name}}
    seen = set()
    for number in range(6):
        asyncio.run(tool.ainvoke({"code": f"x{number} = 1"}, config))
        seen.add(descriptors())
    assert len(seen) == 1, seen
    client.close_session(name)


def test_event_loops_that_are_only_closed(client, name):
    """What such a one leaves is let go when the next one comes."""
    tool = code_sandbox(client)
    config = {"configurable": {"thread_id": name}}
    seen = []
    for _ in range(6):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(tool.ainvoke({"code": "1"}, config))
        loop.close()
        del loop
        seen.append(descriptors())
    assert max(seen[1:]) <= seen[1], seen
    client.close_session(name)


def test_a_loop_keeps_its_connection(client, name):
    tool = code_sandbox(client)
    config = {"configurable": {"thread_id": name}}

    async def main():
        seen = set()
        for _ in range(4):
            await tool.ainvoke({"code": "1"}, config)
            seen.add(await tool._clients.of_this_loop())
        return seen

    assert len(asyncio.run(main())) == 1
    client.close_session(name)


def test_cancelling_interrupts_the_call(client, name):
    agent = agents.Agent(code_sandbox(client, timeout=3600), name, "asyncio", rewind=False)
    agent.ask("x = 1")

    async def cancelled():
        begun = asyncio.Event()

        async def run():
            question = {"messages": [("human", "print('begun', flush=True)\nwhile True: pass")]}
            async for _ in agent.graph.astream(question, agent.config, stream_mode="custom"):
                begun.set()

        task = asyncio.create_task(run())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    agent.loop.run_until_complete(cancelled())
    assert [row.status for row in client.sessions() if row.session == name] == ["idle"]
    assert client.open(name).run("x").result == "1"
    agent.close()
    client.close_session(name)


ENDLESS = "print('begun', flush=True)\nwhile True: pass"
CTRL_C = """
import sys
sys.path[:0] = {paths!r}
import limpet
from tests.adapters import agents
from limpet.langgraph import code_sandbox
tool = code_sandbox(limpet.Client({socket!r}), timeout=3600, session={kind!r})
agent = agents.Agent(tool, {name!r}, rewind={rewind!r})
given = {{"messages": [("human", agents.BESIDE.join({codes!r}))]}}
try:
    {run}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
INVOKE = "agent.graph.invoke(given, agent.config)"
STREAM = "for event in agent.graph.stream(given, agent.config, stream_mode='custom'): print('begun', flush=True)"


@pytest.mark.parametrize(
    "run, calls, kind, rewind",
    [
        (INVOKE, 1, "pinned", False),
        (INVOKE, 1, "pinned", True),
        (INVOKE, 3, "pinned", False),
        (STREAM, 1, "pinned", False),
        (STREAM, 1, "ephemeral", False),
    ],
)
def test_ctrl_c_in_a_blocking_agent(limpetd, client, name, program, run, calls, kind, rewind):
    """The code runs in a thread of LangGraph's, and Ctrl-C reaches the main one, which waits for that thread."""
    before = {row.session for row in client.sessions()}
    text = CTRL_C.format(
        paths=[str(path) for path in (CLIENT, EXAMPLES, ROOT)],
        socket=limpetd.socket, name=name, codes=[ENDLESS] * calls, run=run, kind=kind, rewind=rewind,
    )  # fmt: skip
    process = program(text)
    if run == STREAM:
        assert process.stdout.readline() == "begun\n"
    else:
        until(lambda: any(row.session == name and row.status == "running" for row in client.sessions()))
    until(lambda: waits(process.pid))
    process.send_signal(signal.SIGINT)
    assert process.stdout.read() == "interrupted\n"
    expected = [(name, "idle")] if kind == "pinned" else []
    until(lambda: [(row.session, row.status) for row in client.sessions() if row.session not in before] == expected)
    if kind == "pinned":
        client.close_session(name)


@pytest.mark.parametrize("leave", ["raise KeyboardInterrupt", "break"])
def test_leaving_a_stream_interrupts_the_call(client, name, leave):
    """As Ctrl-C does that arrives while an event is being looked at; nobody takes what the graph does next."""
    agent = agents.Agent(code_sandbox(client, timeout=3600), name, rewind=False)
    given = {"messages": [("human", ENDLESS)]}
    events = "for event in agent.graph.stream(given, agent.config, stream_mode='custom'):\n    "
    try:
        exec(events + leave, {"agent": agent, "given": given})
    except KeyboardInterrupt:
        pass
    assert [row.status for row in client.sessions() if row.session == name] == ["idle"]
    agent.close()
    client.close_session(name)


def waits(pid):
    """Whether its main thread does. Where Ctrl-C finds it on its way there, Python may leave a lock of
    concurrent.futures taken, for which nobody can wait then."""
    def switches():
        with open(f"/proc/{pid}/task/{pid}/status", encoding="utf-8") as status:
            return [line for line in status if line.startswith(("State:", "voluntary", "nonvoluntary"))]

    before = switches()
    time.sleep(0.2)
    return before == switches() and "sleeping" in before[0]


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_keyboard_interrupt_that_is_over_interrupts_nothing(client, name):
    """Nor does one that is being dealt with when the agent is asked."""
    agent = agents.Agent(code_sandbox(client, timeout=60), name, rewind=False)
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert agent.value("import time; time.sleep(1); 1") == "1"
    assert agent.value("time.sleep(1); 2") == "2"
    agent.close()
    client.close_session(name)
