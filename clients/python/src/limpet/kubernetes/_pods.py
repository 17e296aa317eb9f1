"""Sessions in pods of a Kubernetes cluster, one in each."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, Union

from .._connection._keys import KeyFile
from .._protocol import _requests, _wire
from .._protocol._requests import Body, Request
from .._sync.client import Client
from .._sync.session import Session
from ..errors import BadRequest, Error, NoSuchSession, Unavailable
from ..results import Result
from . import _api
from ._pod import PORT, PodOptions, claim, object_name, pod

T = TypeVar("T")

_POLL = 0.1  # seconds between looks at a pod that starts
_ENDING = 90.0  # seconds in which a pod that ends makes room for the next of its name
_FROM_POD = ("memory", "cpus", "image", "network", "bindings", "data", "packages", "template", "pip", "build")


class _PodClient(Client):
    """A client of the controller in one pod. The pod goes with its session."""

    def __init__(self, pods: Pods, found: Body, address: str, **arguments: Any) -> None:
        super().__init__(address, **arguments)
        self._pods, self._session = pods, _api.session_of(found)
        self._uid = found["metadata"]["uid"]

    def _request(self, request: Request[T], start: bool = True, stream: Any = None) -> T:
        closes = request.kind == _wire.CLOSE and request.body.get("session") == self._session
        try:
            reply = super()._request(request, start, stream)
        except Unavailable as error:
            why = self._pods._why_gone(self._session, self._uid)
            if why is None:
                raise
            raise NoSuchSession(f"the session '{self._session}' is gone: {why}") from error
        if closes:
            self._pods._forget(self._session, self._uid)
        return reply


class Pods:
    """The sessions of a namespace of a Kubernetes cluster. Each has a pod, in which a controller serves it alone.

    Needs the extra ``kubernetes``, and runs where pods can be reached: in the cluster, in a pod with the label
    ``limpet.client: "true"`` where the NetworkPolicy of ``limpet kubernetes manifest`` is in force.

    Sessions are those of :class:`limpet.Client`. Objects may be used from any number of threads; as many processes as
    one likes may use one namespace: a session's name is the name of its pod, which only one can make.

    Args:
        namespace: Namespace of the pods, or ``CONTEXT/NAMESPACE``. Without a context it is that of the pod that this
            runs in, or the current one of ``kubectl``.
        options: What new pods are like.
        key: Path of the client's pair of keys. Defaults to ``LIMPET_KEY``.
        server_key: Public key of the controllers. Defaults to ``LIMPET_SERVER_KEY``.
        artifacts: As of :class:`limpet.Client`.
        start_timeout: Seconds in which a pod has to serve its session.
    """

    def __init__(
        self,
        namespace: str,
        options: PodOptions,
        *,
        key: KeyFile = None,
        server_key: str | None = None,
        artifacts: Union[str, bool, None] = None,
        start_timeout: float = 120.0,
    ) -> None:
        context, _, name = namespace.rpartition("/")
        if not name:
            raise BadRequest(f"the namespace {namespace!r} does not have the form [CONTEXT/]NAMESPACE")
        self._cluster = _api.Cluster(name, context or None)
        self._options = options
        self._start_timeout = start_timeout
        self._arguments: dict[str, Any] = {"key": key, "server_key": server_key, "artifacts": artifacts}
        self._clients: dict[str, _PodClient] = {}
        self._lock = threading.Lock()

    def open(self, name: str | None = None, **options: Any) -> Session:
        """Opens a session, or attaches to it if it exists: see :meth:`limpet.Client.open`.

        The options ``memory``, ``cpus`` and ``image`` are those of the pod, and refused here, as are ``network``,
        ``bindings``, ``data`` and ``packages``. A session that was saved in its claim is woken.

        Raises:
            ImageMissing: An image of the pod is not there.
            LimitReached: A quota of the namespace is used up.
            EngineError: No node takes the pod, a policy refuses it, or it fails.
            Unavailable: The API server does not answer, or the pod is not there in time.
        """
        refused = [option for option in _FROM_POD if options.get(option) is not None]
        if refused:
            raise BadRequest(f"{', '.join(refused)}: not for a session in a pod; PodOptions say what pods are like")
        named = name or _requests.new_name()
        if self._options.volume is None or name is None:
            options.setdefault("ttl_action", "close")
        deadline = time.monotonic() + self._start_timeout
        made, uid = self._reserve(named, deadline)
        try:
            session = self._begun(named, deadline, lambda client: client.open(named, **options))
        except BaseException:
            if made:
                self._forget(named, uid)
            raise
        return session

    def attach(self, name: str) -> Session:
        """Attaches to an open session: see :meth:`limpet.Client.attach`.

        Raises:
            NoSuchSession: No open session has this name.
        """
        found = self._cluster.pod(object_name(name))
        if found is None or _api.is_over(found):
            why = "" if found is None else f": {_api.why_over(found)}"
            raise NoSuchSession(f"no open session is called '{name}'{why}; open it first")
        deadline = time.monotonic() + self._start_timeout
        return self._begun(name, deadline, lambda client: client.attach(name))

    def run(self, code: str, timeout: float | None = None, **arguments: Any) -> Result:
        """Runs code in a pod of its own, which is removed afterwards: see :meth:`limpet.Session.run`."""
        with self.open() as session:
            return session.run(code, timeout, **arguments)

    def sessions(self) -> list[str]:
        """The names of the open sessions, of every client of the namespace."""
        return sorted(_api.session_of(found) for found in self._cluster.pods() if not _api.is_over(found))

    def close_session(self, name: str) -> None:
        """Ends the session of this name, and what was saved of it.

        Raises:
            NoSuchSession: No session has this name.
        """
        found = self._cluster.pod(object_name(name))
        if found is None or _api.session_of(found) != name:
            raise NoSuchSession(f"no session is called '{name}'")
        self._forget(name, found["metadata"]["uid"])

    def close(self) -> None:
        """Closes the connections. Sessions stay open."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()
        self._cluster.close()

    def __enter__(self) -> Pods:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _reserve(self, name: str, deadline: float) -> tuple[bool, str | None]:
        """Makes the pod, unless it is there; whether it was made, and its uid. One that has ended makes room."""
        if self._options.volume is not None:
            self._cluster.create("persistent_volume_claim", claim(name, self._options))
        ending = min(deadline, time.monotonic() + _ENDING)
        while not self._cluster.create("pod", pod(name, self._options)):
            found = self._cluster.pod(object_name(name))
            if found is None:
                continue
            if _api.session_of(found) != name:
                raise BadRequest(f"the pod {object_name(name)} is not one of a session called '{name}'")
            if not _api.is_over(found):
                return False, found["metadata"]["uid"]
            if time.monotonic() > ending:
                raise Unavailable(f"the pod {object_name(name)} of an earlier session does not end: {_api.why_over(found)}")
            self._cluster.delete("pod", object_name(name), found["metadata"]["uid"])
            time.sleep(_POLL)
        found = self._cluster.pod(object_name(name))
        return True, found and found["metadata"]["uid"]

    def _begun(self, name: str, deadline: float, begin: Callable[[_PodClient], Session]) -> Session:
        """The session of a pod, which may be starting, and whose controller may not listen yet."""
        began = time.monotonic()
        while True:
            client = self._client(name, began, deadline)
            try:
                return begin(client)
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL)

    def _client(self, name: str, began: float, deadline: float) -> _PodClient:
        """A client of the pod of a session, once that runs."""
        while True:
            found = self._cluster.pod(object_name(name))
            if found is None:
                raise NoSuchSession(f"the pod of the session '{name}' was deleted")
            failure = _api.failure_of(found, began)
            if failure is not None:
                raise failure
            address = _api.address_of(found)
            if address is not None:
                return self._connected(name, found, address)
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the pod {object_name(name)} does not run after {self._start_timeout:.0f} seconds; "
                    f"`kubectl --namespace {self._cluster.namespace} describe pod {object_name(name)}` says more"
                )
            time.sleep(_POLL)

    def _connected(self, name: str, found: Body, address: str) -> _PodClient:
        host = f"[{address}]" if ":" in address else address
        uid = found["metadata"]["uid"]
        with self._lock:
            known = self._clients.get(name)
            if known is None or known._uid != uid:
                known = _PodClient(self, found, f"tcp://{host}:{PORT}", **self._arguments)
                self._clients[name] = known
        return known

    def _why_gone(self, name: str, uid: str) -> str | None:
        """Why the pod is not the one any more, None while it is, or nobody can say."""
        try:
            found = self._cluster.pod(object_name(name))
        except Error:
            return None
        if found is None or found["metadata"]["uid"] != uid:
            return "its pod was deleted"
        return _api.why_over(found) if _api.is_over(found) else None

    def _forget(self, name: str, uid: str | None) -> None:
        """Deletes what there is of a session in the cluster."""
        with self._lock:
            client = self._clients.pop(name, None)
        if client is not None and client._uid == uid:
            with contextlib.suppress(Error):
                client.close()
        self._cluster.delete("pod", object_name(name), uid)
        if self._options.volume is not None:
            self._cluster.delete("persistent_volume_claim", object_name(name))
