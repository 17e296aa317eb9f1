"""E2B's code interpreter: ``/execute``, ``/contexts``, ``/health`` of port 49999."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ... import AsyncSession, BadRequest, Display, Error, NoSuchSession, OptionsDiffer, Result, SessionClosed
from . import _inside, _results
from ._http import (
    Receive,
    Refused,
    Scope,
    Send,
    answer,
    body_of,
    ended,
    member,
    object_of,
    parsed,
    raw,
    texts,
    while_there,
)
from ._records import Record
from ._sandboxes import Sandboxes

_KEEPALIVE = 5.0  # seconds
_SHORT = 0.01  # seconds
_LINES = b"application/x-ndjson"
_PYTHON = "python"
_ALIASES = {
    "py": "python",
    "python3": "python",
    "js": "javascript",
    "ts": "typescript",
    "sh": "bash",
    "shell": "bash",
    "c++": "cpp",
}
_FROM_THE_START = ("python", "javascript")


class Interpreter:
    """Runs code."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._all = sandboxes

    async def __call__(self, record: Record, scope: Scope, receive: Receive, send: Send) -> tuple[str, int]:
        """Answers; returns the operation and the status."""
        method, path = scope["method"], scope["path"].rstrip("/")
        if path == "/health":
            await self._all.session(record)
            await raw(send, 200, b'"OK"', [(b"content-type", b"application/json")])
            return "health", 200
        try:
            if (method, path) == ("POST", "/execute"):
                await self._execute(record, receive, send)
                return "execute", 200
            return await self._contexts(record, method, path, receive, send)
        except Refused as refused:  # E2B answers here with text
            await raw(
                send,
                refused.status,
                refused.message.encode(),
                [(b"content-type", b"text/plain; charset=utf-8")],
            )
            return "execute" if path == "/execute" else "contexts", refused.status

    # Running

    async def _execute(self, record: Record, receive: Receive, send: Send) -> None:
        body = parsed(await body_of(receive))
        code, env = member(body, "code", str), texts(body, "env_vars")
        self._all.gateway.check_input(code)
        context_id, language = member(body, "context_id", str, None), member(body, "language", str, None)
        if context_id is not None and language is not None:
            raise Refused(400, "Only one of context_id or language can be provided")
        place = await self._place(record, context_id or _language(language))
        if env and place.language != _PYTHON:
            raise Refused(400, f"env_vars are for Python; in {place.language} set them in the code")
        answering = _Answer(send)
        running = asyncio.ensure_future(self._run(record, place, code, env, answering))
        try:
            await asyncio.wait({running}, timeout=_SHORT)  # most code has ended before anybody can have left
            if running.done() or await self._attended(running, receive, answering):
                running.result()
        finally:
            if not running.done():
                await ended(running)  # which interrupts the code

    async def _attended(self, running: asyncio.Future[None], receive: Receive, answering: _Answer) -> bool:
        """Waits for the end of code that takes its time; whether its client was there until then."""
        async with while_there(receive) as leaving:
            while not running.done() and not leaving.done():
                waited = {running, leaving}
                done, _ = await asyncio.wait(waited, timeout=_KEEPALIVE, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    await answering.write(_results.line("keepalive"))
            return running.done()

    async def _run(
        self, record: Record, place: _Place, code: str, env: dict[str, str], answering: _Answer
    ) -> None:
        session = place.session
        try:
            if env:
                await _inside.with_environment(session, env)
                place.counts(self._all, record, 1)
            result = await session.run(
                code,
                max(record.end - time.time(), 1.0),
                on_stdout=answering.stdout, on_stderr=answering.stderr, on_display=answering.display,
            )  # fmt: skip
        except (NoSuchSession, SessionClosed):
            ended_ = (
                "UnexpectedEndOfExecution",
                "the sandbox ended while the code ran, and its variables with it",
                "",
            )
            await answering.end([_results.error(*ended_), _results.error("StateLost", ended_[1], "")])
            return
        except Error as error:
            await answering.end([_results.error(error.name, error.message, "")])
            return
        lines = _results.ending(result, place.uncounted(record), answering.has_value)
        await self._after(record, place, result, env)
        await answering.end(lines)

    async def _after(self, record: Record, place: _Place, result: Result, env: dict[str, str]) -> None:
        """Before the answer ends, so that the next call finds everything in its place."""
        self._all.live(record).state = result.state
        if result.state != "kept" and place.language == _PYTHON:
            await self._all.settle(record, place.session, result, place.cwd)
        elif env:
            await _inside.without_environment(place.session)
            place.counts(self._all, record, 1)

    # Contexts

    async def _contexts(
        self, record: Record, method: str, path: str, receive: Receive, send: Send
    ) -> tuple[str, int]:
        _, first, *rest = path.split("/") if path.count("/") else ("", "")
        if first != "contexts" or len(rest) > 2 or (len(rest) == 2 and rest[1] != "restart"):
            raise Refused(404, f"there is nothing at {path}")
        if not rest and method == "GET":
            await answer(send, 200, await self._list(record), self._state(record))
        elif not rest and method == "POST":
            await answer(send, 200, await self._create(record, await object_of(receive)), self._state(record))
        elif len(rest) == 1 and method == "DELETE":
            await self._remove(record, rest[0])
            await raw(send, 200, b"", self._state(record))
        elif len(rest) == 2 and method == "POST":
            await self._restart(record, rest[0])
            await raw(send, 200, b"", self._state(record))
        else:
            raise Refused(405, f"{method} is not for {path}")
        return "contexts", 200

    def _state(self, record: Record) -> list[tuple[bytes, bytes]]:
        return [(b"limpet-state", self._all.live(record).state.encode())]

    async def _list(self, record: Record) -> list[dict[str, str]]:
        shown = [{"id": _PYTHON, "language": _PYTHON, "cwd": record.home}]
        for language in _FROM_THE_START[1:]:
            try:
                await self._place(record, language)
                shown.append({"id": language, "language": language, "cwd": record.home})
            except Refused:
                pass  # the image does not have it
        shown += [{"id": id, **of} for id, of in record.contexts.items() if id not in _FROM_THE_START]
        return shown

    async def _create(self, record: Record, body: dict[str, Any]) -> dict[str, str]:
        language = _language(member(body, "language", str, _PYTHON))
        cwd = member(body, "cwd", str, record.home)
        id = f"c{self._all.tokens.id(record.owner, None)[1:13]}"
        await self._make(record, id, language, cwd if cwd.startswith("/") else f"{record.home}/{cwd}")
        return {"id": id, **record.contexts[id]}

    async def _make(self, record: Record, id: str, language: str, cwd: str) -> AsyncSession:
        """A context that is not there yet."""
        base = await self._all.base(record)
        try:
            made = await base.context(_name(record, id), language, cwd)
        except (BadRequest, OptionsDiffer) as error:
            raise Refused(400, error.message) from None
        if language == _PYTHON:
            await self._all.prepared(record, made, cwd)
        record.contexts[id] = {"language": language, "cwd": cwd}
        self._all.records.put(record)
        return made

    async def _remove(self, record: Record, id: str) -> None:
        if id == _PYTHON:
            raise Refused(
                400, "the first context of a sandbox stays as long as the sandbox; it can be restarted"
            )
        place = await self._place(record, id)
        await place.session.close()
        del record.contexts[id]
        self._all.records.put(record)

    async def _restart(self, record: Record, id: str) -> None:
        place = await self._place(record, id)
        await place.session.reset()
        if place.language == _PYTHON:
            await self._all.prepared(record, place.session, place.cwd)
        self._all.live(record).state = "lost"

    async def _place(self, record: Record, id: str) -> _Place:
        """A context by its id; one of a language is made when it is used first. Raises Refused."""
        if id == _PYTHON:
            return _Place(await self._all.session(record), _PYTHON, None)
        known = record.contexts.get(id)
        if known is None and not id.isalpha():
            raise Refused(404, f"Context {id} not found")
        async with self._all.live(record).opening:
            known = record.contexts.get(id)
            if known is None:
                return _Place(await self._make(record, id, id, record.home), id, record.home)
            base = await self._all.base(record)
            name = f"{record.base}/{_name(record, id)}"
            try:
                session = await self._all.gateway.session(self._all.owner(record), name)
            except NoSuchSession:  # it was idle for too long
                session = await base.context(_name(record, id), known["language"], known["cwd"])
            return _Place(session, known["language"], known["cwd"])


class _Place:
    """Where code runs. ``cwd`` is None in the sandbox's own Python."""

    def __init__(self, session: AsyncSession, language: str, cwd: str | None) -> None:
        self.session, self.language, self.cwd = session, language, cwd

    def uncounted(self, record: Record) -> int:
        """Calls that its user did not make."""
        if self.language != _PYTHON:
            return 0
        return record.uncounted if self.cwd is None else 1

    def counts(self, sandboxes: Sandboxes, record: Record, calls: int) -> None:
        """So many more."""
        if self.cwd is None:
            record.uncounted += calls
            sandboxes.records.put(record)


class _Answer:
    """A stream of lines; one answer of known length where there was nothing to say before the end."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = False
        self.has_value = False

    async def stdout(self, text: str) -> None:
        await self.write(_results.output("stdout", text))

    async def stderr(self, text: str) -> None:
        await self.write(_results.output("stderr", text))

    async def display(self, shown: Display) -> None:
        if not shown.data:
            return  # takes back what was shown, which E2B's clients cannot
        self.has_value = self.has_value or shown.is_result
        await self.write(_results.display(shown))

    async def write(self, line: bytes) -> None:
        if not self._begun:
            self._begun = True
            headers = [(b"content-type", _LINES), (b"cache-control", b"no-store")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": line, "more_body": True})

    async def end(self, lines: list[bytes]) -> None:
        body = b"".join(lines)
        if self._begun:
            await self._send({"type": "http.response.body", "body": body})
        else:
            await raw(self._send, 200, body, [(b"content-type", _LINES), (b"cache-control", b"no-store")])


def _language(given: str | None) -> str:
    name = (given or _PYTHON).strip().lower()
    return _ALIASES.get(name, name)


def _name(record: Record, id: str) -> str:
    """Of a context in the container, which forks share."""
    return f"{record.id}.{id}" if record.is_fork else f"e2b.{id}"
