"""E2B's daemon, at port 49983: procedures over Connect, files, health."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any

from ... import Error, NoSuchSession, SessionClosed
from .._http import Receive, Scope, Send, pieces_of, respond, stream
from .._problems import Disconnected
from ._files import Files
from ._filesystem import Filesystem
from ._frames import STREAM, UNARY, Failed, decoded, end, failed, frame, messages, only_message
from ._http import Refused, answer, header, json_of
from ._process import Processes
from ._records import Record
from ._sandboxes import Sandboxes


class Daemon:
    """Answers at that port."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._all = sandboxes
        self._files = Files(sandboxes)
        self._processes = Processes(sandboxes)
        self._services: dict[str, Processes | Filesystem] = {
            "process.Process": self._processes,
            "filesystem.Filesystem": Filesystem(sandboxes),
        }

    async def __call__(self, record: Record, scope: Scope, receive: Receive, send: Send) -> tuple[str, int]:
        """Answers; returns the operation and the status."""
        path, method = scope["path"], scope["method"]
        if path == "/files":
            return await self._files(record, scope, receive, send)
        if method == "GET" and path == "/health":
            if not await self._all.there(record):
                raise Refused(502, "The sandbox was not found", sandboxId=record.id)
            await respond(send, 204, b"")
            return "health", 204
        if method == "GET" and path == "/metrics":
            await answer(send, 200, await self._metrics(record))
            return "metrics", 200
        if method == "GET" and path == "/envs":
            await answer(send, 200, record.env)
            return "envs", 200
        service, _, procedure = path.strip("/").partition("/")
        if method == "POST" and service in self._services:
            return await self._call(record, service, procedure, scope, receive, send)
        raise Refused(404, f"there is nothing at {path}")

    async def _metrics(self, record: Record) -> dict[str, Any]:
        """What is known: the memory of the container."""
        base = await self._all.base(record)
        rows = await self._all.gateway.client.sessions()
        used = next((row.memory for row in rows if row.session == base.name), 0)
        return {"ts": int(time.time()), "mem_used": used, "mem_used_mib": used >> 20}

    async def _call(
        self, record: Record, service: str, procedure: str, scope: Scope, receive: Receive, send: Send
    ) -> tuple[str, int]:
        served = self._services[service]
        kind = (header(scope, b"content-type") or "").partition(";")[0].strip().encode()
        operation = f"{service.partition('.')[0]}.{procedure}"
        if procedure in served.unary and kind == UNARY:
            return operation, await self._unary(record, served.unary[procedure], receive, send)
        if procedure in served.streams and kind == STREAM:
            body = await json_of(receive)
            pieces = self._stream(record, served.streams[procedure], _timeout(scope), body)
            headers = [(b"content-type", STREAM), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await stream(receive, send, pieces, self._all.gateway.ending)
            return operation, 200
        if procedure == "StreamInput" and service == "process.Process" and kind == STREAM:
            await self._take(record, receive, send)
            return operation, 200
        if procedure in served.unary or procedure in served.streams or procedure == "StreamInput":
            raise Refused(
                415, f"{path_of(service, procedure)} takes {UNARY.decode()}, or {STREAM.decode()} for streams"
            )
        await answer(
            send, 404, Failed("unimplemented", f"there is no procedure {path_of(service, procedure)}").body
        )
        return f"{service.partition('.')[0]}.unknown", 404

    async def _unary(self, record: Record, act: Any, receive: Receive, send: Send) -> int:
        try:
            value, status = await act(record, decoded(await json_of(receive))), 200
        except (Failed, Error) as error:
            failure = failed(error)
            value, status = failure.body, failure.status
        await answer(send, status, value)
        return status

    async def _stream(
        self, record: Record, act: Any, timeout: float | None, body: bytes
    ) -> AsyncGenerator[bytes, None]:
        """Frames, also of what goes wrong: a stream has begun by then."""
        try:
            acting = act(record, only_message(body), timeout)
            try:
                async for piece in acting:
                    yield piece
            finally:
                await acting.aclose()
            yield end()
        except (Disconnected, GeneratorExit):
            raise
        except (NoSuchSession, SessionClosed):
            yield end(Failed("unavailable", "the sandbox was killed or reached its end of life"))
        except Exception as error:
            if not isinstance(error, (Failed, Refused, Error)):
                self._all.gateway.watch.failed(error)
            yield end(failed(error))

    async def _take(self, record: Record, receive: Receive, send: Send) -> None:
        """A stream of the client's, and one answer."""
        try:
            value = await self._processes.stream_input(record, messages(pieces_of(receive)))
            body = frame(value) + end()
        except (Failed, Refused, Error) as error:
            body = end(failed(error))
        await respond(send, 200, body, [(b"content-type", STREAM)])


def path_of(service: str, procedure: str) -> str:
    """Of a procedure, as people see it."""
    return f"/{service}/{procedure}"


def _timeout(scope: Scope) -> float | None:
    """Seconds that a client gives a call."""
    given = header(scope, b"connect-timeout-ms")
    if given is None:
        return None
    if not given.isdigit() or len(given) > 10:
        raise Refused(400, "Connect-Timeout-Ms is no number of milliseconds")
    return int(given) / 1000 or None
