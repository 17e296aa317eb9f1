"""Rows of a benchmark: what each measures and is held to, what it came to, and how that is shown."""
import statistics
import time
from dataclasses import dataclass, field
from typing import Optional

SMALLEST_DECIMAL = 0.1  # a smaller ratio is shown as 1/N


@dataclass(frozen=True)
class Unit:
    name: str  # of the numbers in JSON
    steps: tuple  # (factor, name), the largest first

    def text(self, value):
        """The number with three digits, in the largest step in which it is not a fraction."""
        factor, name = next((step for step in self.steps if abs(value) >= step[0]), self.steps[-1])
        return f"{short(value / factor)} {name}"


SECONDS = Unit("s", ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")))
BYTES = Unit("B", ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")))
RATE = Unit("B/s", ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")))
CALLS = Unit("calls/s", ((1e3, "k calls/s"), (1, "calls/s")))


@dataclass(frozen=True)
class Target:
    """What a row is held to: `at most` or `at least` a ratio, or a `value` it may not exceed."""

    kind: str
    limit: float

    def held(self, value, ratio):
        measured = value if self.kind == "value" else ratio
        return measured >= self.limit if self.kind == "at least" else measured <= self.limit

    def text(self, unit):
        if self.kind == "value":
            return f"<= {unit.text(self.limit)}"
        return f"{'>=' if self.kind == 'at least' else '<='} {times(self.limit)}"


def at_most(ratio):
    return Target("at most", ratio)


def at_least(ratio):
    return Target("at least", ratio)


def value_at_most(value):
    return Target("value", value)


@dataclass(frozen=True)
class Row:
    """`says` is one sentence: what is measured, and against what. The ratio is value / floor, or floor / value
    where `times_less` asks how many times less it is. `at_full_size`: the target is that of a full run."""

    name: str
    says: str
    target: Optional[Target] = None
    unit: Unit = SECONDS
    times_less: bool = False
    at_full_size: bool = False


@dataclass
class Line:
    """A row and its pairs (value, floor), one of each round; a floor is None where there is none. Without pairs
    `note` says why."""

    row: Row
    pairs: list = field(default_factory=list)
    note: str = ""
    failed: bool = False

    @property
    def ratios(self):
        if not self.pairs or self.pairs[0][1] is None:
            return []
        return [floor / value if self.row.times_less else value / floor for value, floor in self.pairs]

    def as_dict(self):
        """What stands in the JSON file."""
        row, ratios = self.row, self.ratios
        values = [value for value, _ in self.pairs]
        value = statistics.median(values) if values else None
        ratio = statistics.median(ratios) if ratios else None
        held = row.target.held(value, ratio) if row.target and values else None
        return {
            "name": row.name, "says": row.says, "value": value, "unit": row.unit.name,
            "floor": statistics.median(floor for _, floor in self.pairs) if ratios else None,
            "ratio": ratio, "ratio_is": "floor / value" if row.times_less else "value / floor",
            "range": [min(ratios), max(ratios)] if ratios else None,
            "value_range": [min(values), max(values)] if values else None, "rounds": len(values),
            "target": row.target.text(row.unit) if row.target else None,
            "held": False if self.failed and row.target else held, "note": self.note,
        }


def short(number):
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def times(ratio):
    if 0 < ratio < SMALLEST_DECIMAL:
        return f"1/{short(1 / ratio)}"
    return f"{short(ratio)}x"


def span(low, high, text):
    return f"{text(low)} - {text(high)}"


HEAD = ["name", "value", "floor", "ratio", "range", "target", "held"]


def cells(line):
    """One line of the table. The range is that of the ratio, or of the value where there is no floor."""
    data, unit = line.as_dict(), line.row.unit
    target = data["target"] or ""
    if data["value"] is None:
        return [line.row.name, "-", "-", "-", "-", target, "FAILED" if line.failed else "left out"]
    held = {None: "", True: "yes", False: "NO"}[data["held"]]
    if data["floor"] is None:
        return [line.row.name, unit.text(data["value"]), "-", "-", span(*data["value_range"], unit.text), target, held]
    return [line.row.name, unit.text(data["value"]), unit.text(data["floor"]), times(data["ratio"]),
            span(*data["range"], times), target, held]


def notes(lines):
    """Each note once, behind the rows that it is about."""
    about = {}
    for line in lines:
        if line.note:
            about.setdefault(line.note, []).append(line.row.name)
    return [f"{', '.join(names)}: {note}" for note, names in about.items()]


def table(lines):
    rows = [HEAD, *map(cells, lines)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    text = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([*text, *([""] if notes(lines) else []), *notes(lines)])


def markdown(lines):
    rows = [HEAD, ["---"] * len(HEAD), *map(cells, lines)]
    text = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*text, *([""] if notes(lines) else []), *(f"- {note}" for note in notes(lines))])


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def seconds(work, *arguments, **named):
    """How long one call takes."""
    start = time.perf_counter()
    work(*arguments, **named)
    return time.perf_counter() - start
