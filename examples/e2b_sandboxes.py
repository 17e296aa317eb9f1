#!/usr/bin/env python3
"""E2B's own client on Limpet: variables that stay, three ideas tried at once in forks, and a crash that is told.

Needs a gateway, `limpet serve`, and the variables E2B_API_URL, E2B_SANDBOX_URL (both http://127.0.0.1:8000) and
E2B_API_KEY; pip install e2b-code-interpreter. What is claimed at the end was checked.
"""

from pathlib import Path

from e2b_code_interpreter import Sandbox

DATA = Path(__file__).resolve().parent / "data" / "penguins.csv"
LOAD = """
import csv
with open("penguins.csv", newline="") as file:
    penguins = list(csv.DictReader(file))
len(penguins)
"""
IDEAS = {
    "by species": "sorted({row['species'] for row in penguins})",
    "by island": "sorted({row['island'] for row in penguins})",
    "by year": "sorted({row['year'] for row in penguins})",
}


def main():
    with Sandbox.create(timeout=300) as sandbox:
        sandbox.files.write("penguins.csv", DATA.read_bytes())
        print("penguins:", sandbox.run_code(LOAD).text)

        forks = sandbox.fork(count=len(IDEAS))
        for fork, (name, code) in zip(forks, IDEAS.items(), strict=True):
            print(f"{name}:", fork.run_code(code).text)
            fork.kill()

        print("lines:", sandbox.commands.run("wc -l < penguins.csv").stdout.strip())
        snapshot = sandbox.create_snapshot()  # whatever happens now, the variables are as they are here
        crash = sandbox.run_code("import os; os.kill(os.getpid(), 11)")
        print("a crash:", crash.error.name)
        print("penguins still:", sandbox.run_code("len(penguins)").text)
        assert crash.error.name == "StateRolledBack" and sandbox.run_code("len(penguins)").text == "344"
        Sandbox.delete_snapshot(snapshot.snapshot_id)


if __name__ == "__main__":
    main()
