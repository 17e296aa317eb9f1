"""Files of a sandbox: a directory goes in, code works on it, what happens is watched, and the results come back.

usage: examples/files.py [DIRECTORY]        (by default the data beside this program)
"""
import pathlib
import sys
import tempfile

import limpet

CODE = """
import csv, pathlib
pathlib.Path("report").mkdir(exist_ok=True)
for file in sorted(pathlib.Path("project").glob("*.csv")):
    rows = list(csv.DictReader(file.open()))
    pathlib.Path("report", file.stem + ".txt").write_text(f"{len(rows)} rows, columns {', '.join(rows[0])}\\n")
"""


def main():
    local = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "data"
    with limpet.Client() as client, client.open() as session, tempfile.TemporaryDirectory() as results:
        session.put(local, "project", on_progress=lambda done, whole: print(f"sent {done} of {whole} bytes"))
        session.files.mkdir("report")
        with session.files.watch("report") as watch:
            session.run(CODE).check()
            print("first event:", next(watch))
        for entry in session.files.list("report"):
            print(entry.path, entry.size, session.files.read(entry.path).decode(), end="")
        try:
            session.files.read("/run/limpet/secret")
        except PermissionError as error:
            print("refused:", error)
        session.get("report", results)
        print("here:", sorted(path.name for path in pathlib.Path(results).iterdir()))


if __name__ == "__main__":
    main()
