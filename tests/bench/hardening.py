"""What the hardening of a container costs a call."""
import contextlib
import shlex

from figures import Row, at_most
from programs import at, c_calls, interleaved
from runner import Group, LeftOut
from sessions import LINE

GROUP = Group("hardening", __doc__)

# A program of the image as a process of the host. It sees the image's files and the directory of the run, and nothing
# else holds it.
IN_IMAGE = """
    rootfs=$1 scratch=$2
    shift 2
    mount --rbind /proc "$rootfs/proc"
    mount --rbind /dev "$rootfs/dev"
    mount -t tmpfs none "$rootfs/tmp"
    mkdir -p "$rootfs$scratch"
    mount --rbind "$scratch" "$rootfs$scratch"
    exec chroot "$rootfs" "$@"
"""


def in_image(bench, *command):
    """The command that runs that one, a path in the image and arguments, without a container."""
    return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-euc", IN_IMAGE, "in-image", str(bench.image()),
            str(bench.scratch), *command]


def bare_guest(bench):
    """A program that is the guest of the image without its container: the engine local runs it in place of
    limpet-guest."""
    program = bench.scratch / "bare-guest"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(in_image(bench, "/usr/lib/limpet/limpet-guest"))} "$@"\n')
    program.chmod(0o755)
    return str(program)


@GROUP.case(
    Row("hardening.p50", "One call through the C client on a container of the engine oci (seccomp, capabilities, "
        "namespaces, read-only root, uids, limits), median, to the same guest of the same image as a plain process.",
        at_most(1.05)),
    Row("hardening.p99", "One call on a container of the engine oci to the same guest as a plain process, 99th "
        "percentiles."),
)
def hardening(bench):
    if bench.engine != "oci":
        raise LeftOut("belongs to --engine oci")
    with contextlib.ExitStack() as stack:
        hard, bare = bench.main, stack.enter_context(bench.controller("local", LIMPET_GUEST=bare_guest(bench)))
        calls = []
        for controller in (bare, hard):
            session = stack.enter_context(controller.session("bench-hardening"))
            session.run("x = 0")
            calls.append(stack.enter_context(c_calls(bench, controller, session.name, LINE)))
        rounds = list(interleaved(*calls, bench.rounds, bench.args.calls))
    return {"hardening.p50": at(0.5, rounds), "hardening.p99": at(0.99, rounds)}
