"""Sessions whose live memory goes through a file: asleep, woken, forked, begun with a memory image."""
import statistics
import time
from contextlib import ExitStack, contextmanager

from controller import POLL
from figures import Row, seconds, value_at_most
from runner import Group, LeftOut
from sessions import fill, has_module, large_session, value
from start import PANDAS, first_answer, pool, pool_with_image

GROUP = Group("sleep", __doc__)
NAME = "bench-sleep"
FILES = 10  # of a megabyte
MAKE_FILES = f"for n in range({FILES}): open(f'file-{{n}}', 'wb').write(os.urandom(10**6))\n0"
FORKS = 4
GONE = 60  # seconds, in which a container that is not needed any more is removed

STATE = """
import os, pickle, sqlite3, time, numpy, pandas
frame = pandas.DataFrame({"a": numpy.arange(6_500_000) % 7, "b": numpy.arange(6_500_000)})
model = numpy.polynomial.Polynomial.fit(frame.a[:1000], frame.b[:1000], 2)
numbers = (n for n in range(10**9)); turns = 0
database = sqlite3.connect(":memory:"); database.execute("create table t as select 41 as x")
"""
IS_THERE = ("turns += 1; next(numbers) == turns - 1 and bool(frame.b.sum() > 0 and model(1) != 0) and "
            "database.execute('select x from t').fetchone() == (41,)")
DUMP = """
def dump(value):
    import os, pickle, time
    start = time.perf_counter()
    with open("dumped", "wb") as file: pickle.dump(value, file, pickle.HIGHEST_PROTOCOL)
    took = time.perf_counter() - start
    os.unlink("dumped")
    return took
dump({})
"""


def require_pandas(session):
    if not has_module(session, "pandas"):
        raise LeftOut("the image has no pandas")


@contextmanager
def with_pandas(controller):
    with large_session(controller, NAME, disk="2g") as session:
        require_pandas(session)
        value(session, STATE + "0")
        yield session


def answered(session, code):
    """Seconds of a call that must see everything."""
    start = time.perf_counter()
    result = session.run(code)
    took = time.perf_counter() - start
    if result.result != "True" or result.restored:
        raise RuntimeError(f"not everything came back: {result.result}, {result.error}, {result.restored}")
    return took


def wait_gone(bench):
    """Until the container is, in which the variables are pickled first."""
    end = time.monotonic() + GONE
    while any(bench.main.runtime.glob("*/bundles/*")):
        if time.monotonic() > end:
            raise RuntimeError(f"the container of a session asleep was there for {GONE} s")
        time.sleep(POLL)


def sleeps(bench, session, code, what):
    """Pairs of falling asleep and writing the same by pickle, and of waking and opening a session."""
    asleep, woken = [], []
    for _ in range(bench.costly_rounds):
        dumped = value(session, DUMP.format(what))
        asleep.append((seconds(session.sleep), dumped))
        wait_gone(bench)
        woken.append((answered(session, code), first_answer(bench.main, "bench-cold")))
    return asleep, woken


@GROUP.case(
    Row("sleep.pandas", "Saving a session with pandas, a frame of 100 MB, a fitted model, a generator and an SQLite connection, "
        "to pickle.dump() of the frame; held to an absolute time.", value_at_most(0.4)),
    Row("sleep.pandas.wake", "A call that wakes that session and uses all of it, to opening a session without a pool and its "
        "first call; held to an absolute time.", value_at_most(0.11)),
)
def asleep_with_pandas(bench):
    with with_pandas(bench.main) as session:
        asleep, woken = sleeps(bench, session, IS_THERE, "frame")
    return {"sleep.pandas": asleep, "sleep.pandas.wake": woken}


@GROUP.case(
    Row("sleep.objects", "Saving a session with --size bytes of small objects, to pickle.dump() of them; held to an absolute "
        "time.", value_at_most(1.5), at_full_size=True),
    Row("sleep.objects.wake", "A call that wakes that session and uses one of them, to opening a session without a pool and its "
        "first call; held to an absolute time.", value_at_most(0.12), at_full_size=True),
)
def asleep_with_objects(bench):
    with large_session(bench.main, NAME, disk="8g") as session:
        fill(session, "objects", bench.args.size)
        asleep, woken = sleeps(bench, session, "data[-1] is not None", "data")
    return {"sleep.objects": asleep, "sleep.objects.wake": woken}


def forked(session, count=1):
    """Seconds until each of so many forks of one state has answered a call."""
    start = time.perf_counter()
    forks = session.fork(count)
    for fork in forks:
        answered(fork, IS_THERE)
    took = time.perf_counter() - start
    for fork in forks:
        fork.close()
    return took


@GROUP.case(
    Row("sleep.fork", f"Forking the session with pandas and {FILES} MB of files into a container of its own, and a call there that "
        "uses all of it, to opening a session without a pool and its first call; held to an absolute time.", value_at_most(0.15)),
)
def fork(bench):
    with with_pandas(bench.main) as session:
        value(session, MAKE_FILES)
        return {"sleep.fork": [(statistics.median(forked(session) for _ in range(bench.every)), first_answer(bench.main, "bench-cold"))
                               for _ in range(bench.costly_rounds)]}


@GROUP.case(
    Row("sleep.fork.more", f"Forking that session into {FORKS} containers of the pool, and a call in each that uses all of it: how much longer "
        "it takes for each than into one, to opening a session without a pool and its first call; held to an absolute time.", value_at_most(0.03)),
)
def more_forks(bench):
    with pool(bench, LIMPET_POOL=str(FORKS)) as ready, with_pandas(ready) as session:
        def from_pool(count):
            ready.wait_for_spares(2 * FORKS)  # of the standard kind as well
            return forked(session, count)

        value(session, MAKE_FILES)
        return {"sleep.fork.more": [((from_pool(FORKS) - from_pool(1)) / (FORKS - 1), first_answer(bench.main, "bench-cold"))
                                    for _ in range(bench.costly_rounds)]}


@GROUP.case(
    Row("sleep.image", "Opening a session for which no container is ready, of a kind that has a memory image, and a first cell that "
        "uses pandas, to opening one without and that cell; held to an absolute time.", value_at_most(0.075)),
)
def image(bench):
    def without_spare(ready):
        """The pool, which keeps more where more are taken, makes the next ones meanwhile, as it does wherever none is ready."""
        ready.wait_for_spares(1)
        with ExitStack() as stack:
            while ready.spares():
                stack.enter_context(ready.session(f"bench-first-{len(ready.client.sessions())}"))
            return first_answer(ready, "bench-image", PANDAS)

    with bench.main.session(NAME) as session:
        require_pandas(session)
    with pool_with_image(bench) as ready:
        return {"sleep.image": [(without_spare(ready), first_answer(bench.main, "bench-cold", PANDAS)) for _ in range(bench.costly_rounds)]}
