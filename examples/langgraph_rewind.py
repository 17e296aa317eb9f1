#!/usr/bin/env python3
"""Going back in a thread takes the variables back too, and two ways on from one point do not meet.

The model is scripted, so that this runs without any model service; see MODEL for a real one. What is claimed
at the end was checked. Needs LangChain and LangGraph: build/venv has them after scripts/quickstart.
"""

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_scripted import Scripted

import limpet
from limpet.langgraph import Rewind, code_sandbox

SCRIPT = {
    "Make a list of the first squares.": [["squares = [n * n for n in range(6)]; squares"], "Done."],
    "Keep the even ones.": [["squares = [n for n in squares if n % 2 == 0]; squares"], "0, 4 and 16."],
    "Keep the odd ones.": [["squares = [n for n in squares if n % 2]; squares"], "1, 9 and 25."],
    "What is their sum?": [["sum(squares)"], "There it is."],
}
MODEL = Scripted(turns=SCRIPT.__getitem__)
# MODEL = langchain.chat_models.init_chat_model("anthropic:claude-sonnet-4-5")


def ask(agent, config, question):
    """Asks at a point of the thread; returns the value of the call and the point that was reached."""
    print(f"\n> {question}")
    messages = agent.invoke({"messages": [("human", question)]}, config)["messages"]
    print("\n".join(f"  {line}" for line in messages[-2].text.splitlines()))
    thread = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
    return messages[-2].artifact["result"], agent.get_state(thread).config


def main():
    client = limpet.Client()
    sandbox = code_sandbox(client, memory="256m")
    agent = create_agent(MODEL, [sandbox], middleware=[Rewind(sandbox)], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "rewind"}}

    _, root = ask(agent, thread, "Make a list of the first squares.")
    even, on_even = ask(agent, root, "Keep the even ones.")
    odd, on_odd = ask(agent, root, "Keep the odd ones.")  # from the same point again
    sum_of_even, _ = ask(agent, on_even, "What is their sum?")
    sum_of_odd, _ = ask(agent, on_odd, "What is their sum?")

    assert (even, odd) == ("[0, 4, 16]", "[1, 9, 25]")
    assert (sum_of_even, sum_of_odd) == ("20", "35")
    print("\nTwo ways on from one point, each with its own variables: 20 and 35.")
    client.close_session("rewind")


main()
