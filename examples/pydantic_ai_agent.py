#!/usr/bin/env python3
"""An agent of Pydantic AI in code mode: the model writes Python that calls the agent's tools, in a session that is also
the agent's workspace. A snippet that runs into its time limit is taken back.

The model is scripted, so that this runs without any model service. Needs Pydantic AI:
pip install './clients/python[pydantic-ai]'.
"""

import asyncio
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from limpet.pydantic_ai import CodeMode, LimpetWorkspace

DATA = Path(__file__).resolve().parent / "data" / "penguins.csv"
SNIPPETS = [
    "rows = penguins()\nlen(rows)",
    "rows = []\nwhile True: pass",
    "species = {row['species'] for row in rows}\nprint(f'There are {len(species)} species, and {len(rows)} penguins.')",
]


def scripted(messages, info):
    """A snippet after the other, then the end of what the last one has shown."""
    shown = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if len(shown) < len(SNIPPETS):
        return ModelResponse([ToolCallPart("run_code", {"code": SNIPPETS[len(shown)]})])
    return ModelResponse([TextPart(shown[-1].rstrip().splitlines()[-1])])


def penguins() -> list[dict[str, str]]:
    """All penguins that were measured."""
    head, *lines = DATA.read_text().splitlines()
    return [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]


async def main():
    workspace = LimpetWorkspace(memory="512m", checkpoint="always")
    mode = CodeMode(workspace=workspace, timeout=2)
    agent = Agent(FunctionModel(scripted), tools=[penguins], capabilities=[mode])  # or "anthropic:claude-sonnet-4-5"
    answer = await agent.run("How many species of penguins are there?")
    for message in answer.all_messages():
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                print(part.content, end="\n\n")
    print(answer.output)
    await (await workspace.session()).close()


asyncio.run(main())
