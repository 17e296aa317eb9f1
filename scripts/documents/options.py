"""The options of limpetd as tables for docs/configuration.md, from `limpetd --help`."""
import re
import subprocess

LINE = re.compile(r"^  --(\S+) (\S+) +(.*?)(?: \(default (.*)\))?$")
OF_SESSIONS = "session default: "


def rows(build):
    """(name, argument, help, default) of each."""
    text = subprocess.run([build / "limpetd", "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in text.split("environment:\n", 1)[1].splitlines():
        if line.strip():
            name, argument, what, default = LINE.match(line).groups()
            yield name.replace("-", "_"), argument, what, default


def table(lines):
    rows = [f"| `{name}` | {cell(argument)} | {f'`{default}`' if default else ''} | {cell(what)} |" for name, argument, what, default in lines]
    return "\n".join(["| option | value | default | meaning |", "|---|---|---|---|", *rows])


def cell(text):
    return text.replace("|", ", ")


def tables(build):
    every = list(rows(build))
    own = [row for row in every if not row[2].startswith(OF_SESSIONS)]
    shared = [(name, argument, what.removeprefix(OF_SESSIONS), default) for name, argument, what, default in every
              if what.startswith(OF_SESSIONS)]
    return (f"Defaults of sessions. A session may set its own values:\n\n{table(shared)}\n\n"
            f"Options of the controller:\n\n{table(own)}\n")
