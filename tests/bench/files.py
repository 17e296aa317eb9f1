"""What the controller does about artifacts, by a program that is linked with its library."""
from contextlib import ExitStack

from figures import Row, at_most, percentile, value_at_most
from programs import Program, at, interleaved
from runner import Group

GROUP = Group("files", __doc__)
CHECKS = 1000
FILE = 1 << 20
FILES = 100  # in one block


def program(bench, what, number):
    return Program(bench.build / "bench-files", what, number, env=None, cwd=bench.scratch)


@GROUP.case(
    Row("files.check", "After a call: whether there is anything to publish, when there is not. An absolute time: "
        "less than a call can show.", value_at_most(1e-6)),
)
def check(bench):
    with program(bench, "check", CHECKS) as checks:
        checks.block(10)
        times = [percentile(checks.block(20), 0.5) / CHECKS for _ in range(bench.rounds)]
    return {"files.check": [(took, None) for took in times]}


@GROUP.case(
    Row("files.publish", "Finding, copying and hashing (SHA-256) a file of 1 MB that was written, to copying and "
        "hashing it in one process that knows where it is, medians.", at_most(1.3)),
)
def publish(bench):
    with ExitStack() as stack:
        floor, subject = (stack.enter_context(program(bench, what, FILE)) for what in ("copy", "publish"))
        return {"files.publish": at(0.5, interleaved(floor, subject, bench.rounds, FILES))}
