"""What a run consists of: groups of cases, each of which measures some rows."""
import time
from dataclasses import dataclass, replace
from typing import Callable

from figures import Line, Row


class LeftOut(Exception):
    """Why a row cannot be measured here; raised by a case for all of its rows, or returned in place of figures."""


@dataclass(frozen=True)
class Noted:
    """Pairs of a row, and what is said of them below the table."""

    pairs: list
    note: str


@dataclass(frozen=True)
class Case:
    rows: tuple[Row, ...]
    measure: Callable  # of the bench; a dict from the rows' names to pairs, Noted or not, or to a LeftOut
    long: bool = False  # measured where it is named, and not with all


class Group:
    """A module's cases, in the order in which they are declared."""

    def __init__(self, name, says):
        self.name, self.says, self.cases = name, says.strip().splitlines()[0], []

    def case(self, *rows, long=False):
        """Declares the function below as the one that measures these rows."""
        def declare(measure):
            self.cases.append(Case(rows, measure, long))
            return measure
        return declare

    @property
    def rows(self):
        return [row for case in self.cases for row in case.rows]


def matches(name, wanted):
    """`wanted` is the name of a row or the first parts of it: load, start.burst."""
    return name == wanted or name.startswith(wanted + ".")


def is_wanted(row, only):
    return not only or any(matches(row.name, wanted) for wanted in only)


def unknown(groups, only):
    """Those of `only` that name nothing."""
    names = [row.name for group in groups for row in group.rows]
    return [wanted for wanted in only if not any(matches(name, wanted) for name in names)]


def line_of(row, figures):
    if isinstance(figures, LeftOut):
        return Line(row, note=f"left out: {figures}")
    if isinstance(figures, Noted):
        return Line(row, list(figures.pairs), note=figures.note)
    return Line(row, list(figures))


def measure(case, bench):
    """A line for each of its rows, whatever happens: one bad row does not end the run."""
    rows = [replace(row, target=None) if row.at_full_size and bench.is_reduced else row for row in case.rows]
    try:
        figures = case.measure(bench)
        return [line_of(row, figures[row.name]) for row in rows]
    except LeftOut as reason:
        return [line_of(row, reason) for row in rows]
    except Exception as error:
        return [Line(row, note=f"failed: {type(error).__name__}: {error}", failed=True) for row in rows]


def run(groups, only, bench):
    """The lines of the rows that are wanted, those of each case when it has ended."""
    for group in groups:
        for case in group.cases:
            if not any(is_wanted(row, only) for row in case.rows) or (case.long and not only):
                continue
            start = time.monotonic()
            lines = measure(case, bench)
            bench.say(f"{lines[0].row.name}{' ...' if len(lines) > 1 else ''}: {time.monotonic() - start:.1f} s")
            yield from (line for line in lines if is_wanted(line.row, only))


def listing(groups, only):
    """Each row with its sentence, for --list."""
    text = []
    for group in groups:
        rows = [(row, case.long) for case in group.cases for row in case.rows if is_wanted(row, only)]
        if rows:
            text.append(f"{group.name}: {group.says}")
        for row, long in rows:
            target = f" [{row.target.text(row.unit)}]" if row.target else ""
            text.append(f"  {row.name}{target}{' (where it is named)' if long else ''}\n      {row.says}")
    return "\n".join(text)
