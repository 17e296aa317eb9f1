"""From nothing to the first answer: containers kept ready, cold ones, a reset, and many at once."""
import asyncio
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from controller import FILL, POLL
from figures import Row, at_most
from plain import PYTHON, plain
from runner import Group, LeftOut
from sessions import has_module, settled, value

GROUP = Group("start", __doc__)
POOL = 1  # the default
PAUSE = 2  # seconds in which a container would have become ready while more are being made
STARTS = 3
AT_ONCE = 4  # plain containers started at the same time: what brings the most on few cores
FIRST = "x = 0"
IMPORTS = ("numpy", "pandas", "matplotlib.pyplot")  # the default of the option of that name
PANDAS = "import pandas; float(pandas.DataFrame({'a': [1, 2, 3], 'b': [4, 5, 6]}).groupby('a').b.mean().sum())"
RESET = "import sys; [name for name in " + repr(IMPORTS) + " if name not in sys.modules]"


def first_answer(controller, name, code=FIRST, **options):
    """Seconds until a session that was not there has answered its first call; it is closed again."""
    start = time.perf_counter()
    opened = controller.client.open(name, **options)
    result = opened.run(code)
    took = time.perf_counter() - start
    opened.close()
    if result.status != "ok":
        raise RuntimeError(f"the first call of {name} ended as {result.status}: {result.error}")
    return took


def claims(bench, controller, code=FIRST, **options):
    """Median seconds of first answers of sessions that come from the pool, each time a full one."""
    times = []
    for _ in range(bench.every):
        controller.wait_for_spares(POOL)
        times.append(first_answer(controller, "bench-claim", code, **options))
    controller.wait_for_spares(POOL)  # what is measured next has the machine for itself
    return statistics.median(times)


def pool(bench, **variables):
    """A controller that keeps containers ready, with these LIMPET_ variables besides."""
    return bench.controller(**{"LIMPET_POOL": str(POOL), **variables})


@contextmanager
def pool_with_image(bench, **variables):
    """A pool whose kind has the memory of its imports as a file, which later containers map."""
    with pool(bench, LIMPET_LOG_LEVEL="info", **variables) as ready:
        end = time.monotonic() + FILL
        while "memory shared" not in ready.limpetd.said():
            if time.monotonic() > end:
                raise LeftOut(f"no memory image was made within {FILL} s")
            time.sleep(POLL)
        yield ready


def pool_against_cold(bench, **options):
    with pool(bench) as ready:
        return [(claims(bench, ready, **options), first_answer(bench.main, "bench-cold", **options))
                for _ in range(bench.costly_rounds)]


@GROUP.case(
    Row("start.pool", "Opening a session from the pool and its first call, to creating and starting its container "
        "and the first call.", at_most(1 / 60)),
)
def from_pool(bench):
    return {"start.pool": pool_against_cold(bench)}


@GROUP.case(
    Row("start.pool.data", "Opening a session with a host directory of its own as /data from the pool and its "
        "first call, to the same without a pool.", at_most(1 / 100)),
)
def from_pool_with_data(bench):
    data = bench.scratch / "data"
    data.mkdir(exist_ok=True)
    return {"start.pool.data": pool_against_cold(bench, data=str(data))}


@GROUP.case(
    Row("start.pool.pandas", "Opening a session from the pool and a first cell that uses pandas, to the same cell, "
        "its import included, as the first call of a session without a pool that is open already.", at_most(1 / 100)),
)
def pandas_from_pool(bench):
    def imported():
        with bench.main.session("bench-import") as session:
            if not has_module(session, "pandas"):
                raise LeftOut("the image has no pandas")
            start = time.perf_counter()
            value(session, PANDAS)
            return time.perf_counter() - start

    with pool(bench) as ready:
        rounds = [(imported(), claims(bench, ready, PANDAS)) for _ in range(bench.costly_rounds)]
    return {"start.pool.pandas": [(claimed, cold_one) for cold_one, claimed in rounds]}


@GROUP.case(
    Row("start.cold", "Opening a session without a pool until its first call is answered, to creating and starting "
        "a container of the same description that runs sleep.", at_most(1.3)),
)
def cold(bench):
    pairs = []
    with bench.main.session("bench-template") as session:
        containers = plain(bench, bench.main, session.name)

        def plain_start():
            try:
                return containers.start("bench-plain")
            finally:
                containers.remove("bench-plain")

        for _ in range(bench.costly_rounds):
            starts, answers = [], []
            for _ in range(STARTS):
                starts.append(plain_start())
                answers.append(first_answer(bench.main, "bench-cold"))
            pairs.append((statistics.median(answers), statistics.median(starts)))
    return {"start.cold": pairs}


@GROUP.case(
    Row("start.reset", "Resetting a session that came from the pool until a call is answered, to starting Python "
        f"with the same imports ({', '.join(IMPORTS)}) in the same container.", at_most(1 / 50)),
)
def reset(bench):
    python = [PYTHON, "-c", f"import {', '.join(IMPORTS)}"]
    timing = (f"import subprocess, time; start = time.perf_counter(); subprocess.run({python!r}, check=True); "
              "time.perf_counter() - start")

    def round_of(session, other):
        times = []
        for _ in range(bench.every):
            session.run("x = 1")
            start = time.perf_counter()
            session.reset()
            session.run(FIRST)
            times.append(time.perf_counter() - start)
        missing = value(session, RESET)
        if missing:
            raise LeftOut(f"a session from this pool has not imported {', '.join(missing)} after a reset")
        return statistics.median(times), value(other, timing)

    with pool(bench) as ready, ExitStack() as stack:
        ready.wait_for_spares(POOL)
        session, other = (stack.enter_context(ready.session(name)) for name in ("bench-reset", "bench-reset-floor"))
        ready.wait_for_spares(POOL)
        return {"start.reset": [round_of(session, other) for _ in range(bench.costly_rounds)]}


def burst(controller, count):
    """Seconds until the last of `count` sessions, asked for at once, is ready; they are closed again."""
    async def open_all():
        async with controller.async_client() as client:
            start = time.perf_counter()
            opened = await asyncio.gather(*(client.open(f"burst-{number}") for number in range(count)))
            took = time.perf_counter() - start
            for first in range(0, count, AT_ONCE):
                await asyncio.gather(*(session.close() for session in opened[first:first + AT_ONCE]))
            return took

    return asyncio.run(open_all())


def plain_burst(containers, count):
    names = [f"burst-plain-{number}" for number in range(count)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        try:
            start = time.perf_counter()
            list(threads.map(containers.start, names))
            return time.perf_counter() - start
        finally:
            list(threads.map(containers.remove, names))


def bursts(bench, controller, spares):
    count, pairs = bench.args.burst, []
    with bench.main.session("bench-template") as session:
        containers = plain(bench, bench.main, session.name)
        for _ in range(bench.costly_rounds):
            controller.wait_for_spares(spares)
            took = burst(controller, count)
            if spares:
                settled(controller.spares, 1, PAUSE)
            pairs.append((took, plain_burst(containers, count)))
    return pairs


@GROUP.case(
    Row("start.burst", "Until the last of --burst sessions asked for at once is ready, without a pool, to as many "
        f"plain containers created and started, {AT_ONCE} at a time.", at_most(1.2)),
)
def burst_cold(bench):
    return {"start.burst": bursts(bench, bench.main, 0)}


@GROUP.case(
    Row("start.burst.pool", f"Until the last of --burst sessions is ready from a controller that keeps {POOL} "
        "ready and makes more meanwhile, to those plain containers.", at_most(1.1)),
)
def burst_pool(bench):
    bench.leave_out_of_quick()
    with pool(bench) as ready:
        return {"start.burst.pool": bursts(bench, ready, POOL)}
