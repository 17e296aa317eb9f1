"""Cases: each row that is wanted has a line, whatever happens."""
import pytest

import runner
from figures import Row, at_most
from runner import Group, LeftOut


class Said:
    """As much of a bench as the runner needs."""

    def __init__(self, is_reduced=False):
        self.is_reduced = is_reduced
        self.texts = []

    def say(self, text):
        self.texts.append(text)


def group_of(measure):
    group = Group("group", "What it is about.\n\nMore.")
    group.case(Row("group.a", "A sentence."), Row("group.a.b", "Another."))(measure)
    group.case(Row("group.c", "A third."))(lambda bench: {"group.c": [(1.0, 1.0)]})
    return group


def lines_of(measure, only=()):
    return {line.row.name: line for line in runner.run([group_of(measure)], only, Said())}


def test_each_row_gets_its_figures():
    lines = lines_of(lambda bench: {"group.a": [(1.0, 2.0)], "group.a.b": iter([(3.0, None)])})
    assert lines["group.a"].pairs == [(1.0, 2.0)]
    assert lines["group.a.b"].pairs == [(3.0, None)]
    assert lines["group.c"].pairs == [(1.0, 1.0)]


def test_a_row_is_left_out_beside_one_that_is_not():
    lines = lines_of(lambda bench: {"group.a": [(1.0, 2.0)], "group.a.b": LeftOut("no such peer")})
    assert lines["group.a"].pairs and not lines["group.a"].note
    assert lines["group.a.b"].note == "left out: no such peer"
    assert not lines["group.a.b"].failed


def test_a_whole_case_is_left_out():
    def measure(bench):
        raise LeftOut("no such feature")

    lines = lines_of(measure)
    assert {lines[name].note for name in ("group.a", "group.a.b")} == {"left out: no such feature"}
    assert lines["group.c"].pairs


@pytest.mark.parametrize("figures", [{}, {"group.a": [(1.0, 2.0)]}])
def test_a_case_that_forgets_a_row_has_failed(figures):
    lines = lines_of(lambda bench: figures)
    assert lines["group.a"].failed and lines["group.a.b"].failed


def test_an_error_costs_the_rows_of_its_case_and_no_others():
    def measure(bench):
        raise OSError("broken")

    lines = lines_of(measure)
    assert lines["group.a"].note == "failed: OSError: broken"
    assert lines["group.a"].failed
    assert lines["group.c"].pairs


def test_an_interrupt_is_not_an_error():
    def measure(bench):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lines_of(measure)


def test_only_what_is_wanted_runs():
    def measure(bench):
        raise AssertionError("not wanted")

    assert list(lines_of(measure, ["group.c"])) == ["group.c"]


def test_what_is_long_runs_where_it_is_named():
    group = Group("group", "What it is about.")
    group.case(Row("group.a", "A sentence."), long=True)(lambda bench: {"group.a": [(1.0, 1.0)]})
    assert list(runner.run([group], [], Said())) == []
    assert [line.row.name for line in runner.run([group], ["group"], Said())] == ["group.a"]
    assert "group.a (where it is named)" in runner.listing([group], [])


@pytest.mark.parametrize("wanted, names", [
    ("group", ["group.a", "group.a.b", "group.c"]), ("group.a", ["group.a", "group.a.b"]), ("group.a.b", ["group.a.b"]),
])
def test_a_name_or_its_first_parts(wanted, names):
    lines = lines_of(lambda bench: {"group.a": [(1.0, 1.0)], "group.a.b": [(1.0, 1.0)]}, [wanted])
    assert list(lines) == names


def test_unknown_names_are_told():
    group = group_of(None)
    assert runner.unknown([group], ["group", "group.a", "gro", "group.ab", "other"]) == ["gro", "group.ab", "other"]


def test_the_list_says_what_each_row_measures():
    text = runner.listing([group_of(None)], ["group.c"])
    assert text == "group: What it is about.\n  group.c\n      A third."


@pytest.mark.parametrize("is_reduced, held", [(False, False), (True, None)])
def test_a_target_for_full_size_does_not_hold_for_less(is_reduced, held):
    group = Group("group", "What it is about.")
    group.case(Row("group.a", "A sentence.", at_most(1), at_full_size=True))(lambda bench: {"group.a": [(2.0, 1.0)]})
    [line] = runner.run([group], [], Said(is_reduced))
    assert line.as_dict()["held"] is held


def test_a_note_is_told_of_figures():
    lines = lines_of(lambda bench: {"group.a": runner.Noted([(1.0, 2.0)], "the worst of two"), "group.a.b": [(1.0, 1.0)]})
    assert (lines["group.a"].pairs, lines["group.a"].note) == ([(1.0, 2.0)], "the worst of two")
    assert not lines["group.a"].failed and not lines["group.a.b"].note
