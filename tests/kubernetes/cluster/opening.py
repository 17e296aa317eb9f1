"""How long it takes to open a session in a pod and to run its first call, beside what Kubernetes alone takes.

usage: tests/kubernetes/cluster/run $LIMPET_PYTHON -m tests.kubernetes.cluster.opening [ROUNDS]

Each round has one of each, so that all have the same load: a bare pod until it is ready, a session in a pod of its own, a pod of
the pool that is taken, and a session that takes one; and with pods of agent-sandbox a claim until it is ready, and a session. Prints
milliseconds: the least, the median and the most.
"""

import os
import statistics
import sys
import time

from limpet.kubernetes import PodOptions, Pods
from limpet.kubernetes._pod import object_name
from tests.kubernetes.standin import NAMESPACE

from .real import Real

BARE = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"},
    "spec": {
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False,
        "containers": [{"name": "pause", "image": "limpet.test/pause:1", "imagePullPolicy": "Never"}],
    },
}  # fmt: skip


def is_ready(found):
    return found is not None and any(
        each["type"] == "Ready" and each["status"] == "True" for each in found.get("status", {}).get("conditions", [])
    )


def until(condition):
    end = time.monotonic() + 120
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.005)
    return found


def milliseconds(work):
    begun = time.monotonic()
    work()
    return 1000 * (time.monotonic() - begun)


def bare(cluster):
    def work():
        cluster.create("pod", BARE)
        until(lambda: is_ready(cluster.pod("bare")))

    taken = milliseconds(work)
    cluster.delete("pod", "bare")
    until(lambda: cluster.pod("bare") is None)
    return taken


def opened(pods, name):
    taken = milliseconds(lambda: pods.open(name).run("1"))
    pods.close_session(name)
    until(lambda: pods._cluster.pod(object_name(name)) is None)
    return taken


def until_warm(pods):
    pods._cluster.fill(pods._options)
    until(lambda: any(is_ready(each) for each in pods._cluster.free()))


def claimed(pods, options):
    until_warm(pods)
    taken = milliseconds(lambda: pods._cluster.take("claimed", options, True))
    pods._cluster.delete_pod_of("claimed")
    until(lambda: pods._cluster.pod(object_name("claimed")) is None)
    return taken


def until_sandbox(pods):
    def ready():
        pools = [pods._cluster._read("sandbox_pool", each["metadata"]["name"]) for each in pods._cluster.sandbox_pools("sandbox_pool")]
        return any(pool.get("status", {}).get("readyReplicas") for pool in pools)

    pods._cluster.fill(pods._options)
    until(ready)


def sandbox(pods, options):
    def work():
        pods._cluster.take("claim", options, True)
        until(lambda: is_ready(pods._cluster._held("claim")))

    until_sandbox(pods)
    taken = milliseconds(work)
    pods._cluster.delete_pod_of("claim")
    until_sandbox(pods)
    return taken


def main():
    real = Real()
    os.environ["KUBECONFIG"] = str(real.kubeconfig)
    keys = {"key": real.key, "server_key": real.server_key}
    cold, warm = PodOptions(**real.options), PodOptions(**real.options, warm=1)
    claims = PodOptions(**real.options, warm=1, agent_sandbox=True)
    found = {
        "a bare pod is ready": [], "open + call": [], "a pod of the pool is taken": [], "open + call from the pool": [],
        "a claim is ready": [], "open + call by a claim": [],
    }  # fmt: skip
    with (
        Pods(f"here/{NAMESPACE}", cold, **keys) as alone,
        Pods(f"here/{NAMESPACE}", warm, **keys) as pooled,
        Pods(f"here/{NAMESPACE}", claims, **keys) as claimant,
    ):
        for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
            found["a bare pod is ready"].append(bare(alone._cluster))
            found["open + call"].append(opened(alone, f"cold-{number}"))
            found["a pod of the pool is taken"].append(claimed(pooled, warm))
            until_warm(pooled)
            found["open + call from the pool"].append(opened(pooled, f"warm-{number}"))
            found["a claim is ready"].append(sandbox(claimant, claims))
            found["open + call by a claim"].append(opened(claimant, f"claim-{number}"))
    for what, all_of in found.items():
        print(f"{what:30} {min(all_of):8.0f} {statistics.median(all_of):8.0f} {max(all_of):8.0f}")


if __name__ == "__main__":
    main()
