"""Work that times itself, done in a cell and outside of one."""
import ast
import json
import subprocess
import textwrap
import time
from contextlib import contextmanager
from dataclasses import dataclass

from sessions import HERE, Helper, value

OUTSIDE = HERE / "outside.py"
PAUSE = 0.01  # before each turn: an automatic checkpoint is taken then, of which the turn bears the consequences
# Times what is at its top level, without the call around it, and shows that what came of it is the same everywhere.
TIMED = """\
from time import perf_counter
begin = perf_counter()
for again in range({count}):
{body}
took = perf_counter() - begin
took, {result}"""


@dataclass(frozen=True)
class Work:
    """`setup` is run once, then `body` is timed; `result` is an expression in plain data."""

    name: str
    setup: str
    body: str = "result = work()"
    result: str = "result"

    def timed(self, count):
        """The text that does it so many times over."""
        return TIMED.format(count=count, body=textwrap.indent(self.body, "    "), result=self.result)


class Inside:
    """Runs texts as cells of a session."""

    def __init__(self, session):
        self.session = session

    def run(self, text):
        return value(self.session, text)


class Outside(Helper):
    """Runs them in a plain python3 in the container of a session, which is told so by cells of that session."""

    def __init__(self, session):
        super().__init__(session, OUTSIDE)

    def run(self, text):
        return ast.literal_eval(self.tell(json.dumps(text)))


class Process:
    """Runs them in a process of this machine: `command` is a python3 that is given a program with -c."""

    def __init__(self, command):
        self.process = subprocess.Popen([*command, "-c", OUTSIDE.read_text()], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self._line()

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process on the host ended with status {self.process.wait()}")
        return line

    def run(self, text):
        print(json.dumps(text), file=self.process.stdin, flush=True)
        return ast.literal_eval(self._line())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def turn(place, text):
    time.sleep(PAUSE)
    return place.run(text)


def block(place, text, turns):
    """Seconds of each turn, and what came of them."""
    took, results = zip(*(turn(place, text) for _ in range(turns)))
    return took, results[-1]


def prepare(places, work):
    """Seconds in each when it is as quick as it gets: Python specializes what has run a few times."""
    for place in places:
        place.run(work.setup + "\n0")
    return [min(block(place, work.timed(1), 3)[0]) for place in places]


def compared(inside, outside, work, args):
    """(seconds inside, seconds outside) of doing it once; blocks take turns. A turn is `args.unit` seconds long, so that
    it pays for what is done once in a cell as real work does: after a checkpoint, which is taken before each
    turn, a page is copied when it is first written to. The quickest turn counts: every one of them pays that, and what
    another process takes from some is not the cell's."""
    count = max(1, round(args.unit / min(prepare((inside, outside), work))))
    text, half = work.timed(count), max(1, args.turns // 2)
    before, expected = block(outside, text, half)
    times, result = block(inside, text, 2 * half)
    after, _ = block(outside, text, half)
    if result != expected:
        raise RuntimeError(f"{work.name} comes to {result} in a cell and to {expected} outside of one")
    return min(times) / count, min(before + after) / count


@contextmanager
def both(bench, name, **options):
    """The two places in a container: a cell's, and a plain process's. Fresh ones each time, since two processes of one
    program differ by some percent in where their memory lies and how their dictionaries are ordered."""
    with bench.main.session(name, **options) as session:
        yield Inside(session), Outside(session)
