"""Work that times itself, in real processes."""
import sys
from argparse import Namespace
from contextlib import closing

import compute
import numeric
import pytest
from work import Process, Work, compared

ARGS = Namespace(unit=0.01, turns=4)


@pytest.fixture
def places():
    with closing(Process([sys.executable])) as one, closing(Process([sys.executable])) as other:
        yield one, other


class Told:
    """A place that tells what it runs."""

    def __init__(self, place):
        self.place, self.texts = place, []

    def run(self, text):
        self.texts.append(text)
        return self.place.run(text)


def test_a_turn_does_the_work_so_often_that_it_lasts(places):
    told = Told(places[0])
    counting = Work("counting", "import time\ncalls = 0", "calls += 1\ntime.sleep(0.001)", "0")
    inside, outside = compared(told, places[1], counting, ARGS)
    assert told.texts.count(told.texts[-1]) == ARGS.turns
    repeated = int(told.texts[-1].split("range(")[1].split(")")[0])
    assert 1 < repeated <= 10
    assert places[0].run("0\ncalls") == 3 + ARGS.turns * repeated
    assert 0.001 <= inside < 0.001 * repeated and 0.001 <= outside


def test_work_that_lasts_longer_is_done_once(places):
    told = Told(places[0])
    compared(told, places[1], Work("long", "import time", "time.sleep(0.03)", "0"), ARGS)
    assert "range(1)" in told.texts[-1]


def test_what_is_not_the_same_work_is_no_figure(places):
    places[1].run("bias = 1\n0")
    biased = Work("biased", "bias = globals().get('bias', 0)", "result = bias")
    with pytest.raises(RuntimeError, match="biased comes to 0 in a cell and to 1 outside"):
        compared(*places, biased, ARGS)


def test_a_process_that_ended_says_so(places):
    with pytest.raises(RuntimeError, match="ended with status 3"):
        places[0].run("import os\nos._exit(3)")


@pytest.mark.parametrize("each", [*(described[-1] for described in compute.WORKS.values()), *compute.suite()],
                         ids=lambda each: each.name)
def test_work_comes_to_the_same_each_time(places, each):
    results = set()
    for place in places:
        place.run(each.setup + "\n0")
        results |= {repr(place.run(each.timed(count))[1]) for count in (1, 2)}
    assert len(results) == 1


def test_the_suite_has_programs_enough():
    assert len({each.name for each in compute.suite()}) >= 20


def test_names_are_unique():
    works = [*(described[-1] for described in compute.WORKS.values()), *compute.suite(), *numeric.WORKS]
    assert len({each.name for each in works}) == len(works)


def test_means():
    assert compute.mean([1, 4]) == pytest.approx(2)
    assert compute.mean_pair({"a": (1, 2), "b": (4, 8)}) == pytest.approx((2, 4))
    assert compute.ratio_of([(1, 2), (2, 1)]) == pytest.approx(1)
