"""Sessions under measurement, and what cells of theirs must end like."""
import ast
import statistics
import time
from contextlib import contextmanager
from pathlib import Path

from figures import seconds

HERE = Path(__file__).parent
HEAP = HERE / "heap.py"
TRANSPORT = ""  # a call that does nothing
SETTLE = 0.2  # what was dropped is gone, and what is automatic has happened
LINE = "x = x + 1"
CELL = '''import math
rows = [{"name": f"item {i}", "price": i * 1.5, "count": i % 7} for i in range(12)]
total = 0.0
for row in rows:
    if row["count"] > 2:
        total += row["price"] * row["count"]
def mean(values):
    values = list(values)
    return sum(values) / len(values)
prices = [row["price"] for row in rows]
average = mean(prices)
spread = math.sqrt(mean((price - average) ** 2 for price in prices))
by_count = {}
for row in rows:
    by_count.setdefault(row["count"], []).append(row["name"])
largest = max(rows, key=lambda row: row["price"])
text = ", ".join(f"{count}: {len(names)}" for count, names in sorted(by_count.items()))
flag = "high" if average > 5 else "low"
summary = {"total": round(total, 2), "average": average, "spread": spread, "text": text}
summary["largest"] = largest["name"]
'''


@contextmanager
def large_session(controller, name, **options):
    """For large heaps."""
    with controller.session(name, **{"timeout": 300, "memory": "8g", **options}) as opened:
        yield opened


def value(session, code):
    """What a cell ends with, as plain data."""
    result = session.run(code)
    if result.status != "ok":
        raise RuntimeError(f"{code!r} ended as {result.status}: {result.error}")
    return ast.literal_eval(result.result)


def has_module(session, module):
    """Whether the sandbox image has that module."""
    return session.run(f"import importlib.util; importlib.util.find_spec({module!r}) is not None").result == "True"


class Helper:
    """A plain Python process in the session's container that answers lines, such as heap.py."""

    def __init__(self, session, program, *arguments):
        self.session = session
        session.put(program, program.name)
        command = ["/usr/bin/python3", program.name, *map(str, arguments)]
        value(session, f"""
import subprocess
helper = subprocess.Popen({command!r}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert helper.stdout.readline() == "ready\\n"
0
""")

    def tell(self, line):
        """What it answers to a line."""
        return value(self.session, f"print({line!r}, file=helper.stdin, flush=True); helper.stdout.readline()")

    def ask(self, count):
        """The seconds that it answers a number with, which it tells in nanoseconds."""
        return [int(t) * 1e-9 for t in self.tell(str(count)).split()]


def fill(session, kind, size):
    session.put(HEAP, "heap.py")
    value(session, f"import sys; sys.path.insert(0, ''); import heap; data = heap.fill({kind!r}, {size}); 0")


def settled(read, within, pause=SETTLE):
    """What `read` says once it says nearly the same twice."""
    before = read()
    while True:
        time.sleep(pause)
        after = read()
        if abs(after - before) < within:
            return after
        before = after


def nothing(session):
    """The transport: seconds of a call that does nothing."""
    return statistics.median(seconds(session.run, TRANSPORT) for _ in range(20))


def ended(session, code, status, state, timeout=None):
    """Seconds until the reply to a cell that must end so. The state before it is that of a moment ago."""
    time.sleep(SETTLE)
    start = time.perf_counter()
    result = session.run(code, timeout=timeout)
    took = time.perf_counter() - start
    if (result.status, result.state) != (status, state):
        raise RuntimeError(f"{code!r} ended as {result.status}, {result.state}; expected {status}, {state}")
    if state == "rolled_back" and result.rolled_back_to.execution_count != result.execution_count - 1:
        raise RuntimeError(f"{code!r} went back to {result.rolled_back_to}, not to the call before it")
    return took
