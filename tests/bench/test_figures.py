"""Rows: their ratios, targets and texts."""
import pytest

import figures
from figures import BYTES, SECONDS, Line, Row, at_least, at_most, value_at_most


def line(pairs, target=None, **more):
    return Line(Row("group.row", "A sentence.", target, **more), pairs)


def test_value_floor_and_ratio_are_medians_over_rounds():
    data = line([(2.0, 1.0), (9.0, 3.0), (4.0, 4.0)]).as_dict()
    assert (data["value"], data["floor"], data["ratio"]) == (4.0, 3.0, 2.0)
    assert data["range"] == [1.0, 3.0]
    assert data["value_range"] == [2.0, 9.0]
    assert data["rounds"] == 3
    assert data["ratio_is"] == "value / floor"


def test_a_ratio_is_that_of_one_round():
    """Not of the medians: a round in which the machine was twice as slow has the same ratio."""
    assert line([(1.0, 2.0), (10.0, 20.0), (100.0, 200.0)]).as_dict()["range"] == [0.5, 0.5]


def test_times_less_turns_the_ratio_round():
    data = line([(2.0, 10.0)], times_less=True).as_dict()
    assert data["ratio"] == 5.0
    assert data["ratio_is"] == "floor / value"


@pytest.mark.parametrize("target, pairs, held", [
    (at_most(1.5), [(1.5, 1.0)], True),
    (at_most(1.5), [(1.6, 1.0)], False),
    (at_least(4), [(4.0, 1.0)], True),
    (at_least(4), [(3.9, 1.0)], False),
    (value_at_most(0.06), [(0.06, 1.0)], True),
    (value_at_most(0.06), [(0.07, 1.0)], False),
    (value_at_most(0), [(0.0, None)], True),
    (None, [(9.0, 1.0)], None),
])
def test_held(target, pairs, held):
    assert line(pairs, target).as_dict()["held"] is held


def test_without_a_floor_the_range_is_that_of_the_value():
    absolute = line([(0.05, None), (0.03, None)], value_at_most(0.06))
    data = absolute.as_dict()
    assert (data["floor"], data["ratio"], data["range"]) == (None, None, None)
    assert figures.cells(absolute) == ["group.row", "40 ms", "-", "-", "30 ms - 50 ms", "<= 60 ms", "yes"]


def test_what_was_left_out_is_shown_and_is_not_held_to_anything():
    left_out = Line(Row("group.row", "A sentence.", at_most(1)), note="left out: it is not there")
    assert left_out.as_dict()["held"] is None
    assert figures.cells(left_out)[-1] == "left out"
    assert "group.row: left out: it is not there" in figures.table([left_out])
    assert "- group.row: left out: it is not there" in figures.markdown([left_out])


def test_what_failed_does_not_hold_its_target():
    failed = Line(Row("group.row", "A sentence.", at_most(1)), note="failed: why", failed=True)
    assert failed.as_dict()["held"] is False
    assert figures.cells(failed)[-1] == "FAILED"


def test_a_note_of_several_rows_is_shown_once():
    lines = [Line(Row(name, "A sentence."), note="left out: why") for name in ("a.a", "a.b")]
    assert figures.notes(lines) == ["a.a, a.b: left out: why"]


@pytest.mark.parametrize("unit, value, text", [
    (SECONDS, 2.5, "2.5 s"), (SECONDS, 0.0123, "12.3 ms"), (SECONDS, 84.26e-6, "84.3 us"), (SECONDS, 2.4e-7, "240 ns"),
    (SECONDS, 0, "0 ns"), (BYTES, 3 << 20, "3 MiB"), (BYTES, 100, "100 B"), (figures.RATE, 2.43e9, "2.43 GB/s"),
    (figures.CALLS, 48000, "48 k calls/s"), (figures.CALLS, 7, "7 calls/s"),
])
def test_units(unit, value, text):
    assert unit.text(value) == text


@pytest.mark.parametrize("ratio, text", [
    (1.0, "1x"), (0.987, "0.987x"), (0.005, "1/200"), (1 / 361, "1/361"), (1234.5, "1234x"), (0, "0x"),
])
def test_ratios(ratio, text):
    assert figures.times(ratio) == text


def test_table_and_markdown_have_the_same_cells():
    lines = [line([(2.0, 1.0)], at_most(3)), line([(1.0, 2.0)])]
    table = figures.table(lines).splitlines()
    markdown = figures.markdown(lines).splitlines()
    assert table[0].split() == figures.HEAD
    assert [row[2:-2].split(" | ") for row in markdown[2:]] == [figures.cells(each) for each in lines]


def test_percentile():
    values = list(range(100, 0, -1))
    assert figures.percentile(values, 0.5) == 51
    assert figures.percentile(values, 0.99) == 100
    assert figures.percentile([7], 0.99) == 7
