"""A session goes to a file, ends, and comes back from the file with its variables; then what it did is exported.

usage: examples/saving.py [DIRECTORY]        (by default a temporary one)
"""
import json
import pathlib
import sys
import tempfile

import limpet

FIRST = """
import threading
counts = {"a": 1}
alias = counts
lock = threading.Lock()
def add(name):
    counts[name] = counts.get(name, 0) + 1
    return counts
open("notes.txt", "w").write("kept as well")
"""


def main(directory):
    path = directory / "session.limpet"
    with limpet.Client() as client:
        with client.open() as session:
            session.run(FIRST).check()
            saved = session.save(path)
            print(f"saved {saved.size} bytes; not pickled: {saved.lost}")
        with client.open(restore=path) as session:
            result = session.run("add('a'), alias is counts, open('notes.txt').read()").check()
            print(f"restored: {result.result}")
            print(f"missing: {result.restored}")
            made = session.export(directory / "export")
            cells = json.loads(pathlib.Path(made["notebook"]).read_text())["cells"]
            print(f"exported {len(cells)} cell: {cells[0]['source']}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(pathlib.Path(temporary))
