"""Work inside a cell, timed from inside, against the same in the image's python3 in the same container."""
import math

from figures import Row, at_most
from runner import Group, Noted
from sessions import CELL, HERE
from work import Work, both, compared

GROUP = Group("compute", __doc__)
FLOOR = "to the same in a plain python3 in the same container, both timed from inside"
LOOP = "for i in range(100000):\n    total += i"
INDENTED = LOOP.replace("\n", "\n    ")
TEXT = CELL * 20
WORKS = {
    "loop.module": ("A loop over 100,000 numbers at the top level of a cell", 1.05,
                    Work("loop.module", "", f"total = 0\n{LOOP}", "total")),
    "loop.function": ("A loop over 100,000 numbers in a function", 1.05,
                      Work("loop.function", f"def work():\n    total = 0\n    {INDENTED}\n    return total")),
    "loop.generator": ("Joining 100,000 numbers as text from a generator", 1.05,
                       Work("loop.generator", "", 'text = "".join(str(i) for i in range(100000))', "len(text)")),
    "objects": ("Making 20,000 small objects and calling a method of each", 1.05, Work("objects", """
class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y

    def product(self):
        return self.x * self.y

def work():
    points = [Point(i, i + 1) for i in range(20000)]
    return sum(point.product() for point in points)
""")),
    "compile": ("`compile()` of a text of 420 lines", 1.05,
                Work("compile", f"text = {TEXT!r}", 'code = compile(text, "<text>", "exec")', "len(code.co_consts)")),
    "stat": ("Calling os.stat() 2,000 times", 1.1,
             Work("stat", "import os", 'for _ in range(2000):\n    os.stat("/usr/bin")', "0")),
}


def declare(name, says, limit, work):
    @GROUP.case(Row(f"compute.{name}", f"{says}, {FLOOR}.", at_most(limit)))
    def measure(bench):
        pairs = []
        for number in range(bench.costly_rounds):
            with both(bench, f"bench-compute-{number}") as places:
                pairs.append(compared(*places, work, bench.args))
        return {f"compute.{name}": pairs}


for each, described in WORKS.items():
    declare(each, *described)


def suite():
    """Each program of the directory."""
    return [Work(path.stem, path.read_text()) for path in sorted((HERE / "suite").glob("*.py"))]


def mean(values):
    values = list(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def ratio_of(pairs):
    return mean(inside / outside for inside, outside in pairs)


def suite_round(bench, works, number):
    """{name: (seconds inside, seconds outside)}."""
    with both(bench, f"bench-suite-{number}") as places:
        return {work.name: compared(*places, work, bench.args) for work in works}


def mean_pair(figures):
    return tuple(mean(side) for side in zip(*figures.values()))


@GROUP.case(
    Row("compute.suite", "Thirty small programs (schedulers, numbers, text, JSON, SQLite, objects and more), geometric "
        f"mean, {FLOOR}.", at_most(1.03)),
    Row("compute.suite.worst", f"The one of those programs with the largest ratio, {FLOOR}.", at_most(1.1)),
)
def programs(bench):
    works = suite()
    rounds = [suite_round(bench, works, number) for number in range(bench.costly_rounds)]
    pairs = {work.name: [figures[work.name] for figures in rounds] for work in works}
    order = sorted(pairs, key=lambda name: ratio_of(pairs[name]))
    bench.say("compute.suite: " + ", ".join(f"{name} {ratio_of(pairs[name]):.3f}" for name in order))
    return {
        "compute.suite": [mean_pair(figures) for figures in rounds],
        "compute.suite.worst": Noted(pairs[order[-1]], f"the program {order[-1]}"),
    }
