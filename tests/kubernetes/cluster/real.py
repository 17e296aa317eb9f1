"""A real cluster, of one node, for the tests: what tests/kubernetes/cluster/run has started."""

import base64
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys

import yaml

from limpet.kubernetes._pod import COMPONENT, LABELS, NAME
from tests.kubernetes.standin import NAMESPACE, until

IMAGES = {"image": "limpet.test/sandbox:1", "controller_image": "limpet.test/limpet:1", "pull": "Never"}
GATEWAY = "limpet.test/limpet:1"
NODE = "10.99.0.1"
CONTROL = "10.99.0.2"
DNS = "10.96.0.10"
PATIENCE = 180
CLAIMS = 40

_VOLUME = """\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: volume-{number}}}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {{storage: 2Gi}}
  hostPath: {{path: {directory}/{number}, type: DirectoryOrCreate}}
"""


class Real:
    """``administrator``: who has set the cluster up. ``kubeconfig``: of whom the manifest lets open sessions, as context `here`."""

    options = {**IMAGES, "memory": "512Mi"}
    address = NODE
    until = staticmethod(functools.partial(until, patience=PATIENCE))

    def __init__(self):
        self.administrator = os.environ["KUBECONFIG"]
        self.directory = pathlib.Path(self.administrator).parent / "tests"
        self.directory.mkdir(exist_ok=True)
        self.apply(self.manifest(NAMESPACE, "--egress", "1", "--agent-sandbox", "true"))
        self.apply("---\n".join(_VOLUME.format(number=number, directory=self.directory / "volumes") for number in range(CLAIMS)))
        self.key, self.server_key = self.client_keys(NAMESPACE)
        self.egress_key = self.directory / "egress.key"
        self.egress_key.write_text(_decoded(self.get("secret", "limpet-egress")["data"]["key"]))
        self.kubeconfig = self.directory / "kubeconfig"
        found = yaml.safe_load(pathlib.Path(self.administrator).read_text())
        token = self.kubectl("create", "token", "limpet-client", "--duration", "6h").strip()
        found["users"] = [{"name": "client", "user": {"token": token}}]
        found["contexts"][0]["context"]["user"] = "client"
        self.kubeconfig.write_text(yaml.safe_dump(found))

    def manifest(self, namespace, *more):
        """The objects of a namespace, as the command prints them."""
        options = [f"--{name.replace('_', '-')}={value}" for name, value in self.options.items()]
        command = [sys.executable, "-m", "limpet.kubernetes", "manifest", "--namespace", namespace, *options, *more]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def client_keys(self, namespace):
        """Path of the key, and the key of controllers."""
        secret = self.get("secret", "limpet-client", namespace=namespace)["data"]
        key = self.directory / f"{namespace}.key_secret"
        key.touch(0o600)
        key.write_text(_decoded(secret["key_secret"]))
        return key, _decoded(secret["server_key"])

    def kubectl(self, *arguments, namespace=NAMESPACE, **more):
        done = subprocess.run(
            ["kubectl", "--namespace", namespace, *arguments], capture_output=True, text=True, timeout=PATIENCE,
            env={**os.environ, "KUBECONFIG": self.administrator}, **more,
        )  # fmt: skip
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def apply(self, text, namespace=NAMESPACE):
        return self.kubectl("apply", "--filename", "-", input=text, namespace=namespace)

    def get(self, *what, namespace=NAMESPACE):
        return json.loads(self.kubectl("get", *what, "--output", "json", namespace=namespace))

    def pod(self, name):
        """None where there is none."""
        said = self.kubectl("get", "pod", name, "--ignore-not-found", "--output", "json")
        return json.loads(said) if said else None

    def names(self, kind="pods"):
        """Those of sessions."""
        selector = f"{NAME}={LABELS[NAME]},{COMPONENT}={LABELS[COMPONENT]}"
        return self.kubectl("get", kind, "--selector", selector, "--output", "jsonpath={.items[*].metadata.name}").split()

    def delete(self, name):
        """As a drain does, which waits for nothing."""
        self.kubectl("delete", "pod", name, "--wait=false")

    def kill(self, name, container):
        """Kills the first process of a container."""

        def told():
            """Sessions are served before the kubelet tells of a pod."""
            status = self.pod(name)["status"]
            parts = (*status.get("initContainerStatuses", []), *status.get("containerStatuses", []))
            return [each["containerID"] for each in parts if each["name"] == container and "containerID" in each]

        id = self.until(told, f"{container} of {name} is told of")[0].partition("://")[2]
        tasks = subprocess.run(
            ["ctr", "--address", "/run/containerd.sock", "--namespace", "k8s.io", "tasks", "list"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        (pid,) = [line.split()[1] for line in tasks.stdout.splitlines() if line.startswith(id)]
        os.kill(int(pid), signal.SIGKILL)

    def until_over(self, name):
        def over():
            found = self.pod(name)
            return found is None or found["status"].get("phase") in ("Succeeded", "Failed")

        self.until(over, f"{name} is over")

    def until_gone(self):
        self.until(lambda: not self.names(), "no pods of sessions are left")

    def until_egress(self):
        self.kubectl("rollout", "status", "deployment/limpet-egress", "--timeout=170s")

    def said(self, name):
        return self.kubectl("logs", name, "--container", "controller")


def _decoded(text):
    return base64.b64decode(text).decode()
