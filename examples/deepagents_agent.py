#!/usr/bin/env python3
"""A deep agent whose files and commands are those of a session, next to the session's live Python.

The model is scripted, so that this runs without any model service; see MODEL for a real one. What is claimed at the end
was checked. Needs deepagents: pip install './clients/python[deepagents]'.
"""

from pathlib import Path

from deepagents import create_deep_agent
from langchain_core.messages import ToolMessage
from langgraph_scripted import Scripted

import limpet
from limpet.deepagents import LimpetSandbox

DATA = Path(__file__).resolve().parent / "data"
COUNT = """import csv
with open("/data/penguins.csv", newline="") as file:
    print(len(list(csv.DictReader(file))), "penguins")
"""
SCRIPT = {
    "How many penguins are there?": [
        [("write_file", {"file_path": "/session/count.py", "content": COUNT})],
        [("execute", {"command": "python3 count.py > artifacts/count.txt; cat artifacts/count.txt"})],
        [("edit_file", {"file_path": "/session/count.py", "old_string": "penguins\")", "new_string": "birds\")"})],
        [("execute", {"command": "python3 count.py; ls nothing-there"})],
        "There are 344.",
    ],
}
MODEL = Scripted(turns=SCRIPT.__getitem__)
# MODEL = langchain.chat_models.init_chat_model("anthropic:claude-sonnet-4-5")


def main():
    with limpet.Client() as client, client.open(data=DATA, memory="512m") as session:
        session.run("x = 41")
        agent = create_deep_agent(MODEL, backend=LimpetSandbox(session))
        answer = agent.invoke({"messages": [("human", "How many penguins are there?")]})
        said = [message for message in answer["messages"] if isinstance(message, ToolMessage)]
        for message in said:
            print(f"{message.name}: {message.text.strip()}")
        print(answer["messages"][-1].text)
        assert "344 penguins" in said[1].text
        assert "344 birds" in said[3].text and "exit code 2" in said[3].text
        assert session.run("x + 1").result == "42"
        assert session.get("artifacts/count.txt") == b"344 penguins\n"


main()
