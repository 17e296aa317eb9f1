"""The table of docs/performance.md is what the runs have left."""
from pathlib import Path

import pytest

import page
from figures import Line, Row, at_most

PAGE = Path(__file__).resolve().parents[2] / "docs/performance.md"


def rows(*lines):
    return {line.row.name: line.as_dict() for line in lines}


ROW = Row("group.row", "A sentence.", at_most(1.5))
PLAIN = Row("group.plain", "A sentence.")


def test_each_engine_has_a_column():
    oci = rows(Line(ROW, [(2.0, 1.0), (3.0, 1.0), (4.0, 1.0)]), Line(PLAIN, [(0.5, None)]))
    docker = rows(Line(ROW, [(1.0, 1.0)]))
    assert page.table({"oci": oci, "docker": docker}).splitlines() == [
        "| row | target | oci | held | docker | held |",
        "| --- | --- | --- | --- | --- | --- |",
        "| group.row | <= 1.5x | 3 s / 1 s = **3x** (2x - 4x) | NO | 1 s / 1 s = **1x** (1x - 1x) | yes |",
        "| group.plain |  | 500 ms (500 ms - 500 ms) |  |  |  |",
    ]


def test_a_row_that_was_measured_nowhere_is_left_out():
    assert "group.row" not in page.table({"oci": rows(Line(ROW, note="no such program"))})


def test_only_the_table_is_replaced():
    before = PAGE.read_text()
    after = page.replace(before, {"oci": rows(Line(ROW, [(1.0, 1.0)]))})
    begin, end = before.index("| row | target |"), before.index("<!-- figures: end -->")
    assert after.startswith(before[:begin]) and after.endswith(before[end:])
    assert len(after) < len(before)


def test_a_page_without_a_table_is_refused():
    with pytest.raises(ValueError):
        page.replace("nothing", {})
