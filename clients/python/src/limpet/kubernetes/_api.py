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
from ._pod import CONTROLLER, ENDS, FREE, GROUP, HOLDER_LABELS, LABELS, POOL, SESSION, PodOptions, object_name

_TIMEOUT = Timeout(connect=3.0, read=10.0)  # seconds
_PATHS = {"pod": "pods", "persistent_volume_claim": "persistentvolumeclaims", "service": "services"}
_PATCH = "application/strategic-merge-patch+json"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PLACING = 10.0  # seconds in which a pod that no node has room for may find one
_NO_IMAGE = (
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
)  # fmt: skip
_ENDED = ("Succeeded", "Failed")  # phases
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
    """

    def __init__(self, namespace: str, context: str | None) -> None:
        self.namespace = namespace
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
        """The pod of a session, None where nothing has its name. One of the pool that is gone has ended."""
        held = self.pod(object_name(session))
        if held is None:
            return None
        name, uid = _pod.taken_by(held)
        found = held if name == held["metadata"]["name"] else self.pod(name)
        if found is not None and found["metadata"]["uid"] == uid:
            return found
        return {
            "metadata": {**held["metadata"], "uid": uid},
            "status": {"phase": "Failed", "reason": "its pod was deleted"},
        }

    def delete_pod_of(self, session: str, uid: str | None = None) -> None:
        """Deletes the pod of a session, and what has its name, unless it has another pod by now."""
        held = self.pod(object_name(session))
        if held is None:
            return
        name, taken = _pod.taken_by(held)
        if uid in (None, taken):
            for each, its in {name: taken, held["metadata"]["name"]: held["metadata"]["uid"]}.items():
                self.delete("pod", each, its)

    def take(self, session: str, options: PodOptions, ends: bool) -> bool | None:
        """Takes a pod of the pool for a session. None: there is none; False: somebody else has the name."""
        if self.pod(object_name(session)) is not None:
            return False
        for found in sorted(self.free(_pod.pool_of(options)), key=_made_at):
            if is_over(found) or address_of(found) is None:
                continue
            if not self._change_pod(found, _pod.taking(found, session, ends)):
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
        """Makes the pods that the pool lacks. Whoever else does so at once makes those of the same names."""
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
        """What has the names of sessions whose pods are of a pool."""
        return self._listed("pod", ",".join(f"{key}={value}" for key, value in HOLDER_LABELS.items()))

    def pods(self, group: str = "") -> list[Body]:
        """Those of sessions, or of a group of them."""
        return self._listed("pod", f"{_selector(group)},!{FREE}")

    def going(self, group: str = "") -> list[Body]:
        """The metadata of those that have not ended."""
        fields = ",".join(f"status.phase!={phase}" for phase in _ENDED)
        found = self._listed("pod", f"{_selector(group)},!{FREE}", fields, whole=False)
        return [each for each in found if not is_over(each)]

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
        url = f"{settings.host}/api/v1/namespaces/{self.namespace}/{_PATHS[kind]}"
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

    def _change_pod(self, found: Body, change: Body) -> bool:
        """False where it is not as it was found any more."""
        with self._told("a pod of the pool cannot be taken"):
            try:
                self._call("PATCH", "pod", found["metadata"]["name"], change)
            except _Refused as error:
                if error.status not in (404, 409):
                    raise
                return False
        return True

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
    """Where its controller listens, once that runs."""
    for container in pod["status"].get("containerStatuses", []):
        if container["name"] == CONTROLLER and "running" in container.get("state", {}):
            address: str | None = pod["status"].get("podIP")
            return address
    return None


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
    return None


def _containers(pod: Body) -> list[Body]:
    status = pod["status"]
    return [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
