"""What comes while a call runs: output in bulk, output in parts, and its end on an interrupt."""
import os
import statistics
import time
from contextlib import ExitStack

from figures import RATE, Row, at_least, at_most, percentile, value_at_most
from plain import PYTHON, plain, running
from programs import Program, echo, raw_pipe
from runner import Group, LeftOut

GROUP = Group("streams", __doc__)
CHUNK = 1 << 16
WRITE = "import sys\nfor _ in range({count}): sys.stdout.write({chunk!r} * {size})"
PART = "import time\nprint(time.monotonic_ns())\ntime.sleep(0.3)"
PARTS = 5  # in one round
INTERRUPTS = 20


def writing(size):
    return WRITE.format(count=size // CHUNK, chunk="x", size=CHUNK)


def rates(size, subject, floor, rounds):
    """Bytes per second of each round, after one that does not count."""
    subject.block(1), floor.block(1)
    return [(size / subject.block(1)[0], size / floor.block(1)[0]) for _ in range(rounds)]


@GROUP.case(
    Row("streams.stdout.pipe", "--stream bytes that a cell writes to standard output, until the C client has them, "
        "to a pipe between two processes: bytes per second.", at_least(0.6), unit=RATE),
    Row("streams.stdout.docker_exec", "--stream bytes of standard output to `docker exec python3 -c` with the same "
        "code: bytes per second.", at_least(1.8), unit=RATE),
    Row("streams.stdout.runc_exec", "--stream bytes of standard output to `runc exec python3 -c` with the same "
        "code: bytes per second.", at_least(1.8), unit=RATE),
)
def stdout(bench):
    size = bench.args.stream // CHUNK * CHUNK
    os.sync()  # a disk that still writes what earlier rows left it would be measured instead
    names = {"docker": "streams.stdout.docker_exec", "oci": "streams.stdout.runc_exec"}
    figures = {name: LeftOut(f"belongs to --engine {engine}") for engine, name in names.items()}
    with bench.main.session("bench-stdout", timeout=600) as session, ExitStack() as stack:
        subject = stack.enter_context(Program(bench.build / "bench-stream", session.name, writing(size), size,
                                              env=bench.main.env))
        pipe = stack.enter_context(raw_pipe(bench, size))
        figures["streams.stdout.pipe"] = rates(size, subject, pipe, bench.costly_rounds)
        if bench.engine in names:
            containers = plain(bench, bench.main, session.name)
            name = stack.enter_context(running(containers, "bench-stdout-plain"))
            command = containers.inside(name, PYTHON, "-c", writing(size))
            peer = stack.enter_context(raw_pipe(bench, size, *command))
            figures[names[bench.engine]] = rates(size, subject, peer, bench.costly_rounds)
    return figures


def part(session):
    """Seconds from a print, with nothing after it for a while, until a client has what it printed."""
    arrived = []

    def on_stdout(text):
        arrived.append((time.monotonic_ns(), text))

    result = session.run(PART, on_stdout=on_stdout)
    if result.status != "ok" or not arrived:
        raise RuntimeError(f"{PART!r} ended as {result.status} with {len(arrived)} pieces of output")
    moment, text = arrived[0]
    return (moment - int(text)) * 1e-9


@GROUP.case(
    Row("streams.partial", "From a print() that is followed by a sleep until the Python client has its text: an "
        "absolute time, as the 20 ms after which output is sent by itself is one.", value_at_most(0.06)),
)
def partial(bench):
    with bench.main.session("bench-partial") as session:
        part(session)
        times = [statistics.median(part(session) for _ in range(PARTS)) for _ in range(bench.costly_rounds)]
    return {"streams.partial": [(took, None) for took in times]}


@GROUP.case(
    Row("streams.interrupt", "From the interrupt of a Python loop until the reply to the call that it runs in, "
        "both through the C client, medians, to the echo.", at_most(3)),
)
def interrupt(bench):
    with bench.main.session("bench-interrupt") as session, ExitStack() as stack:
        session.run("x = 0")
        subject = stack.enter_context(Program(bench.build / "bench-interrupt", session.name, env=bench.main.env))
        floor = stack.enter_context(echo(bench))
        subject.block(2), floor.block(bench.args.calls // 4)
        pairs = []
        for _ in range(bench.rounds):
            before = floor.block(bench.args.calls // 2)
            times = subject.block(INTERRUPTS)
            pairs.append((percentile(times, 0.5), percentile(before + floor.block(bench.args.calls // 2), 0.5)))
    return {"streams.interrupt": pairs}
