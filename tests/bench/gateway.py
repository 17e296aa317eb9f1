"""Many users of one gateway."""
import contextlib
import os

from adapters import HERE, SERVE, SOURCES
from figures import Row, at_most
from jupyter_kernel import PACKAGES
from load import IDLE_BYTES, available_memory
from peers import environment
from programs import Program, at, interleaved
from runner import Group

GROUP = Group("gateway", __doc__)
MANY, FEW = 200, 10
GAP = 0.01  # seconds between one call and the next, of all users together
ROUND = 600  # calls; 3 of each user where there are many


def users(bench, controller, count):
    """That many, with a gateway of their own."""
    python = environment(bench, (*PACKAGES, *SERVE))
    env = {**controller.env, "PYTHONPATH": os.pathsep.join(map(str, (SOURCES, HERE))), "PYTHONDONTWRITEBYTECODE": "1"}
    return Program(python, HERE / "users.py", controller.env["LIMPET_SOCKET"], count, env=env)


@GROUP.case(
    Row("gateway.200.p99", f"POST /v1/sessions/SESSION/run with `x = 1` of {MANY} users of one `limpet serve`, each with a "
        f"session and a connection of its own, 99th percentile, to that of {FEW} users of another one, who think less "
        f"between calls, so that both are {round(1 / GAP)} calls a second.", at_most(2)),
    Row("gateway.200.p50", f"That call, medians; a session of {MANY} has rested {MANY // FEW} times longer when it is called."),
)
def in_use(bench):
    many = min(MANY, (available_memory() - (1 << 30)) // IDLE_BYTES)
    if many < MANY:
        bench.say(f"gateway.200: memory is there for {many} sessions instead of {MANY}")
    calls = ROUND // 3 if bench.args.quick else ROUND
    with contextlib.ExitStack() as stack:
        crowd, few = (stack.enter_context(users(bench, stack.enter_context(bench.controller()), count)) for count in (many, FEW))
        rounds = list(interleaved(few, crowd, bench.costly_rounds, calls, GAP))
    return {"gateway.200.p99": at(0.99, rounds), "gateway.200.p50": at(0.5, rounds)}
