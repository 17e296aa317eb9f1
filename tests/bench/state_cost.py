"""What checkpoints cost the calls between them, and what memory they hold."""
import statistics
import time
from contextlib import ExitStack

from figures import BYTES, Row, at_most, percentile, seconds
from runner import Group, LeftOut
from sessions import HEAP, LINE, has_module, large_session, settled, value

GROUP = Group("state", __doc__)
MODES = {"auto": "auto", "off": "off", "chance": "off"}
TURNS, PAUSE = 10, 0.03  # of a block of calls
GAP = 0.02
STATISTICS = {"p50": statistics.median, "p99": lambda times: percentile(times, 0.99), "mean": statistics.fmean}
HOW = {"dense": (0, "back to back", at_most(1.03)), "gap": (GAP, "20 ms apart", at_most(1.1))}
SESSIONS = {"empty": "an empty session", "pandas": "a session with pandas imported"}
CLOSE = 1 << 16  # bytes by which what a container holds may still move when it counts as settled
PAGE = 4096
CHECKPOINTS = 8
SECOND = """
import subprocess
other = subprocess.Popen(["/usr/bin/python3", "-c", '''
{imports}
import heap
print(heap.status("Private_Clean") + heap.status("Private_Dirty"), flush=True)
input()'''], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
int(other.stdout.readline())
"""


def call(session, gap):
    if gap:
        time.sleep(gap)
    return seconds(session.run, LINE)


def block(sessions, calls, gap):
    """Times of calls `gap` seconds apart. The sessions take turns, so far from each other that what one does when
    it is idle falls into the time of none."""
    figures = [[] for _ in sessions]
    for _ in range(TURNS):
        for times, opened in zip(figures, sessions):
            time.sleep(PAUSE)
            times += [call(opened, gap) for _ in range(max(calls // TURNS, 1))]
    return figures


def rounds_of(bench, start, how):
    gap = HOW[how][0]
    calls = bench.args.gap_calls if gap else bench.args.calls
    with ExitStack() as stack:
        sessions = [stack.enter_context(large_session(bench.main, f"bench-cost-{number}", checkpoint=mode))
                    for number, mode in enumerate(MODES.values())]
        for opened in sessions:
            value(opened, f"{start}; x = 0; 0")
        block(sessions, calls // 4, gap)
        return [dict(zip(MODES, block(sessions, calls, gap))) for _ in range(bench.costly_rounds)]


def cost_rows(name, how):
    _, apart, target = HOW[how]
    for statistic in STATISTICS:
        yield Row(f"state.cost.{name}.{how}.{statistic}", f"Calls {apart} in {SESSIONS[name]} with automatic "
                  f"checkpoints, {statistic}, to the same without.", target)
        yield Row(f"state.cost.{name}.{how}.{statistic}.chance", "Another session without, to the same: how "
        "much is chance.")


def declare_cost(name, how):
    prefix = f"state.cost.{name}.{how}"

    @GROUP.case(*cost_rows(name, how))
    def measure(bench):
        if name == "pandas":
            bench.leave_out_of_quick()
        start = "pass" if name == "empty" else "import pandas"
        rounds = rounds_of(bench, start, how)
        figures = {}
        for statistic, of in STATISTICS.items():
            for subject, suffix in (("auto", ""), ("chance", ".chance")):
                figures[f"{prefix}.{statistic}{suffix}"] = [(of(r[subject]), of(r["off"])) for r in rounds]
        return figures


for each in SESSIONS:
    for way in HOW:
        declare_cost(each, way)


def memory_round(controller, opened, imports):
    """(private memory of a checkpoint, of a second interpreter), (what the container grows by, the same)."""
    def container():
        return controller.row(opened.name).memory

    before = settled(container, CLOSE)
    checkpoints = [opened.checkpoint() for _ in range(CHECKPOINTS)]
    grown = (settled(container, CLOSE) - before) / CHECKPOINTS
    ids = {c.id for c in checkpoints}
    private = statistics.median(c.private_bytes for c in opened.checkpoints() if c.id in ids)
    for checkpoint in checkpoints:
        opened.drop(checkpoint)
    before = settled(container, CLOSE)
    other = value(opened, SECOND.format(imports=imports))
    other_grown = settled(container, CLOSE) - before
    value(opened, "other.communicate(''); 0")
    return (private, other), (max(grown, PAGE), other_grown)


@GROUP.case(
    Row("state.memory.private", "Private memory of a checkpoint of an idle session with pandas, to that of a "
        "second interpreter with the same imports: how many times less.", unit=BYTES, times_less=True),
    Row("state.memory.growth", "What the container grows by with a checkpoint, to what it grows by with that "
        "interpreter: how many times less.", unit=BYTES, times_less=True),
)
def memory(bench):
    if bench.engine == "local":
        raise LeftOut("the engine local has no container, and so counts shared pages once for each process")
    with large_session(bench.main, "bench-checkpoints", checkpoint="off") as opened:
        imports = "import pandas" if has_module(opened, "pandas") else "import decimal, json, email, http.client"
        opened.put(HEAP, "heap.py")
        value(opened, f"{imports}; 0")
        memory_round(bench.main, opened, imports)
        private, grown = zip(*(memory_round(bench.main, opened, imports) for _ in range(bench.costly_rounds)))
    if any(held <= 0 for held, _ in private):
        private = LeftOut("private_bytes of a checkpoint is 0: it cannot be measured here")
    return {"state.memory.private": private, "state.memory.growth": grown}
