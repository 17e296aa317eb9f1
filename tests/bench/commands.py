"""A command on a live session: one program, from the request to its record; and a line for the shell that stays."""
import time
from contextlib import ExitStack

from figures import Row, at_most, percentile
from latency import Commands, Sum
from plain import plain, running
from programs import PythonCalls, at, echo, interleaved
from runner import Group, LeftOut
from sessions import HERE, Helper
from spawn import TRUE

GROUP = Group("commands", __doc__)
CALLS = 100  # in one block


class Execs:
    """Commands through the Python client, in this process."""

    def __init__(self, session):
        self.session = session

    def block(self, count, gap=0.0):
        times, now = [], time.perf_counter
        for _ in range(count):
            start = now()
            result = self.session.exec([TRUE])
            times.append(now() - start)
            if not result.ok:
                raise RuntimeError(f"{TRUE} ended as {result.status}: {result.error}")
        return times


@GROUP.case(
    Row("commands.exec", "`exec` of /bin/true through the Python client, median, to the echo and starting it and "
        "waiting for it in a Python process in the same container, medians added.", at_most(1.3)),
)
def exec_true(bench):
    with bench.main.session("bench-command") as session, bench.main.session("bench-command-floor") as other, \
            echo(bench) as floor:
        bare = Helper(other, HERE / "spawn.py")
        return {"commands.exec": at(0.5, interleaved(Sum(floor, bare.ask), Execs(session), bench.rounds, CALLS))}


@GROUP.case(
    Row("commands.docker_exec", "`exec` of /bin/true through the Python client to `docker exec` of it in a running "
        "container, medians.", at_most(1 / 30)),
    Row("commands.runc_exec", "`exec` of /bin/true through the Python client to `runc exec` of it in a running "
        "container, medians.", at_most(1 / 15)),
)
def against_engine(bench):
    names = {"docker": "commands.docker_exec", "oci": "commands.runc_exec"}
    figures = {name: LeftOut(f"belongs to --engine {engine}") for engine, name in names.items()}
    with bench.main.session("bench-command") as session, ExitStack() as stack:
        containers = plain(bench, bench.main, session.name)
        name = stack.enter_context(running(containers, "bench-command-plain"))
        peer, execs = Commands(containers.inside(name, TRUE)), Execs(session)
        execs.block(10)
        figures[names[bench.engine]] = [
            (percentile(execs.block(20), 0.5), percentile(peer.block(4), 0.5)) for _ in range(bench.costly_rounds)
        ]
    return figures


@GROUP.case(
    Row("commands.bash", "`x=1` in the bash context of a session through the Python client, median, to `x = 1` in its "
        "Python.", at_most(1.5)),
)
def bash_context(bench):
    with bench.main.session("bench-command") as session:
        shell = session.context(language="bash")
        python, bash = PythonCalls(session, "x = 1"), PythonCalls(shell, "x=1")
        bash.block(10)
        return {"commands.bash": at(0.5, interleaved(python, bash, bench.rounds, CALLS))}
