#!/usr/bin/env python3
"""An analysis of several steps that takes a checkpoint before each risky one, and ends with a report in HTML.

usage: examples/analysis.py [REPORT]     by default penguins.html in the current directory

Nothing but the client is needed here: pandas and matplotlib are in the sandbox. Each step below is one call on a
session, as it would be if a model had written it; the host decides what becomes of the state.
"""

import base64
import html
import sys
from pathlib import Path
from typing import NamedTuple

import limpet

DATA = Path(__file__).resolve().parent / "data"

LOAD = """
import pandas as pd
penguins = pd.read_csv("/data/penguins.csv")
f"{len(penguins)} rows, {int(penguins.isna().any(axis=1).sum())} of them incomplete"
"""

# It raises halfway through: the first line has changed the table by then.
CLEAN_BADLY = """
penguins.drop(columns="sex", inplace=True)
penguins.dropna(subset=["wingspan_mm"], inplace=True)
"""

CLEAN = """
penguins = penguins.dropna().reset_index(drop=True)
f"{len(penguins)} complete rows"
"""

# It ends well and is wrong all the same: what only the host notices.
CONVERT_BADLY = """
penguins["body_mass_g"] = penguins["body_mass_g"].astype("int8")
int(penguins["body_mass_g"].min())
"""

MODELS = {
    "flipper length": ["flipper_length_mm"],
    "flipper and bill": ["flipper_length_mm", "bill_length_mm", "bill_depth_mm"],
    "flipper, species and sex": ["flipper_length_mm", "species", "sex"],
}

FIT = """
import numpy as np
predictors = pd.get_dummies(penguins[{columns!r}], drop_first=True).to_numpy(float)
matrix = np.column_stack([np.ones(len(penguins)), predictors])
rows = np.random.default_rng(7).permutation(len(penguins))
train, test = rows[: len(rows) * 3 // 4], rows[len(rows) * 3 // 4 :]
weights, *_ = np.linalg.lstsq(matrix[train], penguins["body_mass_g"].to_numpy(float)[train], rcond=None)
fitted = matrix @ weights
round(float(np.sqrt(np.mean((fitted - penguins["body_mass_g"])[test] ** 2))), 1)
"""

CRASH = """
import ctypes
ctypes.string_at(0)
"""

DRAW = """
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(6, 4.5))
for species, group in penguins.groupby("species"):
    axes.scatter(group["body_mass_g"], fitted[group.index], s=14, alpha=0.7, label=species)
limits = [2500, 6500]
axes.plot(limits, limits, color="grey", linewidth=1)
axes.set(xlabel="body mass (g)", ylabel="predicted (g)", xlim=limits, ylim=limits)
axes.legend()
figure.savefig("/session/artifacts/fit.png", dpi=120)
plt.close(figure)
summary = penguins.groupby("species")["body_mass_g"].describe().round(0).astype(int)
summary.to_html("/session/artifacts/summary.html", border=0)
"""


class Step(NamedTuple):
    """What is told of a step in the report."""

    title: str
    text: str


def clean(session):
    """A step that leaves nothing behind when it fails, then the one that works."""
    failed = session.run(CLEAN_BADLY, on_error="rollback")
    assert failed.state == "rolled_back", failed
    yield Step("Clean, first try", f"{failed.error.name}; the table was put back as it was")
    yield Step("Clean", session.run(CLEAN).check().result.strip("'"))


def convert(session):
    """A checkpoint by hand: the host looks at the result and goes back."""
    before = session.checkpoint("before-conversion")
    lightest = int(session.run(CONVERT_BADLY).check().result)
    assert lightest < 0
    session.rollback(before)
    session.drop(before)
    yield Step("Save memory", f"the lightest penguin weighed {lightest} g after it: taken back")


def choose_model(session):
    """Each candidate in its own branch of the same state; the best one's variables become the session's."""
    results = session.try_each(FIT.format(columns=columns) for columns in MODELS.values())
    errors = [float(result.check().result) for result in results]
    best = errors.index(min(errors))
    session.commit(best)
    for name, error in zip(MODELS, errors):
        yield Step(f"Model: {name}", f"off by {error} g on penguins it had not seen")
    yield Step("Choose", f"{list(MODELS)[best]}: its variables are the session's now")


def survive(session):
    """What ends the interpreter goes back by itself."""
    crashed = session.run(CRASH)
    assert crashed.state == "rolled_back", crashed
    yield Step("A bug in a library", f"signal {crashed.signal}; back at call {crashed.rolled_back_to.execution_count}")


def draw(session):
    result = session.run(DRAW).check()
    return {Path(path).name: Path(host_path) for path, host_path in result.artifacts.items()}


def report(steps, artifacts):
    """One file that needs nothing beside it."""
    rows = "\n".join(f"<tr><th>{html.escape(s.title)}</th><td>{html.escape(s.text)}</td></tr>" for s in steps)
    figure = base64.b64encode(artifacts["fit.png"].read_bytes()).decode()
    summary = artifacts["summary.html"].read_text()
    return f"""<!doctype html>
<meta charset="utf-8">
<title>Palmer penguins</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
  table {{ border-collapse: collapse }} th, td {{ text-align: left; padding: .2rem 1rem .2rem 0 }}
  img {{ max-width: 100% }}
</style>
<h1>What a penguin weighs</h1>
<h2>Steps</h2>
<table>
{rows}
</table>
<h2>The model</h2>
<img alt="predicted against measured body mass" src="data:image/png;base64,{figure}">
<h2>Body mass by species</h2>
{summary}
"""


def main():
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "penguins.html")
    steps = []
    with limpet.Client() as client, client.open("analysis", data=DATA) as session:
        steps.append(Step("Load", session.run(LOAD).check().result.strip("'")))
        for part in (clean, convert, choose_model, survive):
            steps += part(session)
        artifacts = draw(session)
    for step in steps:
        print(f"{step.title:>32}  {step.text}")
    target.write_text(report(steps, artifacts))
    print(f"\nThe report is in {target}, made of {len(artifacts)} artifacts of the session.")


if __name__ == "__main__":
    main()
