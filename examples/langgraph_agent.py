#!/usr/bin/env python3
"""An agent that analyses a table with the code_sandbox tool, in two threads that know nothing of each other.

The model is scripted, so that this runs without any model service; see MODEL for a real one. What is claimed
at the end was checked. Needs LangChain and LangGraph: build/venv has them after scripts/quickstart.
"""

from pathlib import Path

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_scripted import Scripted

import limpet
from limpet.langgraph import code_sandbox

DATA = Path(__file__).resolve().parent / "data"

LOAD = """
import pandas as pd
penguins = pd.read_csv("/data/penguins.csv")
print(len(penguins), "penguins")
penguins.isna().sum().sum()
"""
HANG = "n = sum(range(10**12))  # no interrupt stops this"
MEANS = """
means = penguins.dropna().groupby("species")["body_mass_g"].mean().round()
means.to_csv("/session/artifacts/means.csv")
means.to_dict()
"""
FIGURE = """
import matplotlib.pyplot as plt
figure, axes = plt.subplots()
for species, group in penguins.groupby("species"):
    axes.scatter(group["flipper_length_mm"], group["body_mass_g"], s=12, label=species)
axes.legend()
plt.show()
"""
ISLANDS = """
import csv
with open("/data/penguins.csv", newline="") as file:
    islands = sorted({row["island"] for row in csv.DictReader(file)})
islands, "penguins" in globals()
"""

# What the model does about each question: code to run, call after call, and then its answer.
SCRIPT = {
    "How heavy are the species?": [
        [LOAD],
        [{"code": HANG, "timeout": 1}],
        [MEANS],
        [FIGURE],
        "Gentoo are the heaviest.",
    ],
    "Which islands are there?": [[ISLANDS], "Three: Biscoe, Dream and Torgersen."],
    "How many of each species?": [["penguins['species'].value_counts().to_dict()"], "Adelie are the most."],
}
MODEL = Scripted(turns=SCRIPT.__getitem__)
# MODEL = langchain.chat_models.init_chat_model("anthropic:claude-sonnet-4-5")


def ask(agent, thread, question):
    """Shows what the tool prints as it prints it, and each message; returns the tool's artifacts."""
    print(f"\n{thread} > {question}")
    config = {"configurable": {"thread_id": thread}}
    given = {"messages": [("human", question)]}
    artifacts = []
    for mode, event in agent.stream(given, config, stream_mode=["custom", "updates"]):
        if mode == "custom":
            if event["stream"] != "display":
                print(f"  {event['stream']}: {event['data']}", end="")
            continue
        for update in event.values():
            for message in update["messages"]:
                show(message)
                if isinstance(message, ToolMessage):
                    artifacts.append(message.artifact)
    return artifacts


def show(message):
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            print("\n".join(f"  >>> {line}" for line in call["args"]["code"].strip().splitlines()))
        if message.text:
            print(f"  {message.text}")
        return
    images = [block for block in message.content_blocks if block["type"] == "image"]
    print(
        "\n".join(f"      {line}" for line in message.text.splitlines()),
        *["      (a figure)"] * len(images),
        sep="\n",
    )


def main():
    client = limpet.Client()
    sandbox = code_sandbox(client, data=DATA, memory="512m", timeout=60, max_timeout=300, checkpoint="always")
    print(sandbox.description)
    agent = create_agent(MODEL, [sandbox], checkpointer=InMemorySaver())

    loaded, hung, means, figure = ask(agent, "penguins", "How heavy are the species?")
    (islands,) = ask(agent, "islands", "Which islands are there?")
    (counts,) = ask(agent, "penguins", "How many of each species?")

    assert (hung["status"], hung["state"]) == ("timeout", "rolled_back")
    assert means["status"] == "ok" and figure["displays"], "the table was still in memory"
    assert islands["result"] == "(['Biscoe', 'Dream', 'Torgersen'], False)"
    assert counts["result"] == "{'Adelie': 152, 'Gentoo': 124, 'Chinstrap': 68}"
    path = means["artifacts"]["/session/artifacts/means.csv"]
    assert "Gentoo" in Path(path).read_text()
    print(f"\nThe table was loaded once and outlived a call that had to be killed. The means are in {path}")
    for thread in ("penguins", "islands"):
        client.close_session(thread)


main()
