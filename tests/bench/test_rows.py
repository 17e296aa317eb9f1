"""The rows there are, and the command line that chooses them."""
import importlib.machinery
import importlib.util
import re
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent.parent / "scripts" / "bench"


@pytest.fixture(scope="module")
def bench():
    loader = importlib.machinery.SourceFileLoader("bench", str(BENCH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(bench):
    return [row for group in bench.groups.ALL for row in group.rows]


def test_names_are_unique_and_begin_with_their_group(bench, rows):
    names = [row.name for row in rows]
    assert len(set(names)) == len(names)
    for group in bench.groups.ALL:
        assert all(row.name.startswith(group.name + ".") for row in group.rows)


def test_each_row_says_in_a_sentence_what_it_measures(rows):
    for row in rows:
        assert re.fullmatch(r"[A-Z`.o-].*\.", row.says), row.name
        assert not row.says.startswith("The same"), row.name


def test_every_row_can_be_asked_for(bench, rows):
    assert bench.options(["--only", "latency", *(f"--only={row.name}" for row in rows)]).only


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--engine", "podman"], ["--size", "much"]])
def test_what_is_not_there_is_refused(bench, arguments):
    with pytest.raises(SystemExit):
        bench.options(arguments)


def test_quick_is_less_of_everything_unless_a_number_is_given(bench):
    full, quick = bench.options([]), bench.options(["--quick"])
    assert all(getattr(quick, name) < getattr(full, name) for name in bench.SCALE)
    assert bench.options(["--quick", "--idle", "400"]).idle == 400


@pytest.mark.parametrize("text, size", [("64m", 64 << 20), ("1G", 1 << 30), ("2k", 2048), ("7", 7)])
def test_sizes(bench, text, size):
    assert bench.size(text) == size
