"""``%time`` and ``%%time``: unlike IPython's they may await, and their errors show the lines of the cell."""

import resource
import time

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
LONG_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


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
