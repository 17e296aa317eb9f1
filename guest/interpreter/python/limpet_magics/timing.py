"""``%time`` and ``%timeit``."""

import resource
import time

from limpet_magics import code
from limpet_magics.options import UsageError, leading, number

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
LONG_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
RUNS = 7


def duration(seconds):
    """In a unit that suits it: ``1.23 µs``, ``2min 5s``."""
    if seconds >= 60:
        return " ".join(long_parts(int(seconds)))
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def long_parts(seconds):
    for size, unit in LONG_UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            yield f"{count}{unit}"


def clocks():
    """Seconds so far: on the wall, of the processor in Python and its children, and of the system for them."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(each.ru_utime for each in usages), sum(each.ru_stime for each in usages)


class Clock:
    """Tells how long its `with` took, however that ended."""

    def __enter__(self):
        self.begin = clocks()

    def __exit__(self, *unused):
        wall, user, system = (now - before for now, before in zip(clocks(), self.begin))
        print(f"CPU times: user {duration(user)}, sys: {duration(system)}, total: {duration(user + system)}")
        print(f"Wall time: {duration(wall)}")


def time_line(frame, text):
    with Clock():
        return code.run(frame, text, "<%time>")


def time_cell(frame, text, body):
    if text.strip():
        raise UsageError("%%time takes nothing in its own line; %time has its statement there")
    with Clock():
        return code.run_below(frame, "%%time", body)


class TimeitResult:
    """What %timeit found: the seconds of each of several runs of so many loops."""

    def __init__(self, loops, all_runs):
        self.loops = loops
        self.all_runs = all_runs
        self.timings = [run / loops for run in all_runs]
        self.best, self.worst = min(self.timings), max(self.timings)
        self.average = sum(self.timings) / len(self.timings)
        self.stdev = (sum((each - self.average) ** 2 for each in self.timings) / len(self.timings)) ** 0.5

    def __str__(self):
        runs, loops = len(self.timings), self.loops
        return (
            f"{duration(self.average)} ± {duration(self.stdev)} per loop (mean ± std. dev. of "
            f"{runs} run{'s' * (runs != 1)}, {loops:,} loop{'s' * (loops != 1)} each)"
        )

    def __repr__(self):
        return f"<TimeitResult : {self}>"


def timeit_line(frame, text):
    options, statement = leading(text, "qo", "nr")
    return timeit(frame, options, statement, "pass")


def timeit_cell(frame, text, body):
    """Its own line is run once, before what is below it is run many times."""
    options, setup = leading(text, "qo", "nr")
    return timeit(frame, options, body, setup or "pass")


def timeit(frame, options, statement, setup):
    import timeit

    if not statement.strip():
        raise UsageError("%timeit needs a statement")
    timer = timeit.Timer(statement, setup, globals={**frame.f_globals, **frame.f_locals})
    loops = number(options, "n", 0) or timer.autorange()[0]
    found = TimeitResult(loops, timer.repeat(max(1, number(options, "r", RUNS)), loops))
    if "q" not in options:
        print(found)
    return found if "o" in options else None
