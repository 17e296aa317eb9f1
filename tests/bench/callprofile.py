"""Where the time of one call goes: processor time and context switches of each process that takes part, per call.

With --perf also the functions in which it is spent, by sampling the processor's clock.
"""
import contextlib
import re
import signal
import subprocess
import time
from pathlib import Path

from figures import percentile
from memory import Inside, cpu_seconds
from programs import c_calls, echo

SAMPLES = 20000  # a second
SYMBOLS_FROM = 1  # percent
NAMES = ("bench-call", "limpetd", "limpet-files", "limpet-guest", "limpet-interpre")  # as the kernel has them
POLL = 0.02


def name(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def switches(pid):
    """Context switches of all its threads."""
    texts = [(task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int(n) for text in texts for n in re.findall(r"_ctxt_switches:\s+(\d+)", text))


def used(pids):
    """By pid; of those that are there: an automatic checkpoint makes way for the next."""
    found = {}
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):
            found[pid] = (cpu_seconds([pid]), switches(pid))
    return found


def table(what, pids, calls, block):
    """Of `calls` round trips that `block` makes, without what the processes did before."""
    before = used(pids)
    times = block(calls)
    after = used(pids)
    lines = [f"{what}: {percentile(times, 0.5) * 1e6:.1f} us p50, {percentile(times, 0.99) * 1e6:.1f} us p99",
             f"  {'process':24} {'us on a processor':>18} {'context switches':>18}"]
    total = [0.0, 0.0]
    for pid, now in after.items():
        was = before.get(pid, (0, 0))
        figures = [(now[0] - was[0]) / calls * 1e6, (now[1] - was[1]) / calls]
        total = [sum(pair) for pair in zip(total, figures)]
        lines.append(f"  {f'{name(pid)} {pid}':24} {figures[0]:18.1f} {figures[1]:18.1f}")
    lines.append(f"  {'together':24} {total[0]:18.1f} {total[1]:18.1f}")
    return "\n".join(lines)


@contextlib.contextmanager
def sampled(path):
    """Samples of the whole machine meanwhile: processes come and go."""
    command = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", str(SAMPLES), "-o", path]
    recorder = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        while recorder.poll() is None and not Path(path).exists():
            time.sleep(POLL)
        yield
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait()


def functions(path, names):
    """Where these processes were."""
    command = ["perf", "report", "--stdio", "-i", path, "--sort", "comm,dso,symbol", "--comms", ",".join(names),
               "--percentage", "relative", "--percent-limit", str(SYMBOLS_FROM)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        return f"perf: {done.stderr.strip()}"
    return "\n".join(line for line in done.stdout.splitlines() if line.strip() and not line.startswith("#"))


def profile(bench, code, calls, with_perf):
    """Texts to print, one after the other."""
    with echo(bench) as floor:
        floor.block(calls // 10)
        yield table("an echo over two hops of libzmq", [floor.process.pid, *children(floor.process.pid)], calls,
                    floor.block)
    with bench.main.session("profile") as session:
        session.run("x = 0")
        with c_calls(bench, bench.main, session.name, code) as subject:
            inside = Inside(session)
            subject.block(calls // 10)
            pids = [subject.process.pid, *bench.main.pids(), *inside.pids()]
            yield table(f"one call {code!r} through the C client", pids, calls, subject.block)
            if with_perf:
                path = str(bench.scratch / "perf.data")
                with sampled(path):
                    subject.block(calls)
                yield functions(path, NAMES)
