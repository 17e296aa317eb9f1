"""The table of docs/performance.md: what runs on several engines have left as JSON, side by side."""
import json
import re
from pathlib import Path

import figures

UNITS = {unit.name: unit for unit in (figures.SECONDS, figures.BYTES, figures.RATE, figures.CALLS)}
HELD = {None: "", True: "yes", False: "NO"}
BETWEEN = re.compile(r"\| row \| target \|.*?(?=\n<!-- figures: end -->)", re.S)


def read(files):
    """The rows of several files by name; of a row that stands in two, the last one's."""
    return {row["name"]: row for file in files for row in json.loads(Path(file).read_text())}


def cell(row):
    """Its medians, and the range of the ratio or, without a floor, of the value."""
    text = UNITS[row["unit"]].text
    if row["floor"] is None:
        return f"{text(row['value'])} ({figures.span(*row['value_range'], text)})"
    ratio = f"**{figures.times(row['ratio'])}** ({figures.span(*row['range'], figures.times)})"
    return f"{text(row['value'])} / {text(row['floor'])} = {ratio}"


def table(engines):
    """`engines` has the rows of each engine. What was measured on none is left out."""
    lines = [["row", "target", *(text for engine in engines for text in (engine, "held"))]]
    lines.append(["---"] * len(lines[0]))
    for name in dict.fromkeys(name for rows in engines.values() for name in rows):
        measured = [row if (row := rows.get(name)) and row["value"] is not None else None for rows in engines.values()]
        if any(measured):
            target = next(row["target"] for row in measured if row) or ""
            columns = [text for row in measured for text in ((cell(row), HELD[row["held"]]) if row else ("", ""))]
            lines.append([name, target, *columns])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def replace(text, engines):
    """The text of the page with the table of these engines instead of the one it has."""
    made, count = BETWEEN.subn(lambda _: table(engines), text)
    if count != 1:
        raise ValueError("the page has no table that ends with <!-- figures: end -->")
    return made
