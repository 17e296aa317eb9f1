"""One call on a live session, with default checkpoints and full hardening."""
import statistics
from contextlib import ExitStack

from figures import Row, at_least, at_most, percentile
from peers import environment
from plain import PYTHON, plain, run_once, running
from programs import Program, PythonCalls, at, c_calls, echo, interleaved
from runner import Group, LeftOut
from sessions import CELL, HERE, LINE, Helper

GROUP = Group("latency", __doc__)
LARGE = 1 << 16
PRINT = f"print('x' * {LARGE - 1})"
GAP = 0.02
EXEC = "x = 1; x = x + 1"


def against_echo(bench, subject, rounds=None, calls=None, size=100, gap=0.0):
    with echo(bench, size) as floor:
        return list(interleaved(floor, subject, rounds or bench.rounds, calls or bench.args.calls, gap))


@GROUP.case(
    Row("latency.c.p50", "One call `x = x + 1` through the C client, median, to an echo of 100 bytes over two hops "
        "of libzmq, median.", at_most(1.0)),
    Row("latency.c.p99", "One call `x = x + 1` through the C client, 99th percentile, to the echo's.", at_most(1.1)),
)
def c_client(bench):
    with bench.main.session("bench-c") as session:
        session.run("x = 0")
        with c_calls(bench, bench.main, session.name, LINE) as subject:
            rounds = against_echo(bench, subject)
    return {"latency.c.p50": at(0.5, rounds), "latency.c.p99": at(0.99, rounds)}


@GROUP.case(
    Row("latency.python.p50", "One call `x = x + 1` through the Python client, median, to the same call on the same "
        "session through the C client, median.", at_most(1.1)),
    Row("latency.python.p99", "One call `x = x + 1` through the Python client, 99th percentile, to the C client's.",
        at_most(1.1)),
)
def python_client(bench):
    with bench.main.session("bench-python") as session:
        session.run("x = 0")
        with c_calls(bench, bench.main, session.name, LINE) as floor:
            rounds = list(interleaved(floor, PythonCalls(session, LINE), bench.rounds, bench.args.calls))
    return {"latency.python.p50": at(0.5, rounds), "latency.python.p99": at(0.99, rounds)}


@GROUP.case(
    Row("latency.python.monty", "One call `x = x + 1` through the Python client, median, to the same line through "
        "pydantic-monty, an interpreter of a part of Python in a worker process of its pool, median.", at_most(1.0)),
)
def monty(bench):
    python = environment(bench, ("pydantic_monty",))
    driver = HERE / "monty_driver.py"
    with bench.main.session("bench-monty") as session, Program(python, driver, LINE, env=None) as floor:
        session.run("x = 0")
        rounds = interleaved(floor, PythonCalls(session, LINE), bench.rounds, bench.args.calls)
        return {"latency.python.monty": at(0.5, rounds)}


class Sum:
    """A floor of two parts, one after the other."""

    def __init__(self, echo_program, bare):
        """`bare` returns so many times of its part."""
        self.echo, self.bare = echo_program, bare

    def block(self, count, gap=0.0):
        bare = statistics.median(self.bare(count))
        return [took + bare for took in self.echo.block(count)]


@GROUP.case(
    Row("latency.cell", "A cell of 20 lines through the C client, median, to the echo and a bare compile() and "
        "exec() of it in a Python process of the same image, medians added.", at_most(1.2)),
    Row("latency.cell.woken", "A cell of 20 lines to that floor where the Python process is asked for one at a time, so "
        "that it is woken for each, as an interpreter is, instead of running them in a loop."),
)
def cell(bench):
    with bench.main.session("bench-cell") as session, bench.main.session("bench-cell-floor") as other, \
            echo(bench) as floor:
        other.put(CELL.encode(), "bare_cell.py")
        bare = Helper(other, HERE / "bare.py")
        floors = {"latency.cell": bare.ask, "latency.cell.woken": lambda count: [bare.ask(1)[0] for _ in range(count)]}
        with c_calls(bench, bench.main, session.name, CELL) as subject:
            return {name: at(0.5, interleaved(Sum(floor, ask), subject, bench.rounds, bench.args.calls // 10))
                    for name, ask in floors.items()}


@GROUP.case(
    Row("latency.64k", "A call that prints 64 KB, through the C client, median, to an echo of 64 KB over two hops "
        "of libzmq, median.", at_most(0.9)),
)
def large_reply(bench):
    with bench.main.session("bench-64k") as session, c_calls(bench, bench.main, session.name, PRINT) as subject:
        rounds = against_echo(bench, subject, calls=bench.args.calls // 2, size=LARGE)
    return {"latency.64k": at(0.5, rounds)}


@GROUP.case(
    Row("latency.gap.p50", "One call through the C client 20 ms after the last, median, to an echo 20 ms after the "
        "last: how an agent calls; never mixed with calls back to back.", at_most(1.5)),
    Row("latency.gap.p99", "One call 20 ms after the last, 99th percentile, to the echo's at that gap."),
)
def gap(bench):
    with bench.main.session("bench-gap") as session:
        session.run("x = 0")
        with c_calls(bench, bench.main, session.name, LINE) as subject:
            rounds = against_echo(bench, subject, bench.costly_rounds, bench.args.gap_calls, gap=GAP)
    return {"latency.gap.p50": at(0.5, rounds), "latency.gap.p99": at(0.99, rounds)}


@GROUP.case(
    Row("latency.ipykernel", "`x = x + 1` in an ipykernel on the host through jupyter_client, until its reply and "
        "its idle, to the same call through our Python client, medians: how many times faster.", at_least(30),
        times_less=True),
)
def ipykernel(bench):
    with bench.kernel() as kernel, bench.main.session("bench-ipykernel") as session:
        kernel.do("run", "x = 0")
        session.run("x = 0")
        rounds = interleaved(kernel.calls(LINE), PythonCalls(session, LINE), bench.rounds, bench.args.calls // 20)
        return {"latency.ipykernel": at(0.5, rounds)}


class Commands:
    def __init__(self, command):
        self.command = command

    def block(self, count, gap=0.0):
        return [run_once(self.command) for _ in range(count)]


@GROUP.case(
    Row("latency.docker_exec", "`docker exec python3 -c 'x = 1; x = x + 1'` in a running container, which keeps no "
        "state, to a call through our Python client, medians: how many times faster.", at_least(400), times_less=True),
    Row("latency.runc_exec", "`runc exec python3 -c` with the same code to a call through our Python client, "
        "medians: how many times faster.", times_less=True),
)
def execs(bench):
    names = {"docker": "latency.docker_exec", "oci": "latency.runc_exec"}
    figures = {name: LeftOut(f"belongs to --engine {engine}") for engine, name in names.items()}
    with bench.main.session("bench-exec") as session, ExitStack() as stack:
        containers = plain(bench, bench.main, session.name)
        session.run("x = 0")
        name = stack.enter_context(running(containers, "bench-exec-plain"))
        command = containers.inside(name, PYTHON, "-c", EXEC)
        calls = PythonCalls(session, LINE)
        calls.block(100)
        figures[names[bench.engine]] = [
            (percentile(calls.block(100), 0.5), percentile(Commands(command).block(4), 0.5))
            for _ in range(bench.costly_rounds)
        ]
    return figures
