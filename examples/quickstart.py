#!/usr/bin/env python3
"""An analysis in one live session: a table is loaded once and stays in memory from call to call.

Everything this prints was returned by the session; what it claims at the end it has checked on the host.
"""

import csv
import os
import sys
import textwrap
import time
from pathlib import Path

import limpet

DATA = Path(__file__).resolve().parent / "data"

# (title, code, how the cell is to end: status, state, seconds it gets)
KEPT = ("ok", "kept", None)
CELLS = [
    (
        "Load the table once",
        """
import pandas as pd
penguins = pd.read_csv("/data/penguins.csv")
print(len(penguins), "penguins,", penguins["species"].nunique(), "species")
penguins["species"].value_counts().to_dict()
""",
        KEPT,
    ),
    (
        "It is still in memory: summarise it",
        """
measured = penguins.dropna()
means = measured.groupby("species")[["bill_length_mm", "flipper_length_mm", "body_mass_g"]].mean().round(1)
print(means)
""",
        KEPT,
    ),
    (
        "/data is read-only",
        """
try:
    open("/data/penguins.csv", "w")
except OSError as error:
    print("refused:", error.strerror)
""",
        KEPT,
    ),
    (
        "Draw a figure",
        """
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(7, 4.5))
for species, group in measured.groupby("species"):
    axes.scatter(group["flipper_length_mm"], group["body_mass_g"], s=14, alpha=0.7, label=species)
axes.set(xlabel="flipper length (mm)", ylabel="body mass (g)", title="Palmer penguins")
axes.legend()
figure.savefig("/session/artifacts/penguins.png", dpi=120)
""",
        KEPT,
    ),
    (
        "Make a mistake",
        """
penguins["wingspan"].mean()
""",
        ("error", "kept", None),
    ),
    (
        "Make a worse one: a loop that no interrupt stops",
        """
sum(range(10**12))
""",
        ("timeout", "rolled_back", 1),
    ),
    (
        "And one that kills the interpreter",
        """
import ctypes
ctypes.string_at(0)
""",
        ("crashed", "rolled_back", None),
    ),
    (
        "Go on with the same variables, and write a table",
        """
means["count"] = measured["species"].value_counts()
means.to_csv("/session/artifacts/means.csv")
print(open("/session/artifacts/means.csv").read(), end="")
""",
        KEPT,
    ),
    (
        "Fit a line through what the first call loaded",
        """
import numpy as np
slope, intercept = np.polyfit(measured["flipper_length_mm"], measured["body_mass_g"], 1)
print(f"each millimetre of flipper goes with {slope:.1f} g of body mass")
round(float(np.corrcoef(measured["flipper_length_mm"], measured["body_mass_g"])[0, 1]), 3)
""",
        KEPT,
    ),
]

COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36"}


def paint(text, colour):
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m"


def show_lines(text, mark, colour):
    for line in text.rstrip("\n").splitlines():
        print(f"  {paint(mark, colour)} {textwrap.shorten(line, 200) if len(line) > 200 else line}")


def show_result(result):
    show_lines(result.stdout, "│", "dim")
    show_lines(result.stderr, "│", "red")
    if result.result is not None:
        show_lines(result.result, "=", "green")
    for display in result.displays:
        sizes = ", ".join(f"{mime} ({len(value)} bytes)" for mime, value in display.data.items())
        print(f"  {paint('▣', 'cyan')} {sizes}")
    if result.error is not None:
        print(f"  {paint('✗', 'red')} {result.error.name}: {result.error.message}   (state {result.state})")
    for path in result.artifacts:
        print(f"  {paint('+', 'green')} {path} ({result.artifact_info[path].size} bytes)")
    print(paint(f"  {result.status}, {1000 * result.duration:.1f} ms\n", "dim"))


def run_cells(session):
    artifacts = {}
    for number, (title, code, (status, state, timeout)) in enumerate(CELLS, 1):
        print(paint(f"[{number}] {title}", "bold"))
        show_lines(code.strip(), ">", "cyan")
        result = session.run(code, timeout=timeout)
        show_result(result)
        assert (result.status, result.state) == (status, state), f"cell {number}: {result!r}\n{result.error}"
        assert not result.skipped, result.skipped
        artifacts.update(result.artifacts)
    return artifacts


def check_artifacts(artifacts):
    assert set(artifacts) == {"/session/artifacts/penguins.png", "/session/artifacts/means.csv"}, artifacts
    for host_path in artifacts.values():
        assert os.path.isfile(host_path), f"{host_path} does not exist"
    with open(artifacts["/session/artifacts/penguins.png"], "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"
    with open(artifacts["/session/artifacts/means.csv"], newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["species"] for row in rows] == ["Adelie", "Chinstrap", "Gentoo"]
    assert sum(int(row["count"]) for row in rows) == 333


def main():
    client = limpet.Client()
    began = time.monotonic()
    with client.open("quickstart", data=DATA) as session:
        print(f"Session '{session.name}' on the {session.engine} engine, open after {time.monotonic() - began:.2f} s.\n")
        artifacts = run_cells(session)
    check_artifacts(artifacts)
    print(paint("Artifacts: path in the session → path on this machine", "bold"))
    for path, host_path in artifacts.items():
        print(f"  {path} → {host_path}")
    print(f"\n{len(CELLS)} calls on one session; {len(artifacts)} artifacts, each found on this machine and read back.")


main()
