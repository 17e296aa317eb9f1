"""Calls that queue, many sessions that are idle, sessions that take every core, and a user who takes all there is."""
import asyncio
import contextlib
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import limpet

from figures import CALLS, Row, at_least, at_most, percentile
from programs import Program, at, c_calls, interleaved
from runner import Group, LeftOut
from sessions import LINE

GROUP = Group("load", __doc__)
WINDOW = 32  # of the 64 calls that a session queues
IDLE_MEMORY = "64m"
IDLE_BYTES = 32 << 20  # what an idle session may take of the machine
BATCH = 10  # sessions opened or closed at once
HOG = "print('running', flush=True)\nwhile True: pass"
HOG_SECONDS = 120
FLOODER, GROUP_OF_USERS = 65534, "daemon"  # any that are there will do
ROOT = Path(__file__).resolve().parents[2]


@GROUP.case(
    Row("load.pipelined", f"Calls per second with {WINDOW} run requests queued on one session, to one after the "
        "other, both on one connection.", at_least(4), unit=CALLS),
)
def pipelined(bench):
    batches = max(bench.args.calls // WINDOW, 4)
    with bench.main.session("bench-pipelined") as session, contextlib.ExitStack() as stack:
        session.run("x = 0")
        serial, queued = (stack.enter_context(Program(bench.build / "bench-pipelined", session.name, LINE, window,
                                                      env=bench.main.env)) for window in (1, WINDOW))
        rounds = []
        serial.block(WINDOW), queued.block(4)
        for _ in range(bench.rounds):
            before = serial.block(batches * WINDOW // 2)
            times = queued.block(batches)
            after = serial.block(batches * WINDOW // 2)
            rounds.append((batches * WINDOW / sum(times), len(before + after) / sum(before + after)))
    return {"load.pipelined": rounds}


def available_memory():
    return int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) << 10


async def in_batches(work, names):
    for start in range(0, len(names), BATCH):
        await asyncio.gather(*(work(name) for name in names[start:start + BATCH]))


@contextlib.contextmanager
def idle_sessions(controller, count):
    """That many idle sessions beside what is measured, made and removed in bounded batches."""
    opened = []

    async def open_them():
        async with controller.async_client() as client:
            async def open_one(name):
                opened.append(name)
                await client.open(name, memory=IDLE_MEMORY)
            await in_batches(open_one, [f"idle-{number}" for number in range(count)])

    async def close_them():
        async with controller.async_client() as client:
            async def close_one(name):
                with contextlib.suppress(limpet.NoSuchSession):
                    await (await client.open(name)).close()
            await in_batches(close_one, opened)

    try:
        asyncio.run(open_them())
        yield
    finally:
        asyncio.run(close_them())


@GROUP.case(
    Row("load.idle", "One call through the C client beside --idle idle sessions of the same controller, median, to "
        "the same on a controller without any; the session that is called is the last one opened.", at_most(1.05)),
)
def idle(bench):
    count = min(bench.args.idle, (available_memory() - (1 << 30)) // IDLE_BYTES)
    if count < bench.args.idle:
        bench.say(f"load.idle: memory is there for {count} idle sessions instead of {bench.args.idle}")
    with contextlib.ExitStack() as stack:
        crowded, empty = (stack.enter_context(bench.controller()) for _ in range(2))
        stack.enter_context(idle_sessions(crowded, count))
        calls = []
        for controller in (empty, crowded):
            session = stack.enter_context(controller.session("bench-idle"))
            session.run("x = 0")
            calls.append(stack.enter_context(c_calls(bench, controller, session.name, LINE)))
        rounds = list(interleaved(*calls, bench.rounds, bench.args.calls))
    return {"load.idle": at(0.5, rounds)}


class Hog:
    """A session that keeps a core busy while it is told to."""

    def __init__(self, session):
        self.session, self.thread = session, None

    def start(self):
        running = threading.Event()
        self.thread = threading.Thread(target=self.session.run, args=(HOG, HOG_SECONDS),
                                       kwargs={"on_stdout": lambda text: running.set()})
        self.thread.start()
        if not running.wait(HOG_SECONDS):
            raise RuntimeError("a session that should take a core does not run")

    def stop(self):
        if self.thread:
            self.session.interrupt()
            self.thread.join()
            self.thread = None


@GROUP.case(
    Row("load.hogged.p99", "One call through the C client while other sessions loop on every core, 99th "
        "percentile, to the same while they are idle.", at_most(2)),
    Row("load.hogged.p50", "One call while other sessions loop on every core to the same while they are idle, "
        "medians."),
)
def hogged(bench):
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(bench.main.session("bench-hogged"))
        session.run("x = 0")
        hogs = [Hog(stack.enter_context(bench.main.session(f"bench-hog-{core}"))) for core in range(os.cpu_count())]
        for hog in hogs:
            stack.callback(hog.stop)
        calls = stack.enter_context(c_calls(bench, bench.main, session.name, LINE))
        calls.block(bench.args.calls // 4)
        rounds = []
        for _ in range(bench.rounds):
            before = calls.block(bench.args.calls // 2)
            for hog in hogs:
                hog.start()
            times = calls.block(bench.args.calls)
            for hog in hogs:
                hog.stop()
            rounds.append((times, before + calls.block(bench.args.calls // 2)))
    return {f"load.hogged.p{share}": [(percentile(times, share / 100), percentile(floor, share / 100))
                                      for times, floor in rounds] for share in (99, 50)}


class Flooder:
    """Another user, who floods the controller while it is told to; see flooder.py."""

    def __init__(self, controller):
        path = os.pathsep.join((str(ROOT), str(ROOT / "clients/python/src")))
        command = [sys.executable, Path(__file__).with_name("flooder.py"), controller.env["LIMPET_SOCKET"], str(FLOODER),
                   GROUP_OF_USERS]
        self.process = subprocess.Popen(command, env={**controller.env, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.expect("ready")

    def expect(self, line):
        if self.process.stdout.readline() != line + "\n":
            raise RuntimeError(f"flooder.py ended with status {self.process.wait()}")

    def turn(self):
        """Begins it, or ends it."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.expect("done")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@GROUP.case(
    Row("load.flooded.p99", "One call through the C client while another user has 20,000 requests for a file of 1 MiB at once, 8 "
        "clients that never read, and 1,000 requests that wait for a call, 99th percentile, to the same while that user "
        "does nothing.", at_most(3)),
    Row("load.flooded.p50", "One call while another user floods the controller to the same while that user does nothing, "
        "medians."),
)
def flooded(bench):
    if os.getuid() != 0 or bench.engine == "local":
        raise LeftOut("belongs to root's controller, with an engine that isolates")
    with contextlib.ExitStack() as stack:
        controller = stack.enter_context(bench.controller(LIMPET_GROUP=GROUP_OF_USERS))
        session = stack.enter_context(controller.session("bench-flooded"))
        session.run("x = 0")
        flooder = stack.enter_context(Flooder(controller))
        calls = stack.enter_context(c_calls(bench, controller, session.name, LINE))
        calls.block(bench.args.calls // 4)
        rounds = []
        for _ in range(bench.rounds):
            before = calls.block(bench.args.calls // 2)
            flooder.turn()
            times = calls.block(bench.args.calls)
            flooder.turn()
            rounds.append((times, before + calls.block(bench.args.calls // 2)))
    return {f"load.flooded.p{share}": at(share / 100, rounds) for share in (99, 50)}
