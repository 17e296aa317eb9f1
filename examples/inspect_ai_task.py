#!/usr/bin/env python3
"""An evaluation whose samples run in sessions. The solver is a script in place of a model, so that this runs without any
model service; in its place goes [use_tools([bash()]), generate()].

Needs inspect_ai: pip install './clients/python[inspect-ai]'.
"""

import tempfile
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import solver
from inspect_ai.util import SandboxEnvironmentSpec, sandbox

from limpet.inspect_ai import LimpetConfig, LimpetSandboxEnvironment

DATA = Path(__file__).resolve().parent / "data" / "penguins.csv"
SAMPLES = [
    Sample(input="How many penguins are there?", target="344", files={"penguins.csv": str(DATA)}),
    Sample(input="How many species are there?", target="3", files={"penguins.csv": str(DATA)}),
]
CODE = {
    "How many penguins are there?": "len(rows)",
    "How many species are there?": "len({row['species'] for row in rows})",
}


@solver
def scripted():
    async def solve(state, generate):
        listed = await sandbox().exec(["head", "-1", "penguins.csv"])
        live = sandbox().as_type(LimpetSandboxEnvironment).session  # Python that stays between calls
        await live.run("import csv; rows = list(csv.DictReader(open('penguins.csv', newline='')))")
        answer = await live.run(CODE[state.input_text])
        print(f"{listed.stdout.strip()} → {answer.result}")
        state.output.completion = answer.result
        return state

    return solve


def main():
    sandbox_spec = SandboxEnvironmentSpec("limpet", LimpetConfig(memory="512m"))
    task = Task(dataset=SAMPLES, solver=scripted(), scorer=match(), sandbox=sandbox_spec)
    with tempfile.TemporaryDirectory() as logs:
        log = eval(task, model="mockllm/model", log_dir=logs, display="none")[0]
        assert log.status == "success", log.error
        print("accuracy", log.results.scores[0].metrics["accuracy"].value)


main()
