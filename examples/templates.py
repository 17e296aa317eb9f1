"""A template: files, environment and setup code that have happened before a session is opened.

usage: examples/templates.py [DIRECTORY]        (by default the data beside this program)
"""
import pathlib
import sys
import time

import limpet

SETUP = """
import pandas as pd
table = pd.read_csv("penguins.csv")
def mean(column):
    return round(table.groupby("species")[column].mean(), 1).to_dict()
"""


def opened(client, name):
    """A session of the template, and how long it took to open."""
    begun = time.monotonic()
    session = client.open(name, template="penguins")
    print(f"{name} opened in {(time.monotonic() - begun) * 1000:.1f} ms")
    return session


def main():
    local = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "data"
    with limpet.Client() as client:
        template = client.template("penguins", files=local, env={"UNIT": "g"}, setup=SETUP, replace=True)
        print(f"{template.name}: {template.files} bytes of files, {template.setup} of setup code")
        try:
            with opened(client, "first") as session:
                print(session.run("mean('body_mass_g')").check().result)
                lost = session.run("del table; import os; os._exit(1)")
                print(f"{lost.status}, {lost.state} to call {lost.rolled_back_to.execution_count}:", session.run("len(table)").result, "rows")
            print("in a container of its own:", client.run("len(table)", template="penguins").result, "rows")
            try:
                client.template("broken", setup="table = pd.read_csv('penguins.csv')")
            except limpet.TemplateFailed as error:
                print("not kept:", error.traceback.strip().splitlines()[-1])
        finally:
            client.remove_template("penguins")


if __name__ == "__main__":
    main()
