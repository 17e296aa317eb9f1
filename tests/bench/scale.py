"""Sessions with pandas in great numbers: resident together, asleep, and woken at once."""
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from controller import POLL
from figures import BYTES, Row, at_most, seconds, value_at_most
from load import available_memory
from memory import proportional
from programs import at, interleaved
from runner import Group, LeftOut
from sessions import LINE, has_module, value
from start import AT_ONCE, pool_with_image

GROUP = Group("scale", __doc__)
FEW, WAKING = 10, 50
ASLEEP = 200  # the memory of each takes 75 MB of disk
GONE = 600  # seconds, in which the containers of all are removed
FRAME = "import numpy, pandas; x = 0; frame = pandas.DataFrame({'a': numpy.arange(1000) % 7, 'b': numpy.arange(1000)}); 0"
IS_THERE = "x >= 0 and int(frame.b.sum()) == 499500"


def at_once(count, work, items):
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(work, items))


class Crowd:
    """Sessions of one controller, each with a small frame."""

    def __init__(self, controller, count):
        self.controller = controller
        self.sessions = at_once(AT_ONCE, self.open, range(count))

    def open(self, number):
        session = self.controller.client.open(f"crowd-{number}")
        value(session, FRAME)
        return session

    def block(self, count, gap=0.0):
        """Seconds of so many calls, each in a session that is drawn by lot."""
        return [seconds(session.run, LINE) for session in random.choices(self.sessions, k=count)]

    def sleep(self):
        """Until no container is left but spares."""
        at_once(AT_ONCE, lambda session: session.sleep(), self.sessions)
        end = time.monotonic() + GONE
        while len(list(self.controller.runtime.glob("*/bundles/*"))) > (self.controller.spares() or 0):
            if time.monotonic() > end:
                raise RuntimeError(f"containers of sessions asleep were there for {GONE} s: {self.controller.said()}")
            time.sleep(POLL)

    def wake(self, count):
        """Seconds until the last of so many sessions asleep, asked at once, has answered; they sleep again."""
        chosen = random.sample(self.sessions, count)
        start = time.perf_counter()
        answers = at_once(count, lambda session: session.run(IS_THERE), chosen)
        took = time.perf_counter() - start
        for answer in answers:
            if (answer.result, answer.state, answer.restored) != ("True", "kept", []):
                raise RuntimeError(f"a session woke as something else: {answer}")
        self.sleep()
        return took

    def close(self, but=0):
        """All but so many."""
        closed, self.sessions = self.sessions[but:], self.sessions[:but]
        at_once(AT_ONCE, lambda session: session.close(), closed)


@contextmanager
def crowd(bench, count):
    with pool_with_image(bench, LIMPET_MAX_SESSIONS=str(count + FEW), LIMPET_KEEP_SIZE="0") as controller:
        made = Crowd(controller, count)
        try:
            yield made
        finally:
            made.close()


@GROUP.case(
    Row("scale.resident.p99", f"One call in one of --sessions sessions with pandas and a small frame that are resident together, each "
        f"time another, to one in {FEW} such sessions of another controller, 99th percentiles.", at_most(1.5)),
    Row("scale.resident.p50", "One call in one of --sessions sessions with pandas to one in "
        f"{FEW}, medians."),
    Row("scale.resident.memory", "Memory that the machine lacks while those are there, each.", value_at_most(12 << 20), unit=BYTES),
    Row("scale.asleep", f"Memory of all processes of a controller with {ASLEEP} sessions that sleep, to that of one with {FEW} awake.", unit=BYTES),
    Row("scale.waking", f"Until the last of {WAKING} of those, asked at once, has answered with its frame.", value_at_most(3)),
    long=True,
)
def scale(bench):
    with bench.main.session("bench-probe") as session:
        if not has_module(session, "pandas"):
            raise LeftOut("the image has no pandas")
    with crowd(bench, FEW) as few:
        before = available_memory()
        with crowd(bench, bench.args.sessions) as many:
            resident = (before - available_memory()) / bench.args.sessions
            rounds = list(interleaved(few, many, bench.rounds, bench.args.calls))
            many.close(but=ASLEEP)
            many.sleep()
            asleep = [proportional(each.controller.pids()) for each in (many, few)]
            waking = [(many.wake(min(WAKING, len(many.sessions))), None) for _ in range(bench.costly_rounds)]
    return {"scale.resident.p99": at(0.99, rounds), "scale.resident.p50": at(0.5, rounds), "scale.resident.memory": [(resident, None)],
            "scale.asleep": [tuple(asleep)], "scale.waking": waking}
