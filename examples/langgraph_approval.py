#!/usr/bin/env python3
"""Code of an agent calls functions of the host; a person decides about each purchase while the code waits.

The model is scripted, so that this runs without any model service; see MODEL for a real one. What is claimed
at the end was checked. Needs LangChain and LangGraph: build/venv has them after scripts/quickstart.
"""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from langgraph_scripted import Scripted

import limpet
from limpet.langgraph import code_sandbox

SHOP = """
from limpet_tools import buy, price
bought = []
for item in ["shovel", "bucket", "yacht"]:
    if price(item) <= 1000000:
        try:
            bought.append(buy(item, count=2))
        except PermissionError as error:
            print(error)
bought
"""
MODEL = Scripted(turns={"Get me things for the beach.": [[SHOP], "Have fun."]}.__getitem__)
# MODEL = langchain.chat_models.init_chat_model("anthropic:claude-sonnet-4-5")

PRICES = {"shovel": 9.5, "bucket": 4.0, "yacht": 900000.0}
sold = []


def price(item: str) -> float:
    """What one of them costs."""
    return PRICES[item]


@tool
def buy(item: str, count: int = 1) -> str:
    """Buys it."""
    sold.append(item)
    return f"{count} {item}s"


def approve(call):
    """Only what costs money stops the graph; it goes on with what the person says, also in another process."""
    if call.tool == "price":
        return True
    return interrupt({"buy": call.args[0], "count": call.kwargs.get("count", 1)})


def main():
    client = limpet.Client()
    sandbox = code_sandbox(client, tools=[price, buy], approve=approve)
    agent = create_agent(MODEL, [sandbox], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "beach"}}

    state = agent.invoke({"messages": [("human", "Get me things for the beach.")]}, thread)
    for decision in (True, True, "not this year"):
        (waits,) = state["__interrupt__"]
        print(f"{waits.value} -> {decision}")
        state = agent.invoke(Command(resume=decision), thread)
    message = state["messages"][-2]
    print(message.text)

    assert sold == ["shovel", "bucket"]
    assert message.artifact["result"] == "['2 shovels', '2 buckets']"
    assert "not this year" in message.artifact["stdout"]
    print("The code ran once, stopped for a person three times, and bought what was allowed.")
    client.close_session("beach")


main()
