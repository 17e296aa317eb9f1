"""The API server, as far as sessions in pods need it: pods and claims of one namespace, and why they fail."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from collections.abc import Iterator
from urllib.parse import urlencode

from kubernetes import config
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.config_exception import ConfigException
from urllib3 import Timeout
from urllib3.exceptions import HTTPError

from .._protocol._requests import Body
from ..errors import BadRequest, Denied, EngineError, Error, ImageMissing, LimitReached, Unavailable
from . import _pod
from ._pod import (
    CONTROLLER,
    ENDS,
    FREE,
    GROUP,
    HOLDER_LABELS,
    LABELS,
    POOL,
    SANDBOXES,
    SESSION,
    TAKEN,
    PodOptions,
    object_name,
)

_TIMEOUT = Timeout(connect=3.0, read=10.0)  # seconds
_PATHS = {  # of an API, and what it calls them
    "pod": ("api/v1", "pods"),
    "persistent_volume_claim": ("api/v1", "persistentvolumeclaims"),
    "service": ("api/v1", "services"),
    "sandbox_claim": (f"apis/{SANDBOXES}", "sandboxclaims"),
    "sandbox_pool": (f"apis/{SANDBOXES}", "sandboxwarmpools"),
    "sandbox_template": (f"apis/{SANDBOXES}", "sandboxtemplates"),
}
_PATCH = "application/merge-patch+json"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PLACING = 10.0  # seconds in which a pod that no node has room for may find one
_NO_IMAGE = (
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
)  # fmt: skip
_ENDED = ("Succeeded", "Failed")  # phases
_NO_SANDBOX = ("WarmPoolNotFound", "TemplateNotFound", "ReconcilerError")  # why agent-sandbox has no pod
_NOT_MADE = ("CreateContainerConfigError", "CreateContainerError", "CrashLoopBackOff", "RunContainerError")


class _Refused(Exception):
    """The API server's answer to what it has not done."""

    def __init__(self, status: int, said: Body) -> None:
        super().__init__(status)
        self.status = status
        self.reason = str(said.get("reason") or "")
        self.message = str(said.get("message") or self.reason or "no reason")


class Cluster:
    """One namespace of a cluster. Objects are as the API has them, in JSON.

    Of the official client it takes what finds a cluster and connects to it. The rest of that client, a function for
    each request and a class for each object, takes as much memory as hundreds of sessions.

    ``agent_sandbox``: whether that makes the pods. A session's name is then the name of its SandboxClaim.
    """

    def __init__(self, namespace: str, context: str | None, agent_sandbox: bool = False) -> None:
        self.namespace = namespace
        self.agent_sandbox = agent_sandbox
        self._filled = False
        settings = Configuration()
        try:
            if context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
                config.load_incluster_config(settings)
            else:
                config.load_kube_config(context=context, client_configuration=settings)
        except (ConfigException, OSError) as error:
            raise BadRequest(
                f"no cluster is configured: {error}; `kubectl config get-contexts` shows the contexts that there are"
            ) from error
        self._settings = settings
        self._http = RESTClientObject(settings).pool_manager

    def create(self, kind: str, body: Body) -> bool:
        """False where there is one of that name: an object's name belongs to who made it first."""
        with self._told(f"a {kind} cannot be made"):
            try:
                self._call("POST", kind, body=body)
            except _Refused as error:
                if error.status != 409 or error.reason != "AlreadyExists":
                    raise
                return False
        return True

    def pod(self, name: str) -> Body | None:
        """None where there is none."""
        return self._read("pod", name)

    def claim(self, name: str) -> Body | None:
        """None where there is none."""
        return self._read("persistent_volume_claim", name)

    def service(self, name: str) -> str | None:
        """Address and port of a service, None where there is none."""
        found = self._read("service", name)
        if found is None:
            return None
        address, port = found["spec"]["clusterIP"], found["spec"]["ports"][0]["port"]
        return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"

    def pod_of(self, session: str) -> Body | None:
        """The pod of a session, None where nothing has its name. One that is gone has ended, and one is pending that
        agent-sandbox has not made yet.
        """
        held = self._held(session)
        if held is None:
            return None
        if self.agent_sandbox and TAKEN not in held["metadata"].get("annotations", {}):
            return self._named(session, held)
        name, uid = _pod.taken_by(held)
        found = held if uid == held["metadata"]["uid"] else self.pod(name)
        if found is not None and found["metadata"]["uid"] == uid:
            return found
        return {
            "metadata": {**held["metadata"], "uid": uid},
            "status": {"phase": "Failed", "reason": "its pod was deleted"},
        }

    def _held(self, session: str) -> Body | None:
        """What has the name of a session."""
        return self._read("sandbox_claim" if self.agent_sandbox else "pod", object_name(session))

    def _named(self, session: str, held: Body) -> Body:
        """The pod that a claim has got, which says so from now on: agent-sandbox makes another one, of the same name,
        if it is deleted.
        """
        status = held.get("status", {})
        name = status.get("sandbox", {}).get("name")
        found = self.pod(name) if name else None
        if found is not None and is_over(found):  # of an earlier claim
            found = None
        if found is not None:
            found = self._change("pod", found, _pod.taking(session, ends(held)))
        if found is None or self._change("sandbox_claim", held, _pod.naming(found)) is None:
            return {**held, "status": {"phase": "Pending", "conditions": status.get("conditions", [])}}
        return found

    def delete_pod_of(self, session: str, uid: str | None = None) -> None:
        """Deletes the pod of a session, and what has its name, unless it has another pod by now."""
        held = self._held(session)
        if held is None:
            return
        name, taken = _pod.taken_by(held)
        if uid not in (None, taken):
            return
        if self.agent_sandbox:
            self.delete("sandbox_claim", held["metadata"]["name"], held["metadata"]["uid"])
            return
        for each, its in {name: taken, held["metadata"]["name"]: held["metadata"]["uid"]}.items():
            self.delete("pod", each, its)

    def take(self, session: str, options: PodOptions, ends: bool) -> bool | None:
        """Takes a pod of the pool for a session. None: there is none; False: somebody else has the name."""
        if self.agent_sandbox:
            if not self._filled:
                self.fill(options)
            return self.create("sandbox_claim", _pod.sandbox_claim(session, options, ends))
        if self.pod(object_name(session)) is not None:
            return False
        for found in sorted(self.free(_pod.pool_of(options)), key=_made_at):
            if is_over(found) or not is_running(found):
                continue
            if self._change("pod", found, _pod.taking(session, ends)) is None:
                continue
            held = False
            try:
                held = self.create("pod", _pod.holder(session, found, options, ends))
            finally:
                if not held:
                    self.delete("pod", found["metadata"]["name"], found["metadata"]["uid"])
            return held
        return None

    def fill(self, options: PodOptions) -> None:
        """Makes the pods that the pool lacks, or the pool of agent-sandbox. Whoever else does so at once makes those of
        the same names.
        """
        if self.agent_sandbox:
            for kind, body in _pod.sandbox_pool(options).items():
                self.create(kind, body)
            self._filled = True
            return
        pool = _pod.pool_of(options)
        there = self._listed("pod", f"{POOL}={pool}")
        ready = sum(FREE in found["metadata"]["labels"] and not is_over(found) for found in there)
        names = {found["metadata"]["name"] for found in there}
        numbered = (_pod.warm_pod(number, options) for number in itertools.count())
        unused = (body for body in numbered if body["metadata"]["name"] not in names)
        for body in itertools.islice(unused, max(0, options.warm - ready)):
            self.create("pod", body)

    def free(self, pool: str = "") -> list[Body]:
        """Those of the pool, or of all, that no session has taken."""
        return self._listed("pod", f"{FREE},{POOL}={pool}" if pool else FREE)

    def holders(self) -> list[Body]:
        """What has the names of sessions whose pods have names of their own."""
        if self.agent_sandbox:
            return self._listed("sandbox_claim", _selector(""), whole=False)
        return self._listed("pod", ",".join(f"{key}={value}" for key, value in HOLDER_LABELS.items()))

    def sandbox_pools(self, kind: str) -> list[Body]:
        """The metadata of what agent-sandbox makes pods of, whichever they are like."""
        return self._listed(kind, _selector(""), whole=False)

    def pods(self, group: str = "") -> list[Body]:
        """Those of sessions, or of a group of them."""
        return _of_sessions(self._listed("pod", f"{_selector(group)},!{FREE}"))

    def going(self, group: str = "") -> list[Body]:
        """The metadata of those that have not ended."""
        fields = ",".join(f"status.phase!={phase}" for phase in _ENDED)
        found = self._listed("pod", f"{_selector(group)},!{FREE}", fields, whole=False)
        return [each for each in _of_sessions(found) if not is_over(each)]

    def ended(self) -> list[Body]:
        """The metadata of those that have ended by themselves."""
        return [
            each
            for phase in _ENDED
            for each in self._listed("pod", f"{_selector('')},!{FREE}", f"status.phase={phase}", whole=False)
        ]

    def claims(self, group: str = "") -> list[Body]:
        """The metadata of those of sessions, or of a group of them."""
        return self._listed("persistent_volume_claim", _selector(group), whole=False)

    def delete(self, kind: str, name: str, uid: str | None = None) -> None:
        """Deletes it, unless another one has its name by now."""
        body: Body = {} if uid is None else {"preconditions": {"uid": uid}}
        with self._told(f"the {kind} {name} cannot be deleted"):
            try:
                self._call("DELETE", kind, name, body)
            except _Refused as error:
                if error.status not in (404, 409):
                    raise

    def close(self) -> None:
        self._http.clear()

    def _call(
        self,
        method: str,
        kind: str,
        name: str = "",
        body: Body | None = None,
        query: dict[str, str] | None = None,
        accept: str = "application/json",
    ) -> Body:
        settings = self._settings
        api, kinds = _PATHS[kind]
        url = f"{settings.host}/{api}/namespaces/{self.namespace}/{kinds}"
        url += f"/{name}" if name else ""
        url += f"?{urlencode(query)}" if query else ""
        headers = {each["key"]: each["value"] for each in settings.auth_settings().values() if each["value"]}
        headers["Accept"] = accept
        if body is not None:
            headers["Content-Type"] = _PATCH if method == "PATCH" else "application/json"
        sent = None if body is None else json.dumps(body)
        answer = self._http.request(method, url, body=sent, headers=headers, timeout=_TIMEOUT)
        said = _object(answer.data)
        if answer.status >= 300:
            raise _Refused(answer.status, said)
        return said

    def _change(self, kind: str, found: Body, change: Body) -> Body | None:
        """Changes its metadata. None where it is not as it was found any more."""
        about = found["metadata"]
        body = {"metadata": {"resourceVersion": about["resourceVersion"], **change}}
        with self._told(f"the {kind} {about['name']} cannot be taken"):
            try:
                return self._call("PATCH", kind, about["name"], body)
            except _Refused as error:
                if error.status not in (404, 409):
                    raise
                return None

    def _listed(self, kind: str, selector: str, fields: str = "", whole: bool = True) -> list[Body]:
        """Those that there are, whole or their metadata alone, which of a pod is a tenth."""
        query = {"labelSelector": selector, "fieldSelector": fields}
        with self._told(f"each {kind} cannot be listed"):
            found = self._call(
                "GET",
                kind,
                query={name: value for name, value in query.items() if value},
                accept="application/json" if whole else f"{_METADATA},application/json",
            )
        items: list[Body] | None = found["items"]  # null where there is nothing to list the metadata of
        return items or []

    def _read(self, kind: str, name: str) -> Body | None:
        with self._told(f"the {kind} {name} cannot be looked at"):
            try:
                return self._call("GET", kind, name)
            except _Refused as error:
                if error.status == 404 and error.reason == "NotFound":
                    return None
                raise

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except _Refused as error:
            raise _refusal(what, self.namespace, error) from error
        except (HTTPError, OSError) as error:
            raise Unavailable(
                f"the API server {self._settings.host} does not answer: {error}; open sessions go on"
            ) from error


def _object(data: bytes) -> Body:
    """Empty where something else than the API server has answered."""
    try:
        found = json.loads(data or b"{}")
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _refusal(what: str, namespace: str, error: _Refused) -> Error:
    said = error.message
    if error.status == 404 and not error.reason:  # no such API, which is no object's answer
        return EngineError(
            f"{what}: agent-sandbox and its extensions are not installed, or not as {SANDBOXES}; "
            "install them, or leave out agent_sandbox"
        )
    if error.status == 429 or error.status >= 500:
        return Unavailable(f"{what}: the API server says {error.status}, {said}; try again later")
    if error.status == 403 and "exceeded quota" in said:
        return LimitReached(f"{what}: {said}; close sessions, or have the quota of {namespace} raised")
    if error.status == 401 or (error.status == 403 and " cannot " in said):
        return Denied(
            f"{what}: {said}; the role of `limpet kubernetes manifest` has the rights that are needed"
        )
    return EngineError(f"{what}: {said}")


def _selector(group: str) -> str:
    return ",".join(
        f"{key}={value}" for key, value in ({**LABELS, GROUP: group} if group else LABELS).items()
    )


def _made_at(found: Body) -> str:
    return str(found["metadata"].get("creationTimestamp", ""))


def session_of(pod: Body) -> str:
    return str(pod["metadata"].get("annotations", {}).get(SESSION, ""))


def _of_sessions(found: list[Body]) -> list[Body]:
    """Those but for pods that agent-sandbox keeps ready."""
    return [each for each in found if session_of(each)]


def ends(found: Body) -> bool:
    """Whether a pod or a claim is of a session that ends when it is idle."""
    return ENDS in found["metadata"].get("annotations", {})


def is_over(pod: Body) -> bool:
    """Whether it has ended, or is about to: nothing of it comes back."""
    return pod.get("status", {}).get("phase") in _ENDED or "deletionTimestamp" in pod["metadata"]


def why_over(pod: Body) -> str:
    """What became of it, in the words of whoever ended it."""
    status = pod["status"]
    words = [status["reason"]] if status.get("reason") else []
    words += [status["message"]] if status.get("message") else []
    for container in _containers(pod):
        for state in (container.get("state", {}), container.get("lastState", {})):
            ended = state.get("terminated") or {}
            if ended.get("reason") not in (None, "Completed"):
                words.append(f"the {container['name']} ended ({ended['reason']})")
    if not words and "deletionTimestamp" in pod["metadata"]:
        words.append("its pod was deleted")
    return ": ".join(words) or "its pod has ended"


def address_of(pod: Body) -> str | None:
    """Where its controller listens, or soon will: the kubelet tells that a container runs a second after it does."""
    address: str | None = pod["status"].get("podIP")
    return address


def is_running(pod: Body) -> bool:
    """Whether its controller is."""
    containers = pod["status"].get("containerStatuses", [])
    return any(each["name"] == CONTROLLER and "running" in each.get("state", {}) for each in containers)


def failure_of(pod: Body, since: float) -> Error | None:
    """Why no session will be served there. ``since``: when it was made, on the monotonic clock."""
    if is_over(pod):
        return EngineError(f"the pod ended before its session was there: {why_over(pod)}")
    for container in _containers(pod):
        waiting = container.get("state", {}).get("waiting") or {}
        reason, message = waiting.get("reason", ""), waiting.get("message", "")
        if reason in _NO_IMAGE:
            return ImageMissing(
                f"the image {container.get('image')} is not there: {reason}: {message}; push it to a registry that the "
                "nodes pull from, or load it on each node (docs/everywhere.md)"
            )
        if reason in _NOT_MADE:
            last = (container.get("lastState", {}).get("terminated") or {}).get("message", "").strip()
            return EngineError(
                f"the {container['name']} of the pod does not run: {last or message or reason}"
            )
    for condition in pod["status"].get("conditions", []):
        waits = condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
        if waits and time.monotonic() - since > _PLACING:
            return EngineError(f"no node takes the pod: {condition.get('message', 'Unschedulable')}")
        if condition.get("reason") in _NO_SANDBOX and time.monotonic() - since > _PLACING:
            said = condition.get("message", condition["reason"])
            kind = LimitReached if "exceeded quota" in said else EngineError
            return kind(f"agent-sandbox makes no pod: {said}")
    return None


def _containers(pod: Body) -> list[Body]:
    status = pod["status"]
    return [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
