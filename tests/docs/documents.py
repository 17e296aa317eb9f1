"""The documents, and the fenced blocks in them."""

import re
from dataclasses import dataclass

from tests.support import ROOT

PATHS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "proto/PROTOCOL.md", "guest/README.md",
                               "guest/interpreter/checkpoint/README.md", "clients/python/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]  # fmt: skip
RUNS = ("sh", "console", "python", "cell")  # these languages are run
SHOWN = ("text", "ini", "json", "pyi", "hex")  # and these only shown
CELL = "<!-- cell -->"  # above a block of Python: it is one of a notebook
NOT_RUN = re.compile(r"^<!-- not run: .+ -->$")


@dataclass
class Block:
    """A fenced block: `line` is that of its first line of text."""

    document: str
    line: int
    language: str
    text: str
    not_run: bool

    @property
    def place(self):
        return f"{self.document}:{self.line}"


def blocks(path):
    """Of a document, in order. One that cannot be run has a comment above it that says why."""
    lines = path.read_text().splitlines()
    name, number = str(path.relative_to(ROOT)), 0
    while number < len(lines):
        if lines[number].startswith("```"):
            end = lines.index("```", number + 1)
            above = next((line for line in reversed(lines[:number]) if line), "")
            language = "cell" if above == CELL else (lines[number][3:].split() or [""])[0]
            yield Block(name, number + 2, language, "\n".join(lines[number + 1 : end]), bool(NOT_RUN.match(above)))
            number = end
        number += 1


def without_blocks(path):
    """The text of a document, with its fenced blocks as empty lines."""
    inside, kept = False, []
    for line in path.read_text().splitlines():
        inside ^= line.startswith("```")
        kept.append("" if inside or line.startswith("```") else line)
    return "\n".join(kept)


def fits(expected, said):
    """Whether what was said is what the document shows, in which `…` stands for anything."""
    pattern = ".*".join(map(re.escape, expected.strip().split("…")))
    return re.fullmatch(pattern, said.strip(), re.S) is not None
