"""E2B's control plane: sandboxes are made, found, paused, forked and ended."""

from __future__ import annotations

import datetime
import math
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

from .._http import Headers, Receive, Scope, Send
from .._keys import Owner
from .._problems import Problem, problem_of
from . import _metrics, _templates
from ._http import Refused, answer, header, json_of, member, object_of, parsed, queries, query, shown_time
from ._network import is_internet, rules_of, shown
from ._records import Record, Snapshot
from ._request import seconds, wanted_of
from ._routing import domain_of
from ._sandboxes import Sandboxes
from ._templates import VERSION

_MOST_FORKS = 100
_MOST_WANTED = 256 << 10  # bytes of what a sandbox is asked for with, of which most is remembered
_PAGE = 100

Answer = tuple[int, Any, Headers]


class Control:
    """Answers what is asked of the control plane."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._all = sandboxes
        self._longest = sandboxes.gateway.settings.sandbox_timeout_s or math.inf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> tuple[str, int, Owner]:
        """Answers; returns the operation, the status and who has asked."""
        owner = self._all.gateway.admit(scope)
        operation, act, id = _find(scope["method"], scope["path"])
        status, value, headers = await act(self, _Asked(scope, receive, owner, id))
        await answer(send, status, value, headers)
        return operation, status, owner

    # Sandboxes

    async def create(self, asked: _Asked) -> Answer:
        body = parsed(await json_of(asked.receive, _MOST_WANTED))
        settings = self._all.gateway.settings
        wanted = wanted_of(body, self._longest, settings.sandbox_network, settings.sandbox_ports == "public")
        record = await self._all.create(asked.owner, wanted, header(asked.scope, b"idempotency-key"))
        return 201, self._shown(record, asked.scope), self._state(record)

    async def list(self, asked: _Asked) -> Answer:
        given = queries(asked.scope)
        wanted = [state for each in given.get("state", []) for state in each.split(",")] or [
            "running",
            "paused",
        ]
        if asked.scope["path"] == "/sandboxes":
            wanted = ["running"]
        metadata = {
            unquote(name): unquote(value) for name, value in parse_qsl(given.get("metadata", [""])[-1])
        }
        found = [
            record
            for record in self._all.records
            if record.owner == asked.owner.id
            and _state_of(record) in wanted
            and metadata.items() <= record.metadata.items()
            and ("template" not in given or record.template == given["template"][-1])
            and ("startedAfter" not in given or record.started > _seconds_of(given["startedAfter"][-1]))
        ]
        open_ones = await self._all.gateway.names(asked.owner)
        found = [record for record in found if not record.place or record.place in open_ones]
        found.sort(
            key=lambda record: (record.started, record.id), reverse=given.get("order", ["desc"])[-1] != "asc"
        )
        page, headers = _page([self._row(record) for record in found], query(asked.scope))
        running = sum(_state_of(record) == "running" for record in found)
        return 200, page, [*headers, (b"x-total-running", str(running).encode())]

    async def get(self, asked: _Asked) -> Answer:
        record = await self._there(asked)
        detail = {
            **self._row(record),
            "envdAccessToken": self._all.tokens.envd(record.id),
            "domain": domain_of(asked.scope),
            "allowInternetAccess": is_internet(record.network),
            "network": shown(record.network, record.public, record.mask),
            "lifecycle": {
                "autoResume": record.auto_resume,
                "onTimeout": "pause" if record.auto_pause else "kill",
            },
        }
        return 200, detail, self._state(record)

    async def kill(self, asked: _Asked) -> Answer:
        record = await self._there(asked)
        await self._all.kill(record)
        return 204, None, ()

    async def connect(self, asked: _Asked) -> Answer:
        body = await object_of(asked.receive)
        timeout = seconds(body, self._longest, 300)
        record = await self._there(asked)
        if record.paused:
            await self._all.pauses.resume(record, timeout, member(body, "memory", bool, True))
            return 201, self._shown(record, asked.scope), self._state(record)
        if record.end < time.time() + timeout:  # a running one is never shortened
            self._all.set_timeout(record, timeout)
        return 200, self._shown(record, asked.scope), self._state(record)

    async def pause(self, asked: _Asked) -> Answer:
        body = await object_of(asked.receive)
        record = await self._there(asked)
        await self._all.pauses.pause(record, member(body, "memory", bool, True))
        return 204, None, self._state(record)

    async def timeout(self, asked: _Asked) -> Answer:
        body = await object_of(asked.receive)
        member(body, "timeout", int)
        self._all.set_timeout(await self._running(asked), seconds(body, self._longest, 0))
        return 204, None, ()

    async def refresh(self, asked: _Asked) -> Answer:
        duration = member(await object_of(asked.receive), "duration", int, 60)
        record = await self._running(asked)
        timeout = seconds({"timeout": duration}, self._longest, 60)
        if record.end < time.time() + timeout:
            self._all.set_timeout(record, timeout)
        return 204, None, ()

    async def network(self, asked: _Asked) -> Answer:
        body = await object_of(asked.receive)
        internet = member(body, "allow_internet_access", bool, None)
        allowed = self._all.gateway.settings.sandbox_network
        rules = rules_of(body, internet, allowed)
        if internet and not is_internet(rules):
            raise Refused(403, "sandboxes here have no access to the whole internet (SANDBOX_NETWORK)")
        await self._all.set_network(await self._running(asked), rules)
        return 204, None, ()

    async def metrics(self, asked: _Asked) -> Answer:
        record = await self._there(asked)
        asks_now = _metrics.is_now(query(asked.scope))
        return 200, [await _metrics.now(self._all, record)] if asks_now and not record.paused else [], ()

    async def fork(self, asked: _Asked) -> Answer:
        body = await object_of(asked.receive)
        count = member(body, "count", int, 1)
        if not 1 <= count <= _MOST_FORKS:
            raise Refused(400, f"count must be 1 to {_MOST_FORKS}")
        timeout = seconds(body, self._longest, 300)
        record = await self._running(asked)
        made = await self._all.fork(record, timeout, count)
        shown = [
            {"sandbox": self._shown(each, asked.scope)}
            if isinstance(each, Record)
            else {"error": _failure(each)}
            for each in made
        ]
        return 201, shown, self._state(record)

    # Snapshots

    async def snapshot(self, asked: _Asked) -> Answer:
        name = member(await object_of(asked.receive), "name", str, None)
        if name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}", name):
            raise Refused(
                400, f"{name!r} is no name for a snapshot: 1 to 128 characters of A-Z a-z 0-9 . _ / : -"
            )
        record = await self._running(asked)
        return 201, _snapshot(await self._all.snapshots.take(record, name)), self._state(record)

    async def snapshots(self, asked: _Asked) -> Answer:
        given = query(asked.scope)
        found = [
            snapshot
            for snapshot in self._all.snapshots.records
            if snapshot.owner == asked.owner.id
            and given.get("sandboxID") in (None, snapshot.sandbox)
            and ("name" not in given or given["name"] in (snapshot.id, *snapshot.names))
        ]
        found.sort(key=lambda snapshot: (-snapshot.created, snapshot.id))
        page, headers = _page([_snapshot(snapshot) for snapshot in found], given)
        return 200, page, headers

    async def drop(self, asked: _Asked) -> Answer:
        snapshot = self._all.snapshots.find(asked.owner, asked.id)
        if snapshot is None:
            raise Refused(404, f"template '{asked.id}' was not found")
        self._all.snapshots.drop(snapshot)
        return 204, None, ()

    # Templates

    async def templates(self, asked: _Asked) -> Answer:
        page, headers = _page(await _templates.rows(self._all.gateway), query(asked.scope))
        return 200, page, headers

    async def template(self, asked: _Asked) -> Answer:
        return 200, await _templates.row(self._all.gateway, unquote(asked.id)), ()

    async def elsewhere(self, asked: _Asked) -> Answer:
        if "templates" in asked.scope["path"]:
            _templates.refuse()
        raise Refused(501, f"{asked.scope['path']} is not served here")

    # What is shown

    async def _there(self, asked: _Asked) -> Record:
        record = self._all.owned(asked.owner, asked.id)
        if not await self._all.there(record):
            raise Refused(404, f"sandbox {record.id} was not found: it has ended")
        return record

    async def _running(self, asked: _Asked) -> Record:
        record = await self._there(asked)
        if record.paused:
            raise Refused(404, f"sandbox {record.id} was not found: it is paused; connect to it first")
        return record

    def _state(self, record: Record) -> Headers:
        return [(b"limpet-state", self._all.live(record).state.encode())]

    def _shown(self, record: Record, scope: Scope) -> dict[str, Any]:
        return {
            "templateID": record.template, "sandboxID": record.id, "clientID": "limpet", "envdVersion": VERSION,
            "envdAccessToken": self._all.tokens.envd(record.id),
            "trafficAccessToken": self._all.tokens.traffic(record.id), "domain": domain_of(scope),
        }  # fmt: skip

    def _row(self, record: Record) -> dict[str, Any]:
        return {
            "templateID": record.template, "sandboxID": record.id, "clientID": "limpet", "envdVersion": VERSION,
            "startedAt": shown_time(record.started), "endAt": shown_time(record.end), "state": _state_of(record),
            "metadata": record.metadata, "cpuCount": math.ceil(record.cpus),
            "memoryMB": record.memory >> 20, "diskSizeMB": record.disk >> 20,
        }  # fmt: skip


class _Asked:
    """A request of somebody."""

    def __init__(self, scope: Scope, receive: Receive, owner: Owner, id: str) -> None:
        self.scope, self.receive, self.owner, self.id = scope, receive, owner, id


Act = Callable[[Control, _Asked], Awaitable[Answer]]

_SANDBOX = r"/(?:v\d/)?sandboxes/(?P<id>[^/]+)"
_ROUTES: list[tuple[str, str, re.Pattern[str], Act]] = [
    (name, method, re.compile(path + r"\Z"), act)
    for name, method, path, act in (
        ("create", "POST", r"/(?:v2/)?sandboxes", Control.create),
        ("list", "GET", r"/(?:v2/)?sandboxes", Control.list),
        ("metrics", "GET", r"/(?:v2/)?sandboxes/metrics", Control.elsewhere),
        ("get", "GET", _SANDBOX, Control.get),
        ("kill", "DELETE", _SANDBOX, Control.kill),
        ("connect", "POST", _SANDBOX + "/connect", Control.connect),
        ("connect", "POST", _SANDBOX + "/resume", Control.connect),
        ("pause", "POST", _SANDBOX + "/pause", Control.pause),
        ("timeout", "POST", _SANDBOX + "/timeout", Control.timeout),
        ("timeout", "POST", _SANDBOX + "/refreshes", Control.refresh),
        ("network", "PUT", _SANDBOX + "/network", Control.network),
        ("metrics", "GET", _SANDBOX + "/metrics", Control.metrics),
        ("fork", "POST", _SANDBOX + "/fork", Control.fork),
        ("snapshot", "POST", _SANDBOX + "/snapshots", Control.snapshot),
        ("snapshots", "GET", r"/snapshots", Control.snapshots),
        ("templates", "GET", r"/(?:v2/)?templates", Control.templates),
        ("templates", "POST", r"/(?:v[123]/)?templates", Control.elsewhere),
        ("template", "GET", r"/templates/(?:aliases/)?(?P<id>[^/]+)", Control.template),
        ("drop", "DELETE", r"/templates/(?P<id>[^/]+)", Control.drop),
    )
]


def _find(method: str, path: str) -> tuple[str, Act, str]:
    methods = set()
    for name, wanted, pattern, act in _ROUTES:
        found = pattern.match(path)
        if found is None:
            continue
        if wanted == method:
            return name, act, found.groupdict().get("id", "")
        methods.add(wanted)
    if methods:
        raise Refused(405, f"{path} takes {', '.join(sorted(methods))}")
    return "elsewhere", Control.elsewhere, ""


def refused(problem: Problem) -> Refused:
    """A problem in E2B's words."""
    return Refused(problem.status, problem.detail, problem.retry_after, error_code=problem.name)


def _failure(error: Exception) -> dict[str, Any]:

    problem = problem_of(error)
    return {"code": problem.status, "message": problem.detail}


def _state_of(record: Record) -> str:
    return "paused" if record.paused else "running"


def _snapshot(snapshot: Snapshot) -> dict[str, Any]:
    return {"snapshotID": snapshot.id, "names": snapshot.names}


def _seconds_of(text: str) -> float:
    try:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00").replace(" ", "+")).timestamp()
    except ValueError:
        raise Refused(400, f"startedAfter: {text!r} is no time") from None


def _page(
    rows: list[dict[str, Any]], given: dict[str, str]
) -> tuple[list[dict[str, Any]], list[tuple[bytes, bytes]]]:
    """A page, and where the next one begins."""
    limit, at = given.get("limit", str(_PAGE)), given.get("nextToken", "0")
    if not limit.isdigit() or not at.isdigit() or not 1 <= int(limit[:5]) <= _PAGE:
        raise Refused(400, f"limit is 1 to {_PAGE}, and nextToken what X-Next-Token was")
    start, end = int(at[:9]), int(at[:9]) + int(limit)
    return rows[start:end], [(b"x-next-token", str(end).encode())] if end < len(rows) else []
