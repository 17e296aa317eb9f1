"""Sessions in pods of a Kubernetes cluster, one in each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from .._connection._keys import KeyFile
from .._protocol import _requests, _wire
from .._protocol._requests import Request
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


class _Place(NamedTuple):
    """Where the controller of a session is."""

    session: str
    uid: str
    address: str
    made: bool
    """Whether this process has made the pod."""


class _PodClient(Client):
    """A client of the controller in the pod of one session. The pod goes with the session.

    A session that was saved when its pod went is followed to the next pod; the controller there knows it by its
    instance, and wakes it.
    """

    def __init__(self, pods: Pods, place: _Place, **arguments: Any) -> None:
        super().__init__(place.address, **arguments)
        self._pods, self._place = pods, place
        self._moving = threading.Lock()

    def _request(self, request: Request[T], start: bool = True, stream: Any = None) -> T:
        place = self._place
        closes = request.kind == _wire.CLOSE and request.body.get("session") == place.session
        deadline = time.monotonic() + self._pods._start_timeout
        try:
            while True:
                try:
                    reply = super()._request(request, start, stream)
                    break
                except Unavailable as error:
                    refused = error.__cause__ is None  # by a controller that ends with its session
                    if time.monotonic() > deadline or (request.once and not refused):
                        raise
                    if not refused and self._pods._why_gone(place) is None:
                        raise
                time.sleep(_POLL)
        except NoSuchSession:
            if self._place.made:  # for a session that is not in its claim after all
                self._pods._forget(self._place)
            raise
        if closes:
            self._pods._forget(self._place)
        return reply

    def _connection(self, start: bool, attempts: Any) -> Any:
        place = self._place
        try:
            return super()._connection(start, attempts)
        except Unavailable:
            why = self._pods._why_gone(place)
            if why is None:
                raise
            if not self._pods._saves:
                raise NoSuchSession(f"the session '{place.session}' is lost: {why}") from None
        with self._moving:
            if self._place is place:
                self._place = self._pods._next_place(place)
                self._endpoint.settle(self._place.address)
        return super()._connection(start, attempts)


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
        artifacts: str | bool | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        context, _, name = namespace.rpartition("/")
        if not name:
            raise BadRequest(f"the namespace {namespace!r} does not have the form [CONTEXT/]NAMESPACE")
        self._cluster = _api.Cluster(name, context or None)
        self._options = options
        self._start_timeout = start_timeout
        self._arguments: dict[str, Any] = {"key": key, "server_key": server_key, "artifacts": artifacts}
        self._saves = options.volume is not None
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
            raise BadRequest(
                f"{', '.join(refused)}: not for a session in a pod; PodOptions say what pods are like"
            )
        named = name or _requests.new_name()
        if not self._saves or name is None:
            options.setdefault("ttl_action", "close")
        deadline = time.monotonic() + self._start_timeout
        made = self._reserve(named, deadline)
        try:
            return self._begun(named, made, deadline, lambda client: client.open(named, **options))
        except BaseException:
            if made:
                self._cluster.delete("pod", object_name(named))
            raise

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
        return self._begun(name, False, deadline, lambda client: client.attach(name))

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
        self._forget(_Place(name, found["metadata"]["uid"], "", False))

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

    def _reserve(self, name: str, deadline: float) -> bool:
        """Makes the pod, unless it is there. One that has ended makes room first."""
        if self._saves:
            self._cluster.create("persistent_volume_claim", claim(name, self._options))
        while not self._cluster.create("pod", pod(name, self._options)):
            found = self._cluster.pod(object_name(name))
            if found is None:
                continue
            if _api.session_of(found) != name:
                raise BadRequest(f"the pod {object_name(name)} is not that of a session called '{name}'")
            if not _api.is_over(found):
                return False
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the pod {object_name(name)} of before does not end: {_api.why_over(found)}"
                )
            self._cluster.delete("pod", object_name(name), found["metadata"]["uid"])
            time.sleep(_POLL)
        return True

    def _begun(
        self, name: str, made: bool, deadline: float, begin: Callable[[_PodClient], Session]
    ) -> Session:
        """The session of a pod, which may be starting, and whose controller may not listen yet."""
        began = time.monotonic()
        while True:
            client = self._client(self._placed(name, made, began, deadline))
            try:
                return begin(client)
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL)

    def _placed(self, name: str, made: bool, began: float, deadline: float) -> _Place:
        """Where the controller of a session is, once it runs."""
        while True:
            found = self._cluster.pod(object_name(name))
            if found is None:
                raise NoSuchSession(f"the pod of the session '{name}' was deleted")
            failure = _api.failure_of(found, began)
            if failure is not None:
                raise failure
            address = _api.address_of(found)
            if address is not None:
                host = f"[{address}]" if ":" in address else address
                return _Place(name, found["metadata"]["uid"], f"tcp://{host}:{PORT}", made)
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the pod {object_name(name)} does not run after {self._start_timeout:.0f} seconds; "
                    f"`kubectl --namespace {self._cluster.namespace} describe pod {object_name(name)}` says more"
                )
            time.sleep(_POLL)

    def _client(self, place: _Place) -> _PodClient:
        with self._lock:
            known = self._clients.get(place.session)
            if known is None or known._place.uid != place.uid:
                known = self._clients[place.session] = _PodClient(self, place, **self._arguments)
        return known

    def _next_place(self, place: _Place) -> _Place:
        """A pod for a session whose pod is gone."""
        began = time.monotonic()
        deadline = began + self._start_timeout
        made = self._reserve(place.session, deadline)
        return self._placed(place.session, made, began, deadline)

    def _why_gone(self, place: _Place) -> str | None:
        """Why the pod is not the one any more, None while it is, or nobody can say."""
        try:
            found = self._cluster.pod(object_name(place.session))
        except Error:
            return None
        if found is None or found["metadata"]["uid"] != place.uid:
            return "its pod was deleted"
        return _api.why_over(found) if _api.is_over(found) else None

    def _forget(self, place: _Place) -> None:
        """Deletes what there is of a session in the cluster."""
        with self._lock:
            client = self._clients.get(place.session)
            if client is not None and client._place.uid == place.uid:
                del self._clients[place.session]
        self._cluster.delete("pod", object_name(place.session), place.uid)
        if self._saves:
            self._cluster.delete("persistent_volume_claim", object_name(place.session))
