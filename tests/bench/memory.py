"""What an idle session holds and does."""
import contextlib
import os
import time
from pathlib import Path

from figures import BYTES, Row, at_most, value_at_most
from runner import Group, LeftOut
from sessions import has_module, settled, value
from start import pool_with_image

GROUP = Group("memory", __doc__)
WATCHED = 5  # seconds
MANY, MANY_PANDAS = 4, 20
IDLE = 1  # second, after which the automatic checkpoint is there
CLOSE = 1 << 18  # bytes by which a sum of memory maps may still move when it counts as settled
PANDAS = "import numpy, pandas, matplotlib.pyplot; 0"


def namespace(pid):
    return os.readlink(f"/proc/{pid}/ns/pid")


class Inside:
    """The processes of the container of a session, which has been idle since."""

    def __init__(self, session):
        self.namespace = value(session, "import os; os.readlink('/proc/self/ns/pid')")
        if self.namespace == namespace("self"):
            raise LeftOut("the engine local has no container whose processes could be told apart")
        time.sleep(IDLE)

    def pids(self):
        """As this host numbers them."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if namespace(pid) == self.namespace:
                    found.append(int(pid))
        return found


def proportional(pids):
    """Their proportional set size: what is shared counts by its share."""
    total = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


def session_size(controller, code, count):
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(controller.session(f"bench-memory-{number}")) for number in range(count)]
        for session in sessions:
            value(session, code)
        inside = [Inside(session) for session in sessions]
        return settled(lambda: sum(proportional(each.pids()) for each in inside), CLOSE) / count


def kernel_size(bench, packages, code, count):
    with contextlib.ExitStack() as stack:
        kernels = [stack.enter_context(bench.kernel(*packages)) for _ in range(count)]
        for kernel in kernels:
            kernel.do("run", code)
        return settled(lambda: proportional([kernel.pid for kernel in kernels]), CLOSE) / count


def sizes(bench, packages, code, count=1, controller=None):
    """Of one of `count` that are there at the same time."""
    return [(session_size(controller or bench.main, code, count), kernel_size(bench, packages, code, count))
            for _ in range(bench.costly_rounds)]


@GROUP.case(
    Row("memory.bare", "Proportional memory of all processes of an idle session's container (supervisor, "
        "interpreter, its automatic checkpoint) after one call, to that of an ipykernel after the same.",
        at_most(1 / 10), unit=BYTES),
)
def bare(bench):
    return {"memory.bare": sizes(bench, (), "x = 1; x")}


@GROUP.case(
    Row("memory.many", f"Memory of one of {MANY} idle sessions, to that of one of {MANY} ipykernels: both share "
        "what is shared.", unit=BYTES),
)
def many(bench):
    bench.leave_out_of_quick()
    return {"memory.many": sizes(bench, (), "x = 1; x", MANY)}


@GROUP.case(
    Row("memory.pandas", f"Memory of one of {MANY_PANDAS} idle sessions of a controller that keeps containers ready, which have "
        f"NumPy, pandas and pyplot imported, to that of one of {MANY_PANDAS} ipykernels that have; pyarrow, which pandas "
        "imports, is there too. The versions are those of the image and of PyPI.", at_most(0.14), unit=BYTES),
)
def pandas(bench):
    bench.leave_out_of_quick()
    with bench.main.session("bench-probe") as session:
        if not has_module(session, "pandas"):
            raise LeftOut("the image has no pandas")
    with pool_with_image(bench) as ready:
        return {"memory.pandas": sizes(bench, ("pandas", "pyarrow", "matplotlib"), PANDAS, MANY_PANDAS, ready)}


def cpu_seconds(pids):
    """Time on a processor, of all their threads."""
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total * 1e-9


def watch(*groups):
    """What each group of processes takes meanwhile."""
    before = [cpu_seconds(pids) for pids in groups]
    time.sleep(WATCHED)
    return [cpu_seconds(pids) - was for pids, was in zip(groups, before)]


@GROUP.case(
    Row("memory.cpu.session", f"Processor time that all processes of an idle session take in {WATCHED} s.",
        value_at_most(0)),
    Row("memory.cpu.controller", f"Processor time that the controller of an idle session takes in {WATCHED} s.",
        value_at_most(0)),
)
def cpu(bench):
    with bench.main.session("bench-idle-cpu") as session:
        pids, controller = Inside(session).pids(), bench.main.pids()
        rounds = [watch(pids, controller) for _ in range(1 if bench.args.quick else bench.costly_rounds)]
    return {"memory.cpu.session": [(ours, None) for ours, _ in rounds],
            "memory.cpu.controller": [(theirs, None) for _, theirs in rounds]}
