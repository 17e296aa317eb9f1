"""Checkpoint, rollback and loss of the interpreter with a large heap, each against the plain way to the same end."""
import statistics
import time

from figures import Row, at_least, at_most, seconds, value_at_most
from runner import Group
from sessions import HEAP, SETTLE, TRANSPORT, Helper, ended, fill, large_session, nothing, value

GROUP = Group("state", __doc__)
WHAT = {"objects": "--size bytes of small objects", "arrays": "--size bytes in arrays of 1 MB",
        "array": "--size bytes in one array"}
PICKLE = {"objects": at_least(1000)}
FORK = {"objects": at_most(0.3), "arrays": at_most(1.1)}
MILLISECOND, MICROSECOND = 1e-3, 1e-6
LOOP, DEADLINE = "sum(range(10**12))", 0.5


def checkpoint_and_drop(session):
    start = time.perf_counter()
    checkpoint = session.checkpoint()
    took = time.perf_counter() - start
    session.drop(checkpoint)
    time.sleep(SETTLE)
    return took


def checkpoint_after_touch(session):
    """Of data every object of which was written to since the checkpoint before."""
    before = session.checkpoint()
    value(session, "heap.touch(data); 0")
    session.drop(before)
    time.sleep(SETTLE)
    return checkpoint_and_drop(session)


def rollback(session, checkpoint):
    """Seconds of a rollback and of the call after it, which must see the old state."""
    value(session, "marker = 'after'; 0")
    time.sleep(SETTLE)
    took = seconds(session.rollback, checkpoint)
    first = seconds(session.run, TRANSPORT)
    if value(session, "marker") != "before":
        raise RuntimeError("the rollback did not bring the old state back")
    time.sleep(SETTLE)
    return took, first


def beyond(transport, times):
    """What is left of their median without the transport, of which chance can make more than there is."""
    return max(statistics.median(times) - transport, MICROSECOND)


def heap_round(session, floor, every):
    """One round of everything that is measured on a large heap: seconds by name."""
    transport = nothing(session)
    forks = floor.ask(every)
    checkpoints = [checkpoint_and_drop(session) for _ in range(every)]
    forks += floor.ask(every)
    value(session, "marker = 'before'; 0")
    kept = session.checkpoint()
    backs, firsts = zip(*(rollback(session, kept) for _ in range(every)))
    session.drop(kept)
    time.sleep(SETTLE)
    return {
        "fork": statistics.median(forks),
        "checkpoint": beyond(transport, checkpoints),
        "rollback": beyond(transport, backs),
        "first": beyond(transport, firsts),
        "pickle": value(session, "heap.pickling(data)") * 1e-9,
    }


def touched_round(session, floor, every):
    """The same for a checkpoint of data that was written to: what copies then stays on small pages."""
    touched = [checkpoint_after_touch(session)]
    return {"fork": statistics.median(floor.ask(every)), "touched": beyond(nothing(session), touched)}


def heap(bench, kind):
    """Rounds, and rounds after everything was written to."""
    options = {"checkpoint": "off"}
    with large_session(bench.main, f"bench-{kind}", **options) as subject, \
            large_session(bench.main, f"bench-{kind}-floor", **options) as plain:
        fill(subject, kind, bench.args.size)
        floor = Helper(plain, HEAP, kind, bench.args.size)
        huge = [value(subject, "heap.on_huge_pages()")]
        rounds = [heap_round(subject, floor, bench.every) for _ in range(bench.costly_rounds)]
        huge.append(value(subject, "heap.on_huge_pages()"))
        touched = [touched_round(subject, floor, bench.every) for _ in range(bench.costly_rounds)]
        huge.append(value(subject, "heap.on_huge_pages()"))
    bench.say(f"state.{kind}: on huge pages {huge[0]:.0%}, {huge[1]:.0%} after the rounds, {huge[2]:.0%} after all was "
              "written to while a checkpoint was held")
    return rounds, touched


def heap_rows(kind):
    what = WHAT[kind]
    return (
        Row(f"state.{kind}.pickle", f"A checkpoint of {what}, less a call that does nothing, to pickle.dumps() of "
            "them: how many times less.", PICKLE.get(kind), times_less=True, at_full_size=True),
        Row(f"state.{kind}.fork", f"A checkpoint of {what} to fork() of a process that has them on pages of 4 KiB.",
            FORK.get(kind), at_full_size=True),
        Row(f"state.{kind}.touched", f"A checkpoint of {what} that were all written to while another was held, to "
            "that fork()."),
        Row(f"state.{kind}.rollback", f"A rollback to a checkpoint of {what} to fork(); held to an absolute time.",
            value_at_most(10 * MILLISECOND)),
        Row(f"state.{kind}.first_call", "The first call after a rollback, less one that does nothing, to fork()."),
    )


def declare_heap(kind):
    @GROUP.case(*heap_rows(kind))
    def measure(bench):
        rounds, touched = heap(bench, kind)

        def pairs(subject, floor, of=rounds):
            return [(r[subject], r[floor]) for r in of]

        return {
            f"state.{kind}.pickle": pairs("checkpoint", "pickle"),
            f"state.{kind}.fork": pairs("checkpoint", "fork"),
            f"state.{kind}.touched": pairs("touched", "fork", touched),
            f"state.{kind}.rollback": pairs("rollback", "fork"),
            f"state.{kind}.first_call": pairs("first", "fork"),
        }


for each in WHAT:
    declare_heap(each)


def beyond_an_error(session, state):
    """Seconds that the reply to a cell that ends the interpreter takes longer than that to an ordinary error."""
    error = ended(session, "1 / 0", "error", "kept")
    return ended(session, "import os; os._exit(3)", "exited", state) - error


@GROUP.case(
    Row("state.kill.stuck", f"A cell that heeds no interrupt, {WHAT['objects']} kept: from its deadline to the "
        "reply, to the same where all is lost; held to an absolute time.", value_at_most(2.1)),
    Row("state.kill.exit", f"os._exit() in a cell, {WHAT['objects']} kept: what the reply takes longer than that "
        "to an error, to the same where all is lost; held to an absolute time.", value_at_most(10 * MILLISECOND)),
)
def kill(bench):
    stuck, gone = [], []
    with large_session(bench.main, "bench-kill", checkpoint="auto") as subject, \
            large_session(bench.main, "bench-kill-floor", checkpoint="off") as plain:
        fill(subject, "objects", bench.args.size)
        for _ in range(bench.costly_rounds):
            stuck.append((ended(subject, LOOP, "timeout", "rolled_back", DEADLINE) - DEADLINE,
                          ended(plain, LOOP, "timeout", "lost", DEADLINE) - DEADLINE))
            pairs = [(beyond_an_error(subject, "rolled_back"), beyond_an_error(plain, "lost"))
                     for _ in range(bench.every)]
            gone.append(tuple(beyond(0, side) for side in zip(*pairs)))
            if not value(subject, "len(data)"):
                raise RuntimeError("the data did not come back")
    return {"state.kill.stuck": stuck, "state.kill.exit": gone}
