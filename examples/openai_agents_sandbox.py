#!/usr/bin/env python3
"""An agent of the OpenAI Agents SDK whose sandbox is a session.

The model is scripted, so that this runs without any model service. Needs openai-agents:
pip install './clients/python[openai-agents]'.
"""

import asyncio
import json
from pathlib import Path

from agents import ModelResponse, RunConfig, Runner, Usage, set_tracing_disabled
from agents.models.interface import Model
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from limpet.openai_agents import LimpetSandboxClient, LimpetSandboxClientOptions

DATA = Path(__file__).resolve().parent / "data" / "penguins.csv"
COMMANDS = ["head -2 penguins.csv", "python3 -c 'import csv; print(len(list(csv.DictReader(open(\"penguins.csv\")))))'"]


class Scripted(Model):
    """Runs a command after the other, then says what the last one has shown."""

    async def get_response(self, system_instructions, input, *ignored, **options):
        shown = [item["output"] for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        if len(shown) < len(COMMANDS):
            arguments = json.dumps({"cmd": COMMANDS[len(shown)]})
            item = ResponseFunctionToolCall(type="function_call", name="exec_command", arguments=arguments, call_id=str(len(shown)))
        else:
            print("\n\n".join(shown))
            text = f"There are {shown[-1].split()[-1]}."
            content = [ResponseOutputText(type="output_text", text=text, annotations=[])]
            item = ResponseOutputMessage(id="1", type="message", role="assistant", status="completed", content=content)
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *ignored, **options):
        raise TypeError("a script does not stream")


async def main():
    set_tracing_disabled(True)
    agent = SandboxAgent(
        name="Analyst",
        model=Scripted(),  # or the name of one
        default_manifest=Manifest(entries={"penguins.csv": File(content=DATA.read_bytes())}),
    )
    options = LimpetSandboxClientOptions(memory="512m")
    config = RunConfig(sandbox=SandboxRunConfig(client=LimpetSandboxClient(), options=options))
    result = await Runner.run(agent, "How many penguins are there?", run_config=config)
    print(result.final_output)


asyncio.run(main())
