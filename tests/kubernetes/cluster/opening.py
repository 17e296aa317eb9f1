"""How long a session in a pod takes to open, in turns with a pod that only sleeps.

usage: LIMPET_PYTHON=… tests/kubernetes/cluster/run scripts/interruptible "$LIMPET_PYTHON" -m tests.kubernetes.cluster.opening [ROUNDS]

Prints medians, and the smallest and largest: until a pod of the sandbox's image is Ready; until the first call of a session has returned,
in a pod of its own, and in one of the pool.
"""

import contextlib
import statistics
import sys
import time

from kubernetes import client, config, watch

from limpet.kubernetes import PodOptions, Pods
from limpet.kubernetes._api import address_of

from .real import NAMESPACE, Real

IMPORTS = 10.0  # seconds in which a pod of the pool does its imports


@contextlib.contextmanager
def taken(times):
    began = time.perf_counter()
    yield
    times.append(time.perf_counter() - began)


def bare(api, image, number):
    """Makes a pod, and returns when it is Ready."""
    name = f"bare-{number}"
    container = {"name": "sleeps", "image": image, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
    api.create_namespaced_pod(NAMESPACE, {"metadata": {"name": name}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}})
    for event in watch.Watch().stream(api.list_namespaced_pod, NAMESPACE, field_selector=f"metadata.name={name}"):
        if any(each.type == "Ready" and each.status == "True" for each in event["object"].status.conditions or ()):
            return name


def gone(real, pods):
    for name in pods.names():
        pods.close_session(name)
    for name in real.names():
        real.delete(name)
    real.until_gone()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    real = Real()
    config.load_kube_config(str(real.kubeconfig))
    api = client.CoreV1Api()
    config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION = str(real.kubeconfig)
    keys = {"key": real.key, "server_key": real.server_key}
    cold = Pods(f"here/{NAMESPACE}", PodOptions(**real.options), **keys)
    warm = Pods(f"here/{NAMESPACE}", PodOptions(**real.options, warm=1), **keys)
    ready, opened, taken_warm = [], [], []
    for number in range(rounds):
        with taken(ready):
            name = bare(api, real.options["image"], number)
        real.delete(name)
        with taken(opened):
            cold.open(f"cold-{number}").run("1")
        gone(real, cold)
        warm.sweep()
        real.until(lambda: [each for each in warm._cluster.free() if address_of(each)], "the pool has a pod that runs")
        time.sleep(IMPORTS)
        with taken(taken_warm):
            warm.open(f"warm-{number}").run("1")
        gone(real, warm)
    for what, times in (("a bare pod is Ready", ready), ("open and call, cold", opened), ("open and call, warm", taken_warm)):
        print(f"{what}: {statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})", flush=True)


if __name__ == "__main__":
    main()
