"""What the schemas of proto/schema say, field by field. Run as a program it prints them as JSON."""

import json
import pathlib
import re
from dataclasses import asdict, dataclass
from typing import Optional

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"

# What follows `member, need` in a line of each type, before the meaning.
ARGUMENTS = {
    "TEXT": ("max",), "BYTES": ("max",), "UINT": ("max",), "WORD": ("words",),
    "NAME": (), "BOOL": (), "INT": (), "DOUBLE": (), "SIZE": (), "MAP": (), "DICT": (), "ARRAY": (),
    "TEXTS": ("most", "max"), "NAMES": ("most",), "UINTS": ("most",), "ROWS": ("of", "most"), "PART": ("of",),
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    need: str
    meaning: str
    max: Optional[str] = None
    most: Optional[str] = None
    words: Optional[str] = None
    of: Optional[str] = None


@dataclass(frozen=True)
class Schema:
    struct: str
    name: str
    meaning: str
    fields: tuple[Field, ...]

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]


@dataclass(frozen=True)
class SessionOption:
    """A line of session_options.def."""

    name: str
    kind: str
    part: str
    default: str
    least: str
    most: str
    argument: str
    help: str


def text_of(file: str) -> list[str]:
    """The lines of a file that say something."""
    text = re.sub(r"/\*.*?\*/", "", (PROTO / file).read_text(), flags=re.S)
    return list(filter(None, map(str.strip, text.splitlines())))


def session_options() -> list[SessionOption]:
    entries = [re.fullmatch(r"SESSION_OPTION(?:_ALONE)?\((.*)\)", line) for line in text_of("session_options.def")]
    return [SessionOption(*arguments(entry[1])) for entry in entries if entry]


def option_lines() -> list[str]:
    """Those that schema/options.def makes of the options of a session: one for each, as its kind has it."""
    defines = "\n".join(text_of("schema/options.def"))
    kinds = dict(re.findall(r"#define FIELD_OF_(\w+)\(name, most, words, help\) (.*)", defines))
    found = []
    for option in session_options():
        values = {"name": option.name, "most": option.most, "words": f'"{option.argument}"', "help": f'"{option.help}"'}
        found.append(re.sub(r"\b(name|most|words|help)\b", lambda word: values[word[1]], kinds[option.kind]))
    return found


def lines(file: str) -> list[str]:
    """The lines of a file and of those it includes."""
    found = []
    for line in text_of(file):
        included = re.fullmatch(r'#include "proto/(schema/\w+\.def)"', line)
        if included:
            found += option_lines() if included[1] == "schema/options.def" else lines(included[1])
        elif not line.startswith("FLAT"):
            found.append(line)
    return found


def arguments(text: str) -> list[str]:
    """Those of a line; text is without its quotes."""
    found = re.findall(r'\s*("(?:[^"\\]|\\.)*"|[^",]+)\s*(?:,|$)', text)
    return [argument[1:-1] if argument.startswith('"') else argument.strip() for argument in found]


def read_field(kind: str, given: list[str]) -> Field:
    name = given.pop(1) if kind == "TEXT_AS" else given[0]
    kind = kind.removesuffix("_AS")
    more = dict(zip(ARGUMENTS[kind], given[2:-1], strict=True))
    return Field(name, kind, given[1], given[-1], **{key: None if value == "0" else value for key, value in more.items()})


def read() -> dict[str, Schema]:
    """By name."""
    found, head, fields = {}, None, []
    for line in lines("schema/all.def"):
        if line == "END":
            found[head[1]], head, fields = Schema(*head, tuple(fields)), None, []
            continue
        kind, inside = re.fullmatch(r"(\w+)\((.*)\)", line).groups()
        given = arguments(inside)
        if kind == "EMPTY":
            found[given[1]] = Schema(*given, ())
        elif kind == "BEGIN":
            assert head is None, line
            head = given
        else:
            fields.append(read_field(kind, given))
    return found


if __name__ == "__main__":
    print(json.dumps({name: asdict(schema) for name, schema in read().items()}, indent=1))
