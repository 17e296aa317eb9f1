"""Work of NumPy, pandas and scikit-learn inside a cell, against the same outside of it, in the container and on the host."""
import statistics
from contextlib import ExitStack, closing

from compute import FLOOR, mean_pair
from figures import Row, at_most
from hardening import in_image
from plain import PYTHON
from runner import Group, LeftOut
from sessions import has_module, value
from work import Outside, Inside, Process, Work, compared

GROUP = Group("compute", __doc__)
ARRAYS = "import numpy\nmade = numpy.random.default_rng(1)\n"
FRAMES = ARRAYS + """import pandas
many, few = 200000, 5000
left = pandas.DataFrame({"key": made.integers(0, few, many), "value": made.random(many)})
right = pandas.DataFrame({"key": numpy.arange(few), "weight": made.random(few)})
"""
WORKS = [
    Work("matmul", ARRAYS + "a = made.random((600, 600))", "b = a @ a", "b.shape"),
    Work("svd", ARRAYS + "a = made.random((150, 150))", "b = numpy.linalg.svd(a)", "len(b)"),
    Work("fft", ARRAYS + "a = made.random(1 << 18)", "b = numpy.fft.rfft(a)", "b.shape"),
    Work("groupby", FRAMES, 'b = left.groupby("key").value.agg(["mean", "max"])', "b.shape"),
    Work("merge", FRAMES, 'b = left.merge(right, on="key")', "b.shape"),
    Work("fit", ARRAYS + "from sklearn.linear_model import LogisticRegression\n"
         "a = made.random((4000, 20))\ny = (a.sum(axis=1) > 10).astype(int)",
         "b = LogisticRegression().fit(a, y)", "b.coef_.shape"),
]
MODULES = "numpy", "pandas", "sklearn"
MEMORY = "2g"


def numeric_session(bench, stack, cpus):
    session = stack.enter_context(bench.main.session(f"bench-numeric-{cpus}", cpus=cpus, memory=MEMORY))
    missing = [module for module in MODULES if not has_module(session, module)]
    if missing:
        raise LeftOut(f"the image has no {' and no '.join(missing)}")
    return session


def rounds_of(bench, cpus, place):
    """Pairs, geometric means over the works; `place` makes the floor of a session, for the stack to end."""
    rounds = []
    for _ in range(bench.costly_rounds):
        with ExitStack() as stack:
            session = numeric_session(bench, stack, cpus)
            places = Inside(session), place(session, stack)
            rounds.append({work.name: compared(*places, work, bench.args) for work in WORKS})
    ratios = {work.name: statistics.median(pairs[0] / pairs[1] for pairs in (r[work.name] for r in rounds))
              for work in WORKS}
    bench.say(", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items()))
    return [mean_pair(figures) for figures in rounds]


def declare(name, cpus):
    @GROUP.case(Row(f"compute.numeric.{name}", "Matrix product, SVD, FFT, groupby, merge and a fit of scikit-learn in a "
                    f"session of {cpus} processor{'s' * (cpus > 1)}, geometric mean, {FLOOR}.", at_most(1.03)))
    def measure(bench):
        return {f"compute.numeric.{name}": rounds_of(bench, cpus, lambda session, stack: Outside(session))}


for each, number in {"one": 1, "two": 2}.items():
    declare(each, number)


@GROUP.case(Row("compute.numeric.host", "Those works in a session of 2 processors, geometric mean, to the image's "
                "python3 with as many threads as a process of the host.", at_most(1.1)))
def host(bench):
    bench.leave_out_of_quick()
    if bench.engine != "oci":
        raise LeftOut("belongs to --engine oci")

    def place(session, stack):
        env = value(session, "import os\n[f'{name}={text}' for name, text in os.environ.items()]")
        return stack.enter_context(closing(Process(in_image(bench, "/usr/bin/env", "-i", *env, PYTHON))))

    return {"compute.numeric.host": rounds_of(bench, 2, place)}
