"""Host functions for an agent's code, approved by interrupt() of a real graph with a real checkpointer."""

import json
import os
import pickle

import langgraph.runtime
import limpet
import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from limpet.langgraph import _answers, code_sandbox
from pydantic import BaseModel, Field

from tests.support import CLIENT, EXAMPLES, ROOT

from . import agents

# LangGraph 1.0 gives a node that it goes back to the answers it once got.
ASKS_ANEW = hasattr(langgraph.runtime, "ExecutionInfo")


class Order(BaseModel):
    """What a model would have to give."""

    item: str = Field(description="what to buy")
    count: int = 1


class Shop:
    def __init__(self):
        self.sold = []

    def buy(self, item: str, count: int = 1) -> str:
        """Buys something."""
        self.sold.append((item, count))
        return f"{count} {item}"


def ask(call):
    return interrupt({"tool": call.tool, "args": list(call.args), "kwargs": call.kwargs})


@pytest.fixture(params=["blocking", "asyncio"])
def kind(request):
    return request.param


@pytest.fixture
def make(client, name, kind):
    made = []

    def make(tools, approve=ask, thread=name, rewind=False, **options):
        sandbox = code_sandbox(client, tools=tools, approve=approve, **options)
        made.append(agents.Agent(sandbox, thread, kind, rewind=rewind))
        return made[-1]

    yield make
    for agent in made:
        agent.close()
    for row in client.sessions():
        if row.session.startswith(name):
            client.close_session(row.session)


def pending(agent):
    """What the graph waits for."""
    return [one.value for task in agent.graph.get_state(agent.config).tasks for one in task.interrupts]


def names(agent):
    return [one.id for task in agent.graph.get_state(agent.config).tasks for one in task.interrupts]


BUY = "import limpet_tools\nprint('before')\nx = limpet_tools.buy('shells', count=3)\nx"


def test_an_interrupt_and_its_answer(make, client, name):
    shop = Shop()
    agent = make([shop.buy])
    assert agent.ask(BUY) == []
    assert pending(agent) == [{"tool": "buy", "args": ["shells"], "kwargs": {"count": 3}}]
    assert shop.sold == [] and [row.status for row in client.sessions() if row.session == name] == ["running"]
    (message,) = agent.go(Command(resume=True))
    assert message.status == "success" and message.artifact["result"] == "'3 shells'"
    assert message.artifact["stdout"] == "before\n" and message.artifact["execution_count"] == 1
    assert shop.sold == [("shells", 3)] and agent.value("x") == "'3 shells'"


def test_resuming_by_the_name_of_the_interrupt(make):
    shop = Shop()
    agent = make([shop.buy])
    agent.ask(BUY.replace("x = ", "limpet_tools.buy('a'); x = "))
    for _ in range(2):
        assert shop.sold == [] or shop.sold == [("a", 1)]
        (id,) = names(agent)
        messages = agent.go(Command(resume={id: True}))
    assert messages[0].artifact["result"] == "'3 shells'" and shop.sold == [("a", 1), ("shells", 3)]


def test_each_answer_is_for_its_own_question(make):
    shop = Shop()
    agent = make([shop.buy])
    code = """
import limpet_tools
got = []
for n in range(4):
    try:
        got.append(limpet_tools.buy(str(n)))
    except PermissionError as error:
        got.append(str(error))
got
"""
    agent.ask(code)
    for n, decision in enumerate([True, "no", False]):
        assert [value["args"] for value in pending(agent)] == [[str(n)]]
        assert agent.go(Command(resume=decision)) == []
    (message,) = agent.go(Command(resume=True))
    denied = "the call of buy() was not allowed"
    assert eval(message.artifact["result"]) == ["1 0", f"{denied}: no", denied, "1 3"]
    assert shop.sold == [("0", 1), ("3", 1)]


def test_an_answer_is_not_used_again_after_a_crash(make):
    """The run of the graph ends between the use of the first answer and the second question: that one is asked."""
    shop = Shop()
    crashing = []

    def approve(call):
        if crashing and call.args == ("b",):
            raise crashing.pop()
        return ask(call)

    agent = make([shop.buy], approve)
    agent.ask("import limpet_tools\nlimpet_tools.buy('a')\nlimpet_tools.buy('b')")
    crashing.append(limpet.Leave("the process ends here"))
    with pytest.raises(limpet.Leave):
        agent.go(Command(resume=True))
    assert shop.sold == [("a", 1)]
    assert agent.go(None) == []
    assert [value["args"] for value in pending(agent)] == [["b"]] and shop.sold == [("a", 1)]
    (message,) = agent.go(Command(resume=True))
    assert message.status == "success" and shop.sold == [("a", 1), ("b", 1)]


def test_a_call_that_ended_while_nobody_was_there(make, client, name):
    """The graph is resumed too late: what the call did is told, and nothing runs."""
    shop = Shop()
    agent = make([shop.buy])
    agent.ask(BUY)
    session = client.open(name)
    session.interrupt()
    session.namespace()  # in its turn: the call has ended
    (message,) = agent.go(Command(resume=True))
    assert message.artifact["status"] == "interrupted" and shop.sold == []


def test_going_back_runs_the_code_anew(make):
    shop = Shop()
    agent = make([shop.buy])
    agent.ask("before = 1")
    agent.ask(BUY)
    agent.go(Command(resume=True))
    history = agent.graph.get_state_history(agent.config)
    point = next(state.config for state in history if state.next == ("tools",))
    agent.go(None, at=point)
    if not ASKS_ANEW:
        assert pending(agent) == [] and shop.sold == [("shells", 3)], "the call is joined, and buys nothing again"
        return
    assert len(pending(agent)) == 1 and shop.sold == [("shells", 3)]
    (message,) = agent.go(Command(resume=True))
    assert message.artifact["execution_count"] == 3 and shop.sold == [("shells", 3)] * 2


def test_with_rewind(make):
    """The variables of a call that waits are left alone, and afterwards they can be gone back to."""
    shop = Shop()
    agent = make([shop.buy], rewind=True)
    agent.ask("y = 1")
    start = agent.here()
    agent.ask("y = 2\n" + BUY)
    (message,) = agent.go(Command(resume=True))
    assert message.artifact["result"] == "'3 shells'" and message.artifact["checkpoint_id"]
    assert agent.value("x, y") == "('3 shells', 2)"
    assert agent.value("y, 'x' in globals()", at=start) == "(1, False)"


def test_the_first_call_of_a_thread_with_rewind(make):
    agent = make([Shop().buy], rewind=True)
    agent.ask(BUY)
    (message,) = agent.go(Command(resume=True))
    assert message.artifact["result"] == "'3 shells'" and "REWOUND" not in message.text


def test_side_by_side(make):
    """Each in a node of its own, as create_agent has it: every answer goes where it belongs."""
    shop = Shop()
    agent = make([shop.buy], session="ephemeral")
    agent.ask(
        "import limpet_tools\nlimpet_tools.buy('a')",
        "import limpet_tools\nlimpet_tools.buy('b')",
        beside=True,
    )
    waiting = {
        one.value["args"][0]: one.id
        for task in agent.graph.get_state(agent.config).tasks
        for one in task.interrupts
    }
    assert sorted(waiting) == ["a", "b"]
    messages = agent.go(Command(resume={waiting["a"]: True, waiting["b"]: "no"}))
    assert shop.sold == [("a", 1)]
    assert [message.artifact["status"] for message in messages] == ["ok", "error"]


def test_in_one_node_they_are_refused(client, name):
    """There interrupt() cannot tell whose answer is whose: nothing is allowed by mistake."""
    shop = Shop()
    sandbox = code_sandbox(client, tools=[shop.buy], approve=ask, session="ephemeral")
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([sandbox]))
    builder.add_edge(START, "tools")
    graph = builder.compile(checkpointer=InMemorySaver())
    calls = [
        {"name": "code_sandbox", "args": {"code": f"import limpet_tools\nlimpet_tools.buy('{n}')"}, "id": n}
        for n in "ab"
    ]
    config = {"configurable": {"thread_id": name}}
    graph.invoke({"messages": [AIMessage("", tool_calls=calls)]}, config)
    assert shop.sold == []
    waiting = [one.value["args"][0] for task in graph.get_state(config).tasks for one in task.interrupts]
    if waiting:  # one came to its question when the other had not begun
        graph.invoke(Command(resume=True), config)
    assert shop.sold in ([], [(waiting[0], 1)] if waiting else [])


@pytest.mark.parametrize("change", ["the key", "the object"])
def test_a_langgraph_that_keeps_answers_elsewhere(make, monkeypatch, change):
    """Then interrupt() may give out the answer to another question: nothing is asked, and nothing allowed."""
    shop = Shop()
    agent = make([shop.buy], lambda call: True)
    if change == "the key":
        monkeypatch.setattr(_answers, "SCRATCHPAD", "__another_name")
    else:
        monkeypatch.setattr(_answers, "_PARTS", {*_answers._PARTS, "answers"})
    with pytest.raises(RuntimeError, match="approvals are not safe with this version of LangGraph"):
        agent.ask(BUY)
    assert shop.sold == []


MISSING = """
import sys
sys.path[:0] = {paths!r}
import langchain.agents, langgraph.types
import langgraph._internal._constants as constants, langgraph._internal._scratchpad as scratchpad
{change}
from limpet.langgraph import code_sandbox
code_sandbox()
try:
    code_sandbox(tools=[print], approve=print)
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "change",
    [
        "del constants.CONFIG_KEY_SCRATCHPAD",
        "del constants.RESUME",
        "del scratchpad.PregelScratchpad",
        "scratchpad.PregelScratchpad = type('PregelScratchpad', (), {'__annotations__': {'answers': list}})",
        "sys.modules['langgraph._internal._constants'] = None",
    ],
)
def test_a_langgraph_without_the_names_is_told_to_the_developer(program, change):
    said = program(MISSING.format(paths=[str(CLIENT)], change=change)).stdout.read()
    assert "approvals are not safe with this version of LangGraph" in said
    assert "langgraph>=1.0.2,<2" in said


def test_outside_of_a_graph_approve_decides_alone(client):
    """There is no interrupt(), and no answer that could be another's."""
    shop = Shop()
    for decision in (True, False):
        sandbox = code_sandbox(client, tools=[shop.buy], approve=lambda call: decision, session="ephemeral")
        sandbox.invoke({"code": BUY})
    assert shop.sold == [("shells", 3)]


@tool(args_schema=Order)
def order(item, count=1):
    """Orders something."""
    return {"ordered": item, "count": count}


@tool
async def stock(item: str) -> int:
    """How many there are."""
    return len(item)


@tool("look-up")
def look_up(text: str, limit: int = 5) -> list[str]:
    """Finds text."""
    return [text] * limit


def test_langchain_tools_as_they_are(make):
    agent = make([order, stock], approve=None)
    code = """
import limpet_tools, inspect
print(limpet_tools.order("shells", count=2), limpet_tools.order(item="sand"))
print(limpet_tools.stock("abc"), inspect.signature(limpet_tools.order), limpet_tools.order.__doc__)
try:
    limpet_tools.order("shells", count="many")
except Exception as error:
    print(error.name)
try:
    limpet_tools.order()
except TypeError as error:
    print(error)
"""
    message = agent.one(code)
    assert message.artifact["stdout"].splitlines() == [
        "{'ordered': 'shells', 'count': 2} {'ordered': 'sand', 'count': 1}",
        "3 (item: str, count: int = 1) Orders something.",
        "ValidationError",
        "order(item: str, count: int = 1): missing a required argument: 'item'",
    ], message.text


def test_names_that_python_does_not_have(client):
    with pytest.raises(ValueError, match="look-up"):
        code_sandbox(client, tools=[look_up])
    code_sandbox(client, tools={"look_up": look_up})


def test_a_tool_that_interrupts(make):
    """LangGraph's own way: the question is in the tool."""
    bought = []

    @tool
    def buy(item: str) -> str:
        """Buys."""
        how = interrupt(f"buy {item}?")
        bought.append((item, how))
        return how

    agent = make([buy], approve=None)
    agent.ask("import limpet_tools\nlimpet_tools.buy('a') + limpet_tools.buy('b')")
    assert pending(agent) == ["buy a?"]
    agent.go(Command(resume="x"))
    assert pending(agent) == ["buy b?"] and bought == [("a", "x")]
    (message,) = agent.go(Command(resume="y"))
    assert message.artifact["result"] == "'xy'" and bought == [("a", "x"), ("b", "y")]


def test_two_interrupts_for_one_question(make):
    shop = Shop()
    agent = make([shop.buy], lambda call: interrupt("first") == 1 and interrupt("second") == 2)
    agent.ask(BUY)
    assert pending(agent) == ["first"]
    agent.go(Command(resume=1))
    assert pending(agent) == ["second"] and shop.sold == []
    (message,) = agent.go(Command(resume=2))
    assert message.status == "success" and shop.sold == [("shells", 3)]


def test_many_calls_that_nobody_has_to_approve(make):
    """And one in the middle that somebody has to."""
    seen = []
    agent = make([seen.append], lambda call: True if call.args[0] != 1000 else interrupt("now"))
    agent.ask("import limpet_tools\nfor n in range(2000):\n    limpet_tools.append(n)")
    assert pending(agent) == ["now"] and seen == list(range(1000))
    (message,) = agent.go(Command(resume=True))
    assert message.status == "success" and seen == list(range(2000))


def test_the_model_is_told(client):
    shop = Shop()
    text = code_sandbox(client, tools=[shop.buy, order], approve=ask).description
    assert "limpet_tools.buy(item: str, count: int = 1) -> str: Buys something." in text
    assert "limpet_tools.order(item: str, count: int = 1): Orders something." in text
    assert "PermissionError" in text
    assert "PermissionError" not in code_sandbox(client, tools=[order]).description
    assert "limpet_tools" not in code_sandbox(client).description
    with pytest.raises(ValueError):
        code_sandbox(client, approve=ask)


PROGRAM = """
import json, sys
sys.path[:0] = {paths!r}
import limpet
from tests.adapters import agents, test_langgraph_approval as here
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.types import Command, interrupt
from limpet.langgraph import code_sandbox
shop = here.Shop()
sandbox = code_sandbox(limpet.Client({socket!r}), tools=[shop.buy], approve=here.ask)
agent = agents.Agent(sandbox, {name!r}, rewind=False)
agent.graph.checkpointer = here.Kept({file!r})
given = sys.argv[1]
messages = agent.ask(here.BUY) if given == "ask" else agent.go(Command(resume=json.loads(given)))
print(json.dumps([here.pending(agent), shop.sold, [message.artifact["result"] for message in messages]]))
"""


class Kept(InMemorySaver):
    """In a file, so that another process goes on."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        if os.path.exists(path):
            with open(path, "rb") as file:
                storage, writes, blobs = pickle.load(file)
            for thread, namespaces in storage.items():
                self.storage[thread].update(namespaces)
            self.writes.update(writes)
            self.blobs.update(blobs)

    def keep(self):
        storage = {thread: dict(namespaces) for thread, namespaces in self.storage.items()}
        with open(self.path, "wb") as file:
            pickle.dump((storage, dict(self.writes), dict(self.blobs)), file)


def test_resumed_in_another_process(limpetd, client, name, program, tmp_path):
    text = PROGRAM.format(
        paths=[str(path) for path in (CLIENT, EXAMPLES, ROOT)],
        socket=limpetd.socket, name=name, file=str(tmp_path / "kept"),
    )  # fmt: skip
    text += "agent.graph.checkpointer.keep()\n"

    def go(given):
        process = program(text, given)
        said = process.stdout.read()
        assert process.wait() == 0
        return json.loads(said.splitlines()[-1])

    try:
        assert go("ask") == [[{"tool": "buy", "args": ["shells"], "kwargs": {"count": 3}}], [], []]
        assert go("true") == [[], [["shells", 3]], ["'3 shells'"]]
    finally:
        client.close_session(name)
