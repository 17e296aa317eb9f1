"""The same ends with a Jupyter kernel on the host, as far as it has a way to them: a restart, and pickling."""
import time

from figures import Row, seconds
from runner import Group
from sessions import HEAP, SETTLE, ended, fill, large_session, value

GROUP = Group("state", __doc__)
LOOP = "sum(range(10**12))"
SAVE = """
import pickle
with open("variables", "wb") as file:
    pickle.dump({"data": data}, file, pickle.HIGHEST_PROTOCOL)
"""
LOAD = "import pickle\nwith open('variables', 'rb') as file: globals().update(pickle.load(file))"
FILL = """
import sys
sys.path.insert(0, {directory!r})
import heap
data = heap.fill('objects', {size})
"""
MOST_ROUNDS = 3


def one_round(kernel, opened, cells):
    """(Limpet's seconds, the kernel's) of each thing."""
    value(opened, "marker = 'a call to go back to'; 0")
    time.sleep(SETTLE)
    saved = kernel.do("run", SAVE)
    start = time.perf_counter()
    checkpoint = opened.checkpoint()
    checkpointed = time.perf_counter() - start
    lost = ended(opened, "import os; os._exit(3)", "exited", "rolled_back")
    restarted = kernel.do("restart", LOOP)
    again = kernel.do("run", cells)
    kernel.do("restart", LOOP)
    loaded = kernel.do("run", LOAD)
    back = seconds(opened.rollback, checkpoint)
    opened.drop(checkpoint)
    return {"save": (checkpointed, saved), "load": (back, loaded), "restart": (lost, restarted),
            "again": (lost, restarted + again)}


@GROUP.case(
    Row("state.jupyter.restart", "An interpreter is lost: until --size bytes of small objects are back, to a "
        "restart of an ipykernel, which is empty: how many times less.", times_less=True),
    Row("state.jupyter.again", "The interpreter is lost: until they are back, to the restart and the cells run "
        "again.", times_less=True),
    Row("state.jupyter.save", "A checkpoint of them to pickling them into a file in an ipykernel.", times_less=True),
    Row("state.jupyter.load", "A rollback to loading that file.", times_less=True),
)
def jupyter(bench):
    bench.leave_out_of_quick()
    cells = FILL.format(directory=str(HEAP.parent), size=bench.args.size)
    with bench.kernel() as kernel, large_session(bench.main, "bench-jupyter", checkpoint="auto") as opened:
        fill(opened, "objects", bench.args.size)
        kernel.do("run", cells)
        rounds = [one_round(kernel, opened, cells) for _ in range(min(bench.costly_rounds, MOST_ROUNDS))]
    return {f"state.jupyter.{name}": [r[name] for r in rounds] for name in ("restart", "again", "save", "load")}
