"""Sessions in pods of a Kubernetes cluster, one in each. The blocking client of them is generated from this file."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from .._connection._keys import KeyFile
from .._connection._recovery import Attempts, ConnectionLost
from .._copying._bringing import Artifacts
from .._protocol import _requests, _wire
from .._protocol._requests import Body, Request
from ..errors import BadRequest, Error, NoSuchRun, NoSuchSession, SessionClosed, Unavailable
from ..kubernetes import _api, _egress
from ..kubernetes._pod import POOL, PORT, PodOptions, claim, object_name, pod, pool_of, taken_by
from ..results import Between, Result, SessionInfo
from .client import AsyncClient
from .connecting import Lock, in_thread, opening, sleep
from .session import AsyncSession

T = TypeVar("T")

_POLL = 0.1  # seconds between looks at a pod that starts, after shorter ones
_CALLS = 10_000  # of which is remembered where they run
_FROM_POD = (
    "memory", "cpus", "pids", "disk", "files", "image", "data", "packages", "template", "pip", "build",
)  # fmt: skip

_OF_SESSION = ("env", "network", "bindings")


def _pauses() -> Iterator[float]:
    """Seconds between looks: a pod of a pool is there at once, and one that starts in a second."""
    pause = 0.02
    while True:
        yield pause
        pause = min(1.25 * pause, _POLL)


class _Place(NamedTuple):
    """Where the controller of a session is."""

    session: str
    uid: str
    address: str
    made: bool
    """Whether this process has made the pod."""


def _place_of(found: Body, made: bool = False) -> _Place | None:
    """None where no controller will be, or none any more."""
    address = None if _api.is_over(found) else _api.address_of(found)
    if address is None:
        return None
    host = f"[{address}]" if ":" in address else address
    return _Place(_api.session_of(found), found["metadata"]["uid"], f"tcp://{host}:{PORT}", made)


def _may_be_done(error: Unavailable) -> bool:
    """Whether the request was sent before the connection ended."""
    lost = error.__cause__
    return isinstance(lost, ConnectionLost) and lost.sent


class AsyncPodClient(AsyncClient):
    """A client of the controller in the pod of one session. The pod goes with the session.

    A session that was saved when its pod went is followed to the next pod; the controller there knows it by its
    instance, and wakes it.
    """

    def __init__(self, pods: AsyncPods, place: _Place, **arguments: Any) -> None:
        super().__init__(place.address, artifacts=False, **arguments)
        self._pods, self._place = pods, place
        self._moving = Lock()

    async def _request(self, request: Request[T], start: bool = True, stream: Any = None) -> T:
        place = self._place
        closes = request.kind == _wire.CLOSE and request.body.get("session") == place.session
        deadline = time.monotonic() + self._pods._start_timeout
        try:
            while True:
                try:
                    reply = await super()._request(request, start, stream)
                    break
                except Unavailable as error:
                    refused = error.__cause__ is None  # by a controller that ends with its session
                    if time.monotonic() > deadline or (request.once and _may_be_done(error)):
                        raise
                    if not refused and await self._pods._why_gone(place) is None:
                        raise
                await sleep(_POLL)
        except NoSuchSession:
            if self._place.made:  # for a session that is not in its claim after all
                await self._pods._forget(self._place)
            raise
        if closes:
            await self._pods._forget(self._place)
        return reply

    async def _connection(self, start: bool, attempts: Attempts) -> Any:
        place = self._place
        try:
            return await super()._connection(start, attempts)
        except Unavailable:
            why = await self._pods._why_gone(place)
            if why is None:
                raise
            if not self._pods._saves:
                raise NoSuchSession(f"the session '{place.session}' is lost: {why}") from None
        async with self._moving:
            if self._place is place:
                self._place = await self._pods._next_place(place.session)
                self._endpoint.settle(self._place.address)
        return await super()._connection(start, attempts)


class AsyncPods(AsyncClient):
    """The sessions of a namespace of a Kubernetes cluster. Each has a pod, in which a controller serves it alone.

    A client as any other: each request goes to the controller of the session that it is about. Needs the extra
    ``kubernetes``, and runs where pods can be reached: in the cluster, in a pod with the label
    ``limpet.client: "true"`` where the NetworkPolicy of ``limpet kubernetes manifest`` is in force.

    As many processes as one likes may use one namespace: a session's name is the name of its pod, which only one can
    make. What has no meaning in pods raises BadRequest: ``info``, ``templates``, ``shutdown``.

    Args:
        namespace: Namespace of the pods, or ``CONTEXT/NAMESPACE``. Without a context it is that of the pod that this
            runs in, or the current one of ``kubectl``.
        options: What new pods are like. Defaults to what the environment says (:meth:`PodOptions.from_environment`).
        key: Path of the client's pair of keys. Defaults to ``LIMPET_KEY``.
        server_key: Public key of the controllers. Defaults to ``LIMPET_SERVER_KEY``.
        artifacts: As of :class:`AsyncClient`.
        progress: As of :class:`AsyncClient`.
        egress_key: Path of the key of ``limpet-egress``, through which sessions reach what their rules and bindings
            name. Defaults to ``LIMPET_EGRESS_KEY``.
        start_timeout: Seconds in which a pod has to serve its session.
    """

    def __init__(
        self,
        namespace: str,
        options: PodOptions | None = None,
        *,
        key: KeyFile = None,
        server_key: str | None = None,
        artifacts: Artifacts = None,
        progress: bool = False,
        egress_key: KeyFile = None,
        start_timeout: float = 120.0,
    ) -> None:
        context, _, name = namespace.rpartition("/")
        if not name:
            raise BadRequest(f"the namespace {namespace!r} does not have the form [CONTEXT/]NAMESPACE")
        self._options = options or PodOptions.from_environment()
        self._cluster = _api.Cluster(name, context or None, self._options.agent_sandbox)
        super().__init__(
            f"tcp://{name}.pods", key=key, server_key=server_key, artifacts=artifacts, progress=progress
        )
        self._namespace = namespace
        self._egress_file, self._egress_key = egress_key, _egress.read_key(egress_key)
        self._keys = {"key": key, "server_key": server_key}
        self._start_timeout = start_timeout
        self._saves = self._options.volume is not None
        self._clients: dict[str, AsyncPodClient] = {}
        self._clients_lock = threading.Lock()
        self._filling: threading.Thread | None = None
        self._in_use: set[str] = set()  # by uid, pods of a pool whose sessions were opened
        self._over: dict[str, float] = {}  # by uid, what has ended: since when
        self._calls: OrderedDict[str, str] = OrderedDict()

    def _arguments(self) -> dict[str, Any]:
        return {
            **self._keys,
            "namespace": self._namespace,
            "options": self._options,
            "artifacts": self._artifacts,
            "progress": self._progress,
            "egress_key": self._egress_file,
            "start_timeout": self._start_timeout,
        }

    @opening
    async def open(self, name: str | None = None, **options: Any) -> AsyncSession:
        """Opens a session, or attaches to it if it exists: see :meth:`AsyncClient.open`.

        The options of the container, such as ``memory`` and ``image``, are those of the pod, and refused here. Rules
        of ``network`` and ``bindings`` go to ``limpet-egress``; their keys are never in the pod. A session that was
        saved in its claim is woken.

        Raises:
            ImageMissing: An image of the pod is not there.
            LimitReached: A quota of the namespace is used up.
            EngineError: No node takes the pod, a policy refuses it, or it fails.
            Unavailable: The API server does not answer, or the pod is not there in time.
        """
        refused = [option for option in _FROM_POD if options.get(option) is not None]
        if isinstance(options.get("network"), str) and options["network"] != "none":
            refused.append("network")
        if refused:
            raise BadRequest(
                f"{', '.join(refused)}: not for a session in a pod; PodOptions say what pods are like"
            )
        if not self._saves:
            options.setdefault("ttl_action", "close")
        return await super().open(name, **options)

    async def run(self, code: str, timeout: float | None = None, **arguments: Any) -> Result:
        """Runs code in a pod of its own, which is removed afterwards: see :meth:`AsyncClient.run`."""
        options = {key: arguments.pop(key) for key in (*_OF_SESSION, *_FROM_POD) if key in arguments}
        async with self.open(**options) as session:
            result = await session.run(code, timeout, **arguments)
        return dataclasses.replace(result, session=None)

    async def names(self) -> list[str]:
        """Returns the names of the sessions that are open or saved, of every client of the namespace."""
        return await self._names()

    async def sessions(self, all_users: bool = False) -> list[SessionInfo]:
        """Lists the open sessions, of every client of the namespace. Their controllers are asked one by one.

        Args:
            all_users: Changes nothing.
        """
        return await self._listed("")

    async def features(self) -> frozenset[str]:
        """Returns none: each controller has its own."""
        return frozenset()

    async def _names(self, group: str = "") -> list[str]:
        going = await in_thread(self._cluster.going, group)
        claims = await in_thread(self._cluster.claims, group) if self._saves else []
        names = {_api.session_of(found) for found in going}
        return sorted(names.union(_api.session_of(found) for found in claims if not _api.ends(found)))

    def _restorable(self, options: Body) -> Body:
        dropped = {*_FROM_POD, "bindings", *(() if self._egress_key else ("network",))}
        return {option: value for option, value in options.items() if option not in dropped}

    async def _listed(self, group: str) -> list[SessionInfo]:
        rows: list[SessionInfo] = []
        for client in await self._running(group):
            with contextlib.suppress(NoSuchSession, Unavailable):  # it has just ended, or is about to begin
                rows.extend(await client.sessions())
        return rows

    async def _find(self, run_id: str, group: str) -> None:
        if run_id in self._calls:
            return
        for client in await self._running(group):
            with contextlib.suppress(Error):
                await client._request(_requests.result(run_id, 0))
                self._note(run_id, client._place.session)
                return
        raise NoSuchRun(f"no open session knows a call of the id {run_id}")

    async def sweep(self, after: float = 600.0) -> None:
        """Removes the pods of sessions that have ended by themselves, and what such sessions have left in claims.

        Gateways do so. Sessions that were saved stay.

        Args:
            after: Seconds for which this client has seen them so, with calls of this method.
        """
        made_by = self._left_of_sandboxes if self._options.agent_sandbox else self._left_of_pods
        over = await made_by()
        seen, now = self._over, time.monotonic()
        self._over = {uid: seen.get(uid, now) for _, found in over for uid in [found["metadata"]["uid"]]}
        for kind, found in over:
            about = found["metadata"]
            if now - self._over[about["uid"]] >= after:
                await in_thread(self._cluster.delete, kind, about["name"], about["uid"])
        if self._options.warm:
            await in_thread(self._cluster.fill, self._options)

    async def _left_of_pods(self) -> list[tuple[str, Body]]:
        ended = await in_thread(self._cluster.ended)
        over = [("pod", found) for found in ended]
        going = await in_thread(self._cluster.going) if self._options.warm or self._saves else []
        if self._options.warm:
            over += [("pod", found) for found in await self._left_of_pool([*ended, *going])]
        if self._saves:
            claims = await in_thread(self._cluster.claims)
            kept = {_api.session_of(found) for found in going}
            over += [
                ("persistent_volume_claim", found)
                for found in claims
                if _api.ends(found) and _api.session_of(found) not in kept
            ]
        return over

    async def _left_of_sandboxes(self) -> list[tuple[str, Body]]:
        """Claims whose pods have ended or were never used, and pools of other options."""
        over: list[tuple[str, Body]] = []
        holders = await in_thread(self._cluster.holders)
        self._in_use &= {taken_by(held)[1] for held in holders}
        for held in holders:
            its = await in_thread(self._cluster.pod_of, _api.session_of(held))
            if its is not None and (_api.is_over(its) or await self._is_unopened(its)):
                over.append(("sandbox_claim", held))
        pool = pool_of(self._options)
        for kind in ("sandbox_pool", "sandbox_template"):
            found = await in_thread(self._cluster.sandbox_pools, kind)
            over += [(kind, each) for each in found if each["metadata"]["labels"][POOL] != pool]
        return over

    async def _left_of_pool(self, pods: list[Body]) -> list[Body]:
        """What is of no use any more: of other options, or of whoever has died while it opened a session."""
        free = await in_thread(self._cluster.free)
        holders = await in_thread(self._cluster.holders)
        held = {taken_by(found)[1] for found in holders}
        there = {found["metadata"]["uid"] for found in pods}
        taken = [found for found in pods if POOL in found["metadata"]["labels"]]
        self._in_use &= there
        pool = pool_of(self._options)
        left = [found for found in free if _api.is_over(found) or found["metadata"]["labels"][POOL] != pool]
        left += [found for found in holders if taken_by(found)[1] not in there]
        for found in taken:
            if found["metadata"]["uid"] not in held or await self._is_unopened(found):
                left.append(found)
        return left

    async def _is_unopened(self, found: Body) -> bool:
        if found["metadata"]["uid"] in self._in_use:
            return False
        whole = await in_thread(self._cluster.pod, found["metadata"]["name"])
        place = None if whole is None else _place_of(whole)
        if place is None:
            return False
        client = AsyncPodClient(self, place, **self._keys)
        try:
            rows = await client.sessions()
        except Error:
            return False
        finally:
            await client.close()
        if rows:
            self._in_use.add(place.uid)
        return not rows

    async def _sweep(self) -> None:
        await self.sweep()

    async def close_session(self, name: str) -> Between | None:
        """Ends the session of this name, and what was saved of it.

        Raises:
            NoSuchSession: No session has this name.
        """
        if "/" in name:
            return await super().close_session(name)
        found = await in_thread(self._cluster.pod_of, name)
        if found is None and self._saves:
            found = await in_thread(self._cluster.claim, object_name(name))
        if found is None or _api.session_of(found) != name:
            raise NoSuchSession(f"no session is called '{name}'")
        await self._forget(_Place(name, found["metadata"]["uid"], "", False))
        return None

    async def close(self) -> None:
        """Closes the connections. Sessions stay open."""
        self._closed = True
        with self._clients_lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()
        if self._filling is not None:
            await in_thread(self._filling.join)
        await in_thread(self._cluster.close)

    async def _request(self, request: Request[T], start: bool = True, stream: Any = None) -> T:
        """Asks the controller of the session that the request is about."""
        if self._closed:
            raise SessionClosed("the client is closed")
        session, run_id = request.body.get("session"), request.body.get("run_id")
        if session is None and run_id is not None:
            await self._find(run_id, "")
            session = self._calls[run_id]
        elif session is None:
            raise BadRequest("sessions in pods have no controller in common that could be asked for this")
        elif run_id is not None:
            self._note(run_id, session)
        if not self._saves and (request.kind == _wire.SLEEP or request.body.get("ttl_action") == "save"):
            raise BadRequest("a session in a pod is saved in its claim, and has none: PodOptions(volume=...)")
        if request.kind in (_wire.OPEN, _wire.SET_NETWORK):
            request = await self._with_network(session, request)
        if request.kind == _wire.OPEN and not request.body.get("attach"):
            return await self._open(session, request)
        return await self._ask(session, request, start, stream)

    async def _with_network(self, session: str, request: Request[T]) -> Request[T]:
        """The request with rules that only limpet-egress can open."""
        body = request.body
        if request.kind == _wire.SET_NETWORK and not {"allow", "bindings"} <= body.keys():
            raise BadRequest("rules and bindings of a session in a pod are sealed together: give both")
        if not _egress.reaches(body):
            return request
        address = await in_thread(self._cluster.service, _egress.EGRESS) if self._egress_key else None
        sealed = _egress.relayed(session.partition("/")[0], body, self._egress_key, address)
        return Request(request.kind, sealed, request.read, request.once)

    async def _rows(self, session: str) -> list[SessionInfo]:
        return await self._ask(session, _requests.sessions())

    def _note(self, run_id: str, session: str) -> None:
        """Where a call is."""
        self._calls[run_id] = session
        while len(self._calls) > _CALLS:
            self._calls.popitem(last=False)

    async def _open(self, name: str, request: Request[T]) -> T:
        deadline = time.monotonic() + self._start_timeout
        ends = request.body.get("ttl_action") == "close"
        made = await self._reserve(name, deadline, ends)
        try:
            reply = await self._asked(name, made, deadline, request)
        except BaseException:
            if made:
                await in_thread(self._cluster.delete_pod_of, name)
            raise
        if made and self._options.warm and not self._options.agent_sandbox:
            self._refill()
        return reply

    def _refill(self) -> None:
        """Has the pool filled, while the session is used already."""

        def fill() -> None:
            with contextlib.suppress(Error):  # the next one tries again
                self._cluster.fill(self._options)

        with self._clients_lock:
            if self._filling is None or not self._filling.is_alive():
                self._filling = threading.Thread(target=fill, daemon=True)
                self._filling.start()

    async def _ask(self, name: str, request: Request[T], start: bool = True, stream: Any = None) -> T:
        """Asks the controller of an open session, or of one that was saved."""
        base = name.partition("/")[0]
        # What attaches may be about a later session of the name.
        client = None if request.kind == _wire.OPEN else self._clients.get(base)
        if client is not None:
            return await client._request(request, start, stream)
        deadline, made = time.monotonic() + self._start_timeout, False
        found = await in_thread(self._cluster.pod_of, base)
        if found is None or _api.is_over(found):
            claimed = await in_thread(self._cluster.claim, object_name(base)) if self._saves else None
            if claimed is None:
                why = "" if found is None else f": {_api.why_over(found)}"
                raise NoSuchSession(f"no open session is called '{base}'{why}; open it first")
            made = await self._reserve(base, deadline, _api.ends(claimed))
        return await self._asked(base, made, deadline, request, start, stream)

    async def _reserve(self, name: str, deadline: float, ends: bool) -> bool:
        """Makes the pod, unless it is there. One that has ended makes room first."""
        if self._saves:
            await in_thread(self._cluster.create, "persistent_volume_claim", claim(name, self._options, ends))
        while not await self._make(name, ends):
            found = await in_thread(self._cluster.pod_of, name)
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
            await in_thread(self._cluster.delete_pod_of, name, found["metadata"]["uid"])
            await sleep(_POLL)
        return True

    async def _make(self, name: str, ends: bool) -> bool:
        """Makes the pod, or takes one of the pool. False where the session has one."""
        if self._options.warm or self._options.agent_sandbox:
            taken = await in_thread(self._cluster.take, name, self._options, ends)
            if taken is not None:
                return taken
        return await in_thread(self._cluster.create, "pod", pod(name, self._options, ends))

    async def _asked(
        self,
        name: str,
        made: bool,
        deadline: float,
        request: Request[T],
        start: bool = True,
        stream: Any = None,
    ) -> T:
        """Asks the controller of a pod, which may be starting, and whose controller may not listen yet."""
        began = time.monotonic()
        pauses = _pauses()
        while True:
            client = self._client(await self._placed(name, made, began, deadline))
            try:
                return await client._request(request, start, stream)
            except Unavailable as error:
                if time.monotonic() > deadline or (request.once and _may_be_done(error)):
                    raise
            await sleep(next(pauses))

    async def _placed(self, name: str, made: bool, began: float, deadline: float) -> _Place:
        """Where the controller of a session is, once its pod has an address."""
        pauses = _pauses()
        while True:
            found = await in_thread(self._cluster.pod_of, name)
            if found is None:
                raise NoSuchSession(f"the pod of the session '{name}' was deleted")
            failure = _api.failure_of(found, began)
            if failure is not None:
                raise failure
            place = _place_of(found, made)
            if place is not None:
                return place
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the pod {object_name(name)} does not run after {self._start_timeout:.0f} seconds; "
                    f"`kubectl --namespace {self._cluster.namespace} describe pod {object_name(name)}` says more"
                )
            await sleep(next(pauses))

    async def _running(self, group: str) -> list[AsyncPodClient]:
        """Clients of the controllers that run."""
        places = map(_place_of, await in_thread(self._cluster.pods, group))
        return [self._client(place) for place in places if place is not None]

    def _client(self, place: _Place) -> AsyncPodClient:
        with self._clients_lock:
            known = self._clients.get(place.session)
            if known is None or known._place.uid != place.uid:
                known = self._clients[place.session] = AsyncPodClient(self, place, **self._keys)
        return known

    async def _next_place(self, name: str) -> _Place:
        """A pod for a session whose pod is gone."""
        began = time.monotonic()
        deadline = began + self._start_timeout
        claimed = await in_thread(self._cluster.claim, object_name(name))
        made = await self._reserve(name, deadline, claimed is not None and _api.ends(claimed))
        return await self._placed(name, made, began, deadline)

    async def _why_gone(self, place: _Place) -> str | None:
        """Why the pod is not the one any more, None while it is, or nobody can say."""
        try:
            found = await in_thread(self._cluster.pod_of, place.session)
        except Error:
            return None
        if found is None or found["metadata"]["uid"] != place.uid:
            return "its pod was deleted"
        return _api.why_over(found) if _api.is_over(found) else None

    async def _forget(self, place: _Place) -> None:
        """Deletes what there is of a session in the cluster."""
        with self._clients_lock:
            client = self._clients.get(place.session)
            if client is not None and client._place.uid == place.uid:
                del self._clients[place.session]
        await in_thread(self._cluster.delete_pod_of, place.session, place.uid)
        if self._saves:
            await in_thread(self._cluster.delete, "persistent_volume_claim", object_name(place.session))
