#!/usr/bin/env python3
"""An agent of smolagents whose code runs in a session, while its tools run here. A step that never ends, or that crashes
Python, takes nothing of the earlier steps away.

The model is scripted, so that this runs without any model service. Needs smolagents:
pip install './clients/python[smolagents]'.
"""

from pathlib import Path

from smolagents import CodeAgent, tool
from smolagents.models import ChatMessage, Model

from limpet.smolagents import LimpetExecutor

DATA = Path(__file__).resolve().parent / "data" / "penguins.csv"
STEPS = [
    "rows = penguins()\nprint(len(rows))",
    "while True: pass",
    "import ctypes; ctypes.string_at(0)",
    "species = {row['species'] for row in rows}\n"
    "final_answer(f'There are {len(species)} species, and {len(rows)} penguins.')",
]


class Scripted(Model):
    def generate(self, messages, **options):
        return ChatMessage(role="assistant", content=f"<code>\n{STEPS.pop(0)}\n</code>")


@tool
def penguins() -> list:
    """All penguins that were measured."""
    head, *lines = DATA.read_text().splitlines()
    return [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]


def main():
    with LimpetExecutor(memory="512m", timeout=2) as executor:
        agent = CodeAgent(tools=[penguins], model=Scripted(model_id="scripted"), executor=executor)
        print(agent.run("How many species of penguins are there?"))


main()
