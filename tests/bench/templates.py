"""Sessions that begin from a template."""
import os
import statistics

from figures import Row, at_most
from runner import Group
from start import POOL, first_answer, pool
from tests.support import index as indexes

GROUP = Group("template", __doc__)
NAME = "bench"
SECONDS = 5  # of setup code
SETUP = f"import time; time.sleep({SECONDS}); table = list(range(1_000_000))"
FILES = 1000
PACKAGES = [f"large{number}" for number in range(10)]
PACKAGE_SIZE = 30 << 20  # bytes, so that all are about 300 MB


def files(bench):
    """A directory of many small files, which are in each session."""
    directory = bench.scratch / "template"
    directory.mkdir(exist_ok=True)
    for number in range(FILES):
        (directory / f"{number}.txt").write_text(str(number) * 100)
    return directory


def opened(bench, controller, **options):
    """Median seconds of first answers, each time with one container ready of each sort."""
    times = []
    for _ in range(bench.every):
        controller.wait_for_spares(2 * POOL)
        times.append(first_answer(controller, "bench-claim", **options))
    return statistics.median(times)


@GROUP.case(
    Row("template.open", f"Opening a session of a template with {SECONDS} s of setup code and {FILES} files, and its first call, "
        "to the same of a session without a template, both from the pool.", at_most(2)),
)
def from_template(bench):
    with pool(bench) as ready:
        ready.client.template(NAME, files=files(bench), setup=SETUP)
        return {"template.open": [(opened(bench, ready, template=NAME), opened(bench, ready))
                                  for _ in range(bench.costly_rounds)]}


def add_packages(index):
    for name in PACKAGES:
        index.add(name, files={f"{name}/__init__.py": "", f"{name}/data": os.urandom(PACKAGE_SIZE)})


@GROUP.case(
    Row("template.packages", f"Opening a session of a template with {SECONDS} s of setup code and {len(PACKAGES) * PACKAGE_SIZE >> 20} MiB of "
        "packages that it imports, and its first call, to the same of a session without a template, both from the pool.", at_most(2)),
)
def with_packages(bench):
    bench.leave_out_of_quick()
    with indexes.serving() as index, pool(bench, LIMPET_PACKAGE_INDEX=f"{index.url}/simple") as ready:
        add_packages(index)
        ready.client.template(NAME, packages=PACKAGES, setup=f"import {', '.join(PACKAGES)}; {SETUP}")
        return {"template.packages": [(opened(bench, ready, template=NAME), opened(bench, ready))
                                      for _ in range(bench.costly_rounds)]}
