"""What the schemas of proto/schema say, field by field. Run as a program it prints them as JSON."""

import json
import pathlib
import re
from dataclasses import asdict, dataclass
from typing import Optional

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "proto/schema"

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


def lines(file: str) -> list[str]:
    """The lines of a file and of those it includes, without comments."""
    text = re.sub(r"/\*.*?\*/", "", (FOLDER / file).read_text(), flags=re.S)
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        included = re.fullmatch(r'#include "proto/schema/(\w+\.def)"', line)
        if included:
            found += lines(included[1])
        elif not line.startswith("FLAT"):
            found.append(line)
    return found


def arguments(text: str) -> list[str]:
    """Those of a line; text is without its quotes."""
    return [quoted or plain.strip() for quoted, plain in re.findall(r'"((?:[^"\\]|\\.)*)"|([^",]+)', text) if quoted or plain.strip()]


def read_field(kind: str, given: list[str]) -> Field:
    name = given.pop(1) if kind == "TEXT_AS" else given[0]
    kind = kind.removesuffix("_AS")
    more = dict(zip(ARGUMENTS[kind], given[2:-1], strict=True))
    return Field(name, kind, given[1], given[-1], **{key: None if value == "0" else value for key, value in more.items()})


def read() -> dict[str, Schema]:
    """By name."""
    found, head, fields = {}, None, []
    for line in lines("all.def"):
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
