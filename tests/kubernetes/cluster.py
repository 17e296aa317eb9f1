"""A Kubernetes of one node on this machine: real programs, which ``tests/kubernetes/build`` makes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import ssl
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from hashlib import sha256
from pathlib import Path

from tests.support.ports import free_port

CONFIGS = {
    "containerd.toml": """\
version = 2
root = "{run}/containerd"
state = "{run}/containerd-state"
[grpc]
address = "{run}/containerd.sock"
[ttrpc]
address = "{run}/containerd.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "limpet.test/pause:1"
restrict_oom_score_adj = true
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{debian}/usr/lib/cni"
conf_dir = "{run}/cni"
""",
    "cni/10.conflist": """\
{{"cniVersion": "0.4.0", "name": "limpet", "plugins": [{{"type": "ptp", "ipam": {{"type": "host-local", "dataDir": "{run}/ipam",
  "ranges": [[{{"subnet": "10.244.7.0/24"}}]]}}}}]}}
""",
    "kubeconfig": """\
apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "https://127.0.0.1:{api}", insecure-skip-tls-verify: true}}}}]
users: [{{name: admin, user: {{token: admin-token}}}}]
contexts: [{{name: test, context: {{cluster: test, user: admin}}}}]
current-context: test
""",
    "tokens": "admin-token,admin,1,system:masters\n",
    "kubelet.yaml": """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /
failSwapOn: false
failCgroupV1: false
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
containerRuntimeEndpoint: unix://{run}/containerd.sock
address: 127.0.0.1
port: {kubelet}
healthzPort: 0
readOnlyPort: 0
podLogsDir: {run}/pods
clusterDNS: [10.97.0.10]
evictionHard: {{memory.available: "100Mi", nodefs.available: "1%", imagefs.available: "1%"}}
localStorageCapacityIsolation: false
""",
}


class Cluster:
    """Started by the constructor; ``stop()`` leaves nothing behind but its directory."""

    def __init__(self, programs: Path, run: Path) -> None:
        self.programs, self.run = programs, run
        self.kubeconfig = run / "kubeconfig"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports = {name: free_port() for name in ("api", "etcd", "peers", "kubelet", "manager", "scheduler")}
        (run / "cni").mkdir(parents=True)
        (run / "log").mkdir()
        for name, text in CONFIGS.items():
            (run / name).write_text(text.format(run=run, debian=programs / "debian", **self._ports))
        try:
            self._start_all()
        except BaseException:
            self.stop()
            raise

    def _start_all(self) -> None:
        run, ports = self.run, self._ports
        for command in ("genrsa -out sa.key 2048", "rsa -in sa.key -pubout -out sa.pub"):
            subprocess.run(["openssl", *command.split()], cwd=run, check=True, capture_output=True)
        self._start("containerd", shutil.which("containerd") or "containerd", f"--config={run}/containerd.toml")
        etcd, peers = (f"http://127.0.0.1:{ports[name]}" for name in ("etcd", "peers"))
        self._start(
            "etcd", str(self.programs / "debian/usr/bin/etcd"), f"--data-dir={run}/etcd", "--unsafe-no-fsync",
            f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
        )  # fmt: skip
        self._start(
            "kube-apiserver", str(self.programs / "bin/kube-apiserver"), f"--etcd-servers={etcd}",
            f"--secure-port={ports['api']}", "--bind-address=127.0.0.1", f"--cert-dir={run}/certs",
            "--service-account-issuer=test", f"--service-account-key-file={run}/sa.pub",
            f"--service-account-signing-key-file={run}/sa.key", "--authorization-mode=RBAC",
            f"--token-auth-file={run}/tokens", "--service-cluster-ip-range=10.97.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
        )  # fmt: skip
        self.until(lambda: self.api("GET", "/readyz") == "ok", "the API server answers")
        config = f"--kubeconfig={self.kubeconfig}"
        self._start(
            "kube-controller-manager", str(self.programs / "bin/kube-controller-manager"), config,
            f"--service-account-private-key-file={run}/sa.key", f"--secure-port={ports['manager']}", f"--cert-dir={run}/certs",
        )  # fmt: skip
        self._start(
            "kube-scheduler", str(self.programs / "bin/kube-scheduler"), config, f"--secure-port={ports['scheduler']}",
            f"--cert-dir={run}/certs",
        )  # fmt: skip
        self._start(
            "kubelet", str(self.programs / "bin/kubelet"), config, f"--config={run}/kubelet.yaml",
            "--hostname-override=127.0.0.1", f"--root-dir={run}/kubelet", f"--cert-dir={run}/certs",
        )  # fmt: skip
        self.until(self._is_ready, "the node is ready")

    def _start(self, name: str, *command: str) -> None:
        """In a session of its own, so that what a test is interrupted with is not for it."""
        with open(self.run / "log" / name, "wb") as log:
            self._processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
            )

    def _is_ready(self) -> bool:
        nodes = self.api("GET", "/api/v1/nodes")["items"]
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for node in nodes
            for condition in node["status"]["conditions"]
        )

    def api(self, method: str, path: str, body=None):
        request = urllib.request.Request(
            f"https://127.0.0.1:{self._ports['api']}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "Bearer admin-token", "Content-Type": "application/json"},
        )
        context = ssl._create_unverified_context()
        with urllib.request.urlopen(request, context=context, timeout=30) as reply:
            text = reply.read().decode()
        return json.loads(text) if text.startswith("{") else text

    def until(self, done, what: str, seconds: float = 120):
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError, KeyError):
                found = done()
                if found:
                    return found
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}; see {self.run}/log"
            for process in self._processes:
                assert process.poll() is None, f"{process.args[0]} has ended; see {self.run}/log"
            time.sleep(0.2)

    def ctr(self, *arguments: str, **named) -> str:
        command = ["ctr", f"--address={self.run}/containerd.sock", "--namespace=k8s.io", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, **named).stdout

    def load(self, name: str, files: Path, *command: str) -> None:
        """Imports an image with the files of a directory."""
        archive = self.run / "image.tar"
        write_image(archive, name, files, command)
        self.ctr("images", "import", str(archive))
        archive.unlink()

    def pods_gone(self) -> bool:
        return not self.ctr("containers", "ls", "--quiet").strip()

    def stop(self) -> None:
        """Ends the pods first: nobody else would."""
        with contextlib.suppress(OSError, subprocess.CalledProcessError, AssertionError):
            for pod in self.api("GET", "/api/v1/pods")["items"]:
                where = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
                self.api("DELETE", f"{where}?gracePeriodSeconds=1")
            self.until(self.pods_gone, "the pods have ended", 60)
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes = []
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            if line.split()[4].startswith(f"{self.run}/"):
                subprocess.run(["umount", line.split()[4]], check=False)


def write_image(archive: Path, name: str, files: Path, command: tuple[str, ...]) -> None:
    """Writes an image of one layer, as `docker load` and `ctr images import` take it."""
    layer = archive.with_suffix(".layer")
    subprocess.run(["tar", "--create", "--numeric-owner", "--one-file-system", f"--file={layer}", f"--directory={files}", "."], check=True)
    digest = sha256()
    with open(layer, "rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "Cmd": list(command)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest.hexdigest()}"]},
        }
    ).encode()
    named = f"{sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": named, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(archive, "w") as out:
        for member, data in ((named, config), ("manifest.json", manifest)):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
        out.add(layer, "layer.tar")
    layer.unlink()


def libraries(*programs: Path) -> set[str]:
    """The paths of what the loader loads for programs, and its own."""
    text = "".join(subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout for program in programs)
    return {word for line in text.splitlines() for word in line.split() if word.startswith("/")}


def controller_files(build: Path, target: Path) -> None:
    """The files of an image with the controller: its programs, and the libraries of this machine that they need."""
    programs = {build / "limpetd": "usr/bin/limpetd", build / "limpet-net": "usr/libexec/limpet-net", build / "limpet": "usr/bin/limpet"}
    copies = {str(path): where for path, where in programs.items()}
    copies |= {path: path.lstrip("/") for path in libraries(*programs)}
    for source, where in copies.items():
        (target / where).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(source), target / where)
    for directory in ("tmp", "proc", "etc/limpet", "var/lib/limpet", "run/limpet"):
        (target / directory).mkdir(parents=True, exist_ok=True)
