"""The pod of a session: a controller, and beside it the guest that it serves."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from .._protocol._requests import Body
from ..errors import BadRequest

PORT = 7310
SECRET = "limpet-controller"
SESSION = "limpet.session"
"""Annotation: the name of the session, in full."""
ENDS = "limpet.ends"
"""Annotation: the session ends when it is idle, and is not saved then."""
GROUP = "limpet.group"
"""Label: of sessions whose names have a dot, what is before the first one."""
NAME, COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"
LABELS = {NAME: "limpet", COMPONENT: "session"}
HOLDER_LABELS = {NAME: "limpet", COMPONENT: "name"}
POOL = "limpet.pool"
"""Label of a pod that was made for the pool: a hash of what it is like."""
FREE = "limpet.free"
"""Label of one that no session has taken."""
TAKEN = "limpet.taken"
"""Annotation of what holds the name of a session whose pod has another one: that pod, and its uid."""
SANDBOXES = "extensions.agents.x-k8s.io/v1beta1"
CONTROLLER, GUEST = "controller", "guest"
VARIABLE = "LIMPET_POD_"
"""What variables with values of PodOptions begin with."""

_STATE = "/var/lib/limpet"
_PLAIN = re.compile(r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?")

# The controller leads it to the session, or says that none comes. The pipe tells the controller when this container has
# ended.
_START = """\
trap exit TERM
until cd /run/limpet/.current 2>/dev/null && exec 9<alive; do
    [ ! -e /run/limpet/.ended ] || exit 0
    sleep 0.05
done
exec prlimit --core=0 --nofile=1024:4096 --memlock=65536 --msgqueue=0 -- /usr/lib/limpet/limpet-guest --link .
"""
_ENVIRONMENT = {
    "HOME": "/home/user",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/mpl",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True)
class PodOptions:
    """What the pods of sessions are like.

    Args:
        image: Image of the sandbox, which ``limpet image build`` makes.
        controller_image: Image with ``limpetd`` and ``limpet-net``.
        memory: Memory of the sandbox, requested and at most, as Kubernetes writes it.
        cpus: Processors of the sandbox, requested and at most; may be a fraction.
        volume: Size of a claim that holds a session and its files, such as ``"2Gi"``. A session is saved there when its
            pod goes, and the next pod wakes it. None: the session ends with its pod.
        storage_class: Storage class of that claim. None: that of the cluster.
        pull: When the images are pulled: ``"IfNotPresent"``, ``"Always"`` or ``"Never"``.
        runtime_class: RuntimeClass of the pods. None: that of the cluster.
        host_users: False gives each pod a user namespace of its own. None: the cluster's own way.
        warm: Pods that are kept ready, with the controller's ``imports`` done. A session takes one of them. Not with a
            ``volume``.
        network_proof: ``"ask"``: a pod that reaches the DNS or the API server of the cluster serves no session.
            ``"trust"``: it does, and the network is what the cluster makes of it.
        agent_sandbox: Whether agent-sandbox makes the pods: a session is a SandboxClaim, and its pool a
            SandboxWarmPool. Not with a ``volume``.
    """

    image: str
    controller_image: str
    memory: str = "1Gi"
    cpus: float = 1.0
    volume: str | None = None
    storage_class: str | None = None
    pull: str = "IfNotPresent"
    runtime_class: str | None = None
    host_users: bool | None = None
    network_proof: str = "ask"
    warm: int = 0
    agent_sandbox: bool = False

    def __post_init__(self) -> None:
        if (self.warm or self.agent_sandbox) and self.volume is not None:
            raise BadRequest(
                "a pod that is kept warm, or is of agent-sandbox, has no claim, as that is of one session: "
                "leave out warm and agent_sandbox, or volume"
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> PodOptions:
        """As variables say: ``LIMPET_POD_IMAGE``, ``LIMPET_POD_CONTROLLER_IMAGE``, ``LIMPET_POD_MEMORY`` and so on.

        In a cluster they are the config map ``limpet-pods`` of ``limpet kubernetes manifest``.
        """
        given: dict[str, Any] = {}
        for name in (each.name for each in fields(cls)):
            text = environment.get(VARIABLE + name.upper(), "")
            if text:
                given[name] = _read(name, text)
        missing = [VARIABLE + name.upper() for name in ("image", "controller_image") if name not in given]
        if missing:
            raise BadRequest(
                f"what pods are like is not known: set {' and '.join(missing)}, or give PodOptions"
            )
        return cls(**given)


_READ: dict[str, tuple[Callable[[str], Any], str]] = {
    "cpus": (float, "a number such as 1.5"),
    "host_users": ({"true": True, "false": False}.__getitem__, "true or false"),
    "agent_sandbox": ({"true": True, "false": False}.__getitem__, "true or false"),
    "warm": (int, "a number such as 2"),
}


def _read(name: str, text: str) -> Any:
    read, means = _READ.get(name, (str, ""))
    try:
        return read(text)
    except (KeyError, ValueError):
        raise BadRequest(f"{VARIABLE}{name.upper()} cannot be {text!r}: {means}") from None


def object_name(session: str) -> str:
    """Of the pod and the claim of a session. Names that no object may have get a hash."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", session):
        raise BadRequest(f"a session cannot be called {session!r}: 1 to 64 characters of A-Z a-z 0-9 . _ -")
    if _PLAIN.fullmatch(session):
        return f"limpet-{session}"
    slug = re.sub(r"[^a-z0-9]+", "-", session.lower()).strip("-")[:32].strip("-")
    return f"limpet-{slug}-x{hashlib.sha256(session.encode()).hexdigest()[:12]}"


def memory_bytes(text: str) -> int:
    """As Kubernetes reads it."""
    found = re.fullmatch(r"(\d+)(Ki|Mi|Gi|Ti|k|M|G|T)?", text)
    if found is None:
        raise BadRequest(f"memory cannot be {text!r}: a number with Ki, Mi or Gi, such as 512Mi")
    unit = found[2] or ""
    power = "kmgt".index(unit[0].lower()) + 1 if unit else 0
    base: int = 1024 if unit.endswith("i") else 1000
    return int(int(found[1]) * base**power)


def claim(session: str, options: PodOptions, ends: bool) -> Body:
    """The claim of a session, for what outlives its pod."""
    spec: Body = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": options.volume}},
    }
    if options.storage_class is not None:
        spec["storageClassName"] = options.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(session, ends),
        "spec": spec,
    }


def pod(session: str, options: PodOptions, ends: bool) -> Body:
    """The pod of a session, which ``ends`` when it is idle, or is saved.

    The kubelet ends the controller first, which is the container that the pod is about, and the guest after it: so the
    controller can still save the session. It starts either again if it fails.
    """
    spec = _spec(options, _volumes(session, options), {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(session, ends), "spec": spec}


def pool_of(options: PodOptions) -> str:
    """Of which pool the pods of such options are."""
    return hashlib.sha256(json.dumps(asdict(replace(options, warm=0))).encode()).hexdigest()[:8]


def warm_pod(number: int, options: PodOptions) -> Body:
    """A pod of the pool, which waits for its session with everything imported.

    No session has an object of such a name.
    """
    pool = pool_of(options)
    settings = {"LIMPET_POOL": "1", "LIMPET_MEMORY_IMAGES": "off", "LIMPET_CLAIM_TIMEOUT": "0"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"warm-limpet-{pool}-{number}", "labels": {**LABELS, POOL: pool, FREE: "true"}},
        "spec": _spec(options, _volumes("", options), settings),
    }


def taking(session: str, ends: bool) -> Body:
    """What makes a pod that of a session."""
    metadata = _metadata(session, ends)
    return {"labels": {**metadata["labels"], FREE: None}, "annotations": metadata["annotations"]}


def naming(found: Body) -> Body:
    """What has the name of a session say which pod is its."""
    about = found["metadata"]
    return {"annotations": {TAKEN: f"{about['name']} {about['uid']}"}}


def holder(session: str, found: Body, options: PodOptions, ends: bool) -> Body:
    """What has the name of a session whose pod is of the pool: a pod that no node gets, which goes with it."""
    about = found["metadata"]
    metadata = _metadata(session, ends)
    metadata["labels"] = HOLDER_LABELS
    metadata["annotations"] |= naming(found)["annotations"]
    metadata["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": about["name"], "uid": about["uid"]}
    ]
    nearly_nothing = {"memory": "1Mi", "cpu": "1m"}  # a quota wants to know
    container = {
        "name": "name",
        "image": options.image,
        "resources": {"requests": nearly_nothing, "limits": nearly_nothing},
    }
    spec = {
        "schedulingGates": [{"name": TAKEN}],
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def taken_by(found: Body) -> tuple[str, str]:
    """Name and uid of the pod of a session, by what has its name, which may be that pod."""
    about = found["metadata"]
    name, _, uid = about.get("annotations", {}).get(TAKEN, "").partition(" ")
    return (name, uid) if uid else (about["name"], about["uid"])


def sandbox_pool(options: PodOptions) -> dict[str, Body]:
    """What agent-sandbox makes pods of, by kind."""
    metadata = {"name": f"limpet-{pool_of(options)}", "labels": {**LABELS, POOL: pool_of(options)}}
    made = warm_pod(0, options)
    template = {
        "podTemplate": {"metadata": {"labels": LABELS}, "spec": made["spec"]},
        "networkPolicyManagement": "Unmanaged",  # its own lets pods reach the internet
    }
    pool = {"replicas": options.warm, "sandboxTemplateRef": {"name": metadata["name"]}}
    return {
        "sandbox_template": _sandbox_object("SandboxTemplate", metadata, template),
        "sandbox_pool": _sandbox_object("SandboxWarmPool", metadata, pool),
    }


def sandbox_claim(session: str, options: PodOptions, ends: bool) -> Body:
    """What has the name of a session whose pod is made by agent-sandbox. It takes the pod along."""
    spec = {
        "warmPoolRef": {"name": f"limpet-{pool_of(options)}"},
        "lifecycle": {"ttlSecondsAfterFinished": 600, "shutdownPolicy": "Delete"},
    }
    return _sandbox_object("SandboxClaim", _metadata(session, ends), spec)


def _sandbox_object(kind: str, metadata: Body, spec: Body) -> Body:
    return {"apiVersion": SANDBOXES, "kind": kind, "metadata": metadata, "spec": spec}


def _spec(options: PodOptions, volumes: list[Body], settings: dict[str, str]) -> Body:
    spec: Body = {
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [_guest(options)],
        "containers": [_controller(options, settings)],
        "volumes": volumes,
    }
    if options.runtime_class is not None:
        spec["runtimeClassName"] = options.runtime_class
    if options.host_users is not None:
        spec["hostUsers"] = options.host_users
    return spec


def group_of(session: str) -> str:
    """What is before the first dot of its name; empty where that can be no label."""
    group, dot, _ = session.partition(".")
    return group if dot and group.isalnum() else ""


def _metadata(session: str, ends: bool) -> Body:
    group = group_of(session)
    labels = {**LABELS, GROUP: group} if group else dict(LABELS)
    annotations = {SESSION: session, ENDS: "true"} if ends else {SESSION: session}
    return {"name": object_name(session), "labels": labels, "annotations": annotations}


def _guest(options: PodOptions) -> Body:
    threads = max(1, -(-int(options.cpus * 1000) // 1000))
    limits = {"memory": options.memory, "cpu": f"{int(options.cpus * 1000)}m"}
    return {
        "name": GUEST,
        "image": options.image,
        "imagePullPolicy": options.pull,
        "restartPolicy": "Always",
        "command": ["/bin/sh", "-c", _START],
        "env": _env({**_ENVIRONMENT, "OMP_NUM_THREADS": str(threads)}),
        "resources": {"requests": limits, "limits": limits},
        "securityContext": _rights("SETUID", "SETGID", "KILL"),
        "volumeMounts": [
            {"name": "run", "mountPath": "/run", "subPath": GUEST},
            {"name": "link", "mountPath": "/run/limpet", "readOnly": True},
            _part("/session", "files"),
            _part("/tmp", "scratch/tmp"),
            _part("/home/user", "scratch/home"),
            _part("/work", "scratch/work"),
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }


def _controller(options: PodOptions, more: dict[str, str]) -> Body:
    settings = {
        "LIMPET_ENGINE": "pod",
        "LIMPET_LISTEN": f"tcp://*:{PORT}",
        "LIMPET_NETWORK_PROOF": options.network_proof,
        "LIMPET_MEMORY": str(memory_bytes(options.memory)),
        "LIMPET_CPUS": f"{options.cpus:g}",
        "LIMPET_POOL": "0",
        **more,
    }
    return {
        "name": CONTROLLER,
        "image": options.controller_image,
        "imagePullPolicy": options.pull,
        "command": ["limpetd"],
        "env": _env(settings),
        "ports": [{"containerPort": PORT}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"memory": "64Mi", "cpu": "50m"}, "limits": {"memory": "512Mi"}},
        # The files of the guest's users are read and removed here; limpet-net is given a user and loses all of these.
        "securityContext": _rights("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETPCAP", "SETUID"),
        "volumeMounts": [
            {"name": "session", "mountPath": _STATE, "subPath": "state"},
            {"name": "run", "mountPath": "/run/limpet", "subPath": CONTROLLER},
            {"name": "link", "mountPath": "/run/limpet/guest"},
            {
                "name": "keys",
                "mountPath": f"{_STATE}/limpet-net.key_secret",
                "subPath": "key_secret",
                "readOnly": True,
            },
            {
                "name": "keys",
                "mountPath": "/etc/limpet/authorized_keys",
                "subPath": "authorized_keys",
                "readOnly": True,
            },
        ],
    }


def _volumes(session: str, options: PodOptions) -> list[Body]:
    session_volume: Body = {"name": "session"}
    if options.volume is None:
        session_volume["emptyDir"] = {}
    else:
        session_volume["persistentVolumeClaim"] = {"claimName": object_name(session)}
    shm = {"medium": "Memory", "sizeLimit": str(memory_bytes(options.memory) // 2)}
    return [
        session_volume,
        {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "link", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "shm", "emptyDir": shm},
        {"name": "keys", "secret": {"secretName": SECRET, "defaultMode": 0o400}},
    ]


def _part(path: str, part: str) -> Body:
    """One of the places that the code writes to, which the controller keeps."""
    return {"name": "session", "mountPath": path, "subPath": f"state/sessions/~pod/{part}"}


def _env(variables: dict[str, str]) -> list[Body]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def _rights(*capabilities: str) -> dict[str, Any]:
    return {
        "runAsUser": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": list(capabilities)},
    }
