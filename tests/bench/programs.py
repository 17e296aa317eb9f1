"""Programs that do round trips when told so, and the floors that are made of them."""
import subprocess
import time

from figures import percentile

ECHO_BYTES = 100


class Program:
    """One of the programs of this directory; see bench.h."""

    def __init__(self, path, *arguments, env, cwd=None):
        self.path = path
        self.process = subprocess.Popen([path, *map(str, arguments)], env=env, text=True, cwd=cwd,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._line()

    def _line(self):
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            raise RuntimeError(f"{self.path.name} ended with status {self.process.wait()}")
        return line

    def block(self, count, gap=0.0):
        """Seconds of each of `count` round trips, `gap` seconds apart."""
        self.process.stdin.write(f"{count} {round(gap * 1e9)}\n")
        self.process.stdin.flush()
        return [int(t) * 1e-9 for t in self._line().split()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class PythonCalls:
    """Calls through the Python client, in this process."""

    def __init__(self, session, code):
        self.session, self.code = session, code

    def block(self, count, gap=0.0):
        times, run, code, now = [], self.session.run, self.code, time.perf_counter
        for _ in range(count):
            if gap:
                time.sleep(gap)
            start = now()
            run(code)
            times.append(now() - start)
        return times


def echo(bench, size=ECHO_BYTES):
    """The floor of a call: an echo of a message over two hops of libzmq."""
    return Program(bench.build / "bench-echo", size, env=None)


def c_calls(bench, controller, session, code):
    return Program(bench.build / "bench-call", session, code, env=controller.env)


def raw_pipe(bench, size, *command, env=None):
    """Until `size` bytes have been read from a process that writes them, or from that command."""
    return Program(bench.build / "bench-pipe", size, *command, env=env)


def interleaved(floor, subject, rounds, calls, gap=0.0):
    """(times of the subject, times of the floor) of each round; the floor has half of its block before and half
    after. A first, smaller round warms up and is not counted."""
    for block in (floor.block, subject.block):
        block(max(calls // 4, 2), gap)
    for _ in range(rounds):
        before = floor.block(max(calls // 2, 1), gap)
        times = subject.block(calls, gap)
        yield times, before + floor.block(max(calls // 2, 1), gap)


def at(share, rounds):
    """Pairs of a percentile."""
    return [(percentile(times, share), percentile(floor, share)) for times, floor in rounds]
