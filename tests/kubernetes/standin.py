"""A stand-in for a cluster: an API server for pods and claims, and processes of this machine for the two containers of a pod, and
for limpet-egress.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import uuid
from concurrent.futures import ThreadPoolExecutor

import yaml

from limpet.kubernetes._manifest import Gateways, Pair, manifest
from limpet.kubernetes._pod import LABELS, SANDBOXES
from tests.support.limpetd import end_with_parent
from tests.support.ports import free_port

NAMESPACE = "sandboxes"
PROGRAMS = pathlib.Path(os.environ.get("LIMPET_BUILD", "/usr/bin"))
PATIENCE = 60


def until(condition, what, patience=PATIENCE):
    """Returns what the condition comes to."""
    end = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < end, f"not so after {patience} seconds: {what}"
        time.sleep(0.1)
    return found


def refusal(code: int, reason: str, message: str) -> tuple[int, dict]:
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}


def is_selected(labels: dict, selector: str) -> bool:
    for each in filter(None, selector.split(",")):
        key, equals, value = each.partition("=")
        if key.startswith("!"):
            found = key[1:] not in labels
        elif key.endswith("!"):
            found = labels.get(key[:-1]) != value
        else:
            found = labels.get(key) == value if equals else key in labels
        if not found:
            return False
    return True


def container_status(name: str, state: dict, last: dict | None = None) -> dict:
    return {
        "name": name, "image": "the-image", "imageID": "", "ready": "running" in state, "restartCount": 0, "state": state,
        "lastState": last or {},
    }  # fmt: skip


class Pod:
    """One that runs: its controller is started again while it fails, and its guest too."""

    def __init__(self, standin: Standin, spec: dict, directory: pathlib.Path, address: str) -> None:
        self.standin, self.directory, self.address = standin, directory, address
        self.containers = {part["name"]: part for part in (*spec["initContainers"], *spec["containers"])}
        claims = [volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"] if "persistentVolumeClaim" in volume]
        self.state = standin.directory / claims[0] if claims else directory / "state"
        (directory / "run").mkdir(parents=True)
        self.state.mkdir(exist_ok=True)
        for name in ("limpet-net.key_secret", "authorized_keys"):
            shutil.copy(standin.directory / name, self.state / name)
            os.chmod(self.state / name, 0o600)
        self.ending = threading.Event()
        self.over = threading.Event()
        self.guest = self._start_guest()
        self.controller = self._start_controller()
        threading.Thread(target=self._attend, daemon=True).start()

    def _environment(self, container: str) -> dict[str, str]:
        return {"PATH": os.environ["PATH"]} | {entry["name"]: entry["value"] for entry in self.containers[container]["env"]}

    def _spawn(self, command: list[str], environment: dict[str, str], log: str) -> subprocess.Popen[bytes]:
        """From a thread that stays: it ends with the one that started it."""
        with open(self.directory / log, "ab") as out:
            return self.standin.starter.submit(
                subprocess.Popen, command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True, preexec_fn=end_with_parent,
            ).result()  # fmt: skip

    def _start_guest(self) -> subprocess.Popen[bytes]:
        script = self.containers["guest"]["command"][2]
        script = script.replace("/run/limpet/", f"{self.directory}/run/guest/")
        script = script.replace("prlimit --core=0 --nofile=1024:4096 --memlock=65536 --msgqueue=0 -- ", "")
        script = script.replace("/usr/lib/limpet/limpet-guest", str(PROGRAMS / "limpet-guest"))
        files = self.state / "sessions/~pod/files"
        return self._spawn(
            ["/bin/sh", "-c", f"{script.strip()} --same-user --directory {files}\n"], self._environment("guest"), "guest.log"
        )

    def _start_controller(self) -> subprocess.Popen[bytes]:
        own = {
            "LIMPET_STATE_DIR": str(self.state),
            "LIMPET_RUNTIME_DIR": str(self.directory / "run"),
            "LIMPET_AUTHORIZED_KEYS": str(self.state / "authorized_keys"),
            "LIMPET_LISTEN": f"tcp://{self.address}:7310",
            "LIMPET_GROUP": "",
            **self.standin.settings,
        }
        return self._spawn([str(PROGRAMS / "limpetd")], self._environment("controller") | own, "controller.log")

    def _attend(self) -> None:
        while (status := self.controller.wait()) != 0 and not self.ending.is_set():
            self.controller = self._start_controller()
        self.guest.send_signal(signal.SIGTERM)
        try:
            self.guest.wait(10)
        except subprocess.TimeoutExpired:
            self.guest.kill()
            self.guest.wait()
        self.status = status
        self.over.set()

    def end(self) -> None:
        """As a kubelet ends one that is deleted."""
        self.ending.set()
        self.controller.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.ending.set()
        for process in (self.controller, self.guest):
            process.kill()

    def described(self) -> dict:
        if self.over.is_set():
            return {"phase": "Succeeded" if self.status == 0 else "Failed"}
        running = [container_status(name, {"running": {"startedAt": "2026-01-01T00:00:00Z"}}) for name in ("controller", "guest")]
        return {"phase": "Running", "podIP": self.address, "containerStatuses": running[:1], "initContainerStatuses": running[1:]}


class Standin:
    """``answers``: what the next requests that make pods are answered with; ``statuses``: what pods, by name, are said to be like
    that are not run; ``settings``: variables of controllers; ``options``: of pods; ``whole``: how many lists of whole objects it
    has sent; ``address``: where pods find this machine.
    """

    options = {"image": "sandbox", "controller_image": "controller", "network_proof": "trust"}
    until = staticmethod(until)
    address = "127.0.0.1"

    def __init__(self) -> None:
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="limpet-pods-"))
        self.objects: dict[tuple[str, str], dict] = {}
        self.running: dict[str, Pod] = {}
        self.answers: list[tuple[int, dict]] = []
        self.statuses: dict[str, dict] = {}
        self.settings: dict[str, str] = {}
        self.version = self.whole = 0
        self.egress: subprocess.Popen[bytes] | None = None
        self.away = False  # whether connections end without an answer
        self.lock = threading.Lock()
        self.starter = ThreadPoolExecutor(1)
        self._write_keys()
        self.egress_port = free_port()
        self.start_egress()
        service = {"clusterIP": self.address, "ports": [{"port": self.egress_port}]}
        self.objects["services", "limpet-egress"] = {"metadata": {"name": "limpet-egress", "labels": {}}, "spec": service}
        standin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer in two parts waits for an acknowledgement between them

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else {}
                path, _, query = self.path.partition("?")
                api, _, rest = path.partition(f"/namespaces/{NAMESPACE}/")
                parts = rest.split("/")
                asked = {name: value for name, (value,) in urllib.parse.parse_qs(query).items()}
                if standin.away:
                    self.close_connection = True
                    return
                if self.command == "PATCH":
                    assert self.headers["Content-Type"] == "application/merge-patch+json"
                labels, fields = asked.get("labelSelector", ""), asked.get("fieldSelector", "")
                if api in ("/api/v1", f"/apis/{SANDBOXES}"):
                    code, reply = standin.answer(self.command, *parts, body=body, labels=labels, fields=fields)
                else:
                    code, reply = 404, {}
                if "as=PartialObjectMetadataList" in self.headers["Accept"]:
                    reply = {**reply, "items": [{"metadata": each["metadata"]} for each in reply["items"]] or None}
                elif "items" in reply:
                    standin.whole += 1
                data = json.dumps(reply).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = do_PATCH = handle_any

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.kubeconfig = self.directory / "kubeconfig"
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "here",
                }
            )
        )

    def _write_keys(self) -> None:
        """As the manifest has them."""
        import zmq

        pairs = [Pair(*(key.decode() for key in zmq.curve_keypair())) for _ in range(2)]
        pods = {"LIMPET_POD_IMAGE": "sandbox", "LIMPET_POD_CONTROLLER_IMAGE": "controller", "LIMPET_POD_NETWORK_PROOF": "trust"}
        objects = list(yaml.safe_load_all(manifest(NAMESPACE, *pairs, pods, Gateways("gateway"), egress=1)))
        self.manifest = {(found["kind"], found["metadata"]["name"]): found for found in objects}
        secrets = {name: found["stringData"] for (kind, name), found in self.manifest.items() if kind == "Secret"}
        (self.directory / "limpet-net.key_secret").write_text(secrets["limpet-controller"]["key_secret"])
        (self.directory / "authorized_keys").write_text(secrets["limpet-controller"]["authorized_keys"])
        self.key = self.directory / "client.key_secret"
        self.key.write_text(secrets["limpet-client"]["key_secret"])
        self.server_key = secrets["limpet-client"]["server_key"]
        self.egress_key = self.directory / "egress.key"
        self.egress_key.write_text(secrets["limpet-egress"]["key"])

    def start_egress(self, key: pathlib.Path | None = None, *before: str) -> None:
        """As the manifest has it, by the command that is named before; instead of the one that runs."""
        self.stop_egress()
        containers = self.manifest["Deployment", "limpet-egress"]["spec"]["template"]["spec"]["containers"]
        places = {"limpetd": PROGRAMS / "limpetd", "tcp://*:7311": f"tcp://{self.address}:{self.egress_port}", "/etc/limpet/egress/key": key or self.egress_key}
        with open(self.directory / "egress.log", "ab") as log:
            self.egress = self.starter.submit(
                subprocess.Popen, [*before, *(str(places.get(word, word)) for word in containers[0]["command"])], stderr=log, preexec_fn=end_with_parent
            ).result()

    def until_egress(self) -> None:
        """Until it listens."""

        def listens() -> bool:
            with contextlib.suppress(OSError), socket.create_connection((self.address, self.egress_port), 1):
                return True
            return False

        until(listens, "limpet-egress listens")

    def stop_egress(self) -> None:
        if self.egress is not None:
            self.until_egress()  # before it listens a signal ends it at once
            self.egress.terminate()
            assert self.egress.wait(PATIENCE) == 0
            self.egress = None

    def answer(self, method: str, kind: str, name: str = "", *, body: dict, labels: str = "", fields: str = "") -> tuple[int, dict]:
        with self.lock:
            if method == "POST":
                return self._make(kind, body)
            if method == "GET" and not name:
                items = [self._seen(key) for key in self.objects if key[0] == kind]
                items = [each for each in items if is_selected(each["metadata"].get("labels", {}), labels)]
                items = [each for each in items if is_selected({"status.phase": each.get("status", {}).get("phase")}, fields)]
                return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
            found = self._seen((kind, name)) if (kind, name) in self.objects else None
            if found is None:
                return refusal(404, "NotFound", f'{kind} "{name}" not found')
            if method == "DELETE":
                wanted = (body.get("preconditions") or {}).get("uid")
                if wanted not in (None, found["metadata"]["uid"]):
                    return refusal(409, "Conflict", "the uid is another one")
                self._delete(kind, name)
            if method == "PATCH":
                return self._patch(kind, name, body["metadata"])
            return 200, found

    def _patch(self, kind: str, name: str, change: dict) -> tuple[int, dict]:
        about = self.objects[kind, name]["metadata"]
        if change.pop("resourceVersion") != about["resourceVersion"]:
            return refusal(409, "Conflict", "the object has been modified")
        about["resourceVersion"] = self._next_version()
        for part, values in change.items():
            merged = {**about.get(part, {}), **values}
            about[part] = {key: value for key, value in merged.items() if value is not None}
        return 200, self._seen((kind, name))

    def _next_version(self) -> str:
        self.version += 1
        return str(self.version)

    def _make(self, kind: str, body: dict) -> tuple[int, dict]:
        name = body["metadata"]["name"]
        if kind == "pods" and self.answers:
            return self.answers.pop(0)
        if (kind, name) in self.objects:
            return refusal(409, "AlreadyExists", f'{kind} "{name}" already exists')
        body["metadata"] |= {"uid": str(uuid.uuid4()), "resourceVersion": self._next_version()}
        self.objects[kind, name] = body
        if kind == "pods" and name not in self.statuses and "schedulingGates" not in body["spec"]:
            self.run_pod(name, body)
        if kind in ("sandboxclaims", "sandboxwarmpools"):
            self._make_sandboxes(body)
        return 201, self._seen((kind, name))

    def _make_sandboxes(self, body: dict) -> None:
        """As agent-sandbox does: a claim takes a pod of its pool, or has one made, and the pool is filled again. A sandbox is its pod."""
        claims = [each for (kind, _), each in self.objects.items() if kind == "sandboxclaims"]
        if "warmPoolRef" in body["spec"]:
            pool = self.objects["sandboxwarmpools", body["spec"]["warmPoolRef"]["name"]]
        else:
            pool = body
        template = self.objects["sandboxtemplates", pool["spec"]["sandboxTemplateRef"]["name"]]["spec"]["podTemplate"]
        names = {f"{pool['metadata']['name']}-{number}" for number in range(len(claims) + pool["spec"]["replicas"])}
        taken = {each["status"]["sandbox"]["name"] for each in claims if "status" in each}
        if pool is not body:
            there = sorted(name for name in names - taken if ("pods", name) in self.objects)
            name = (there or [body["metadata"]["name"]])[0]
            body["status"] = {"sandbox": {"name": name}}
            names = {*sorted(names - taken - {name})[: pool["spec"]["replicas"]], name}
        for name in sorted(names):
            if ("pods", name) not in self.objects:
                metadata = {"name": name, "labels": dict(template["metadata"]["labels"]), "annotations": {}}
                self._make("pods", {"metadata": metadata, "spec": template["spec"]})

    def run_pod(self, name: str, body: dict) -> None:
        address = ".".join(map(str, [127, *(random.SystemRandom().randrange(2, 250) for _ in range(3))]))
        self.running[name] = Pod(self, body["spec"], self.directory / body["metadata"]["uid"][:8], address)

    def _seen(self, key: tuple[str, str]) -> dict:
        found = dict(self.objects[key])
        if key[0] == "pods":
            pod = self.running.get(key[1])
            found["status"] = pod.described() if pod else self.statuses.get(key[1], {"phase": "Pending"})
        return found

    def _sandboxes(self) -> set[str]:
        """Names of the pods of claims."""
        return {each["status"]["sandbox"]["name"] for (kind, _), each in self.objects.items() if kind == "sandboxclaims"}

    def _delete(self, kind: str, name: str) -> None:
        found = self.objects[kind, name]
        if kind == "sandboxwarmpools":
            for key in [key for key in self.objects if key[0] == "pods" and key[1].startswith(name)]:
                if key[1] not in self._sandboxes():
                    self._delete(*key)
        elif kind == "sandboxclaims":
            del self.objects[kind, name]
            if ("pods", sandbox := found["status"]["sandbox"]["name"]) in self.objects:
                self._delete("pods", sandbox)
            return
        pod = self.running.get(name) if kind == "pods" else None
        if pod is None:
            del self.objects[kind, name]
            return
        self.objects[kind, name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if not pod.ending.is_set():
            pod.end()
            threading.Thread(target=self._remove, args=(name, pod), daemon=True).start()

    def _remove(self, name: str, pod: Pod) -> None:
        pod.over.wait()
        with self.lock:
            del self.running[name]
            gone = self.objects.pop(("pods", name))
            if name in self._sandboxes():  # agent-sandbox makes another one
                labels = {key: value for key, value in gone["metadata"]["labels"].items() if key in LABELS}
                self._make("pods", {"metadata": {"name": name, "labels": labels, "annotations": {}}, "spec": gone["spec"]})

    def names(self, kind: str = "pods") -> list[str]:
        """Those of sessions."""
        with self.lock:
            found = {key: each["metadata"]["labels"] for key, each in self.objects.items() if key[0] == kind}
            return [name for (_, name), labels in found.items() if labels.items() >= LABELS.items()]

    def pod(self, name: str) -> dict | None:
        """None where there is none."""
        with self.lock:
            return self._seen(("pods", name)) if ("pods", name) in self.objects else None

    def delete(self, name: str) -> None:
        """As a drain does."""
        self.answer("DELETE", "pods", name, body={})

    def kill(self, name: str, container: str) -> None:
        """Kills the first process of a container."""
        getattr(self.running[name], container).kill()

    def until_over(self, name: str) -> None:
        assert self.running[name].over.wait(PATIENCE)

    def until_gone(self) -> None:
        end = time.monotonic() + PATIENCE
        while self.names():
            assert time.monotonic() < end, f"pods are left: {self.names()}"
            time.sleep(0.05)

    def said(self, name: str) -> str:
        return (self.running[name].directory / "controller.log").read_text()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        for pod in list(self.running.values()):
            pod.kill()
            pod.over.wait(PATIENCE)
        self.stop_egress()
        self.starter.shutdown()
        with contextlib.suppress(OSError):
            shutil.rmtree(self.directory)
