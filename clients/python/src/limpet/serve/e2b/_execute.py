"""E2B's code interpreter: ``/execute``, ``/contexts``, ``/health`` of port 49999."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from ... import Display, Error, NoSuchSession, Result, SessionClosed
from ..._adapters.cells import translated
from ..._protocol._requests import new_run_id
from .._http import Receive, Scope, Send, ended, respond, while_there
from .._onlookers import Callbacks, Shown
from .._problems import Disconnected
from . import _inside, _results
from ._contexts import PYTHON, Contexts, Place, named
from ._http import Refused, answer, json_of, member, object_of, parsed, texts
from ._records import Record, owner_of
from ._sandboxes import Sandboxes

_KEEPALIVE = 5.0  # seconds
_SHORT = 0.01  # seconds
_LONGEST = 86_400.0  # seconds that a call may have
_LINES = b"application/x-ndjson"
_TEXT = b"text/plain; charset=utf-8"


class Interpreter:
    """Runs code."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._all = sandboxes
        self._contexts = Contexts(sandboxes)

    async def __call__(self, record: Record, scope: Scope, receive: Receive, send: Send) -> tuple[str, int]:
        """Answers; returns the operation and the status."""
        method, path = scope["method"], scope["path"].rstrip("/")
        if path == "/health":
            await self._all.session(record)
            await respond(send, 200, b'"OK"', [(b"content-type", b"application/json")])
            return "health", 200
        operation = "execute" if path == "/execute" else "contexts"
        try:
            if (method, path) == ("POST", "/execute"):
                await self._execute(record, receive, send)
            else:
                await self._about(record, method, path, receive, send)
        except Refused as refused:  # E2B answers here with text
            await respond(send, refused.status, refused.message.encode(), [(b"content-type", _TEXT)])
            return operation, refused.status
        return operation, 200

    async def _about(self, record: Record, method: str, path: str, receive: Receive, send: Send) -> None:
        """What is asked about contexts."""
        first, *rest = path.strip("/").split("/")
        state = [(b"limpet-state", self._all.live(record).state.encode())]
        if first != "contexts" or len(rest) > 2 or (len(rest) == 2 and rest[1] != "restart"):
            raise Refused(404, f"there is nothing at {path}")
        if not rest and method == "GET":
            await answer(send, 200, await self._contexts.list(record), state)
        elif not rest and method == "POST":
            await answer(send, 200, await self._contexts.create(record, await object_of(receive)), state)
        elif len(rest) == 1 and method == "DELETE":
            await self._contexts.remove(record, rest[0])
            await respond(send, 200, b"", state)
        elif len(rest) == 2 and method == "POST":
            await self._contexts.restart(record, rest[0])
            await respond(send, 200, b"", [(b"limpet-state", b"lost")])
        else:
            raise Refused(405, f"{method} is not for {path}")

    async def _execute(self, record: Record, receive: Receive, send: Send) -> None:
        body = parsed(await json_of(receive))
        code, env = member(body, "code", str), texts(body, "env_vars")
        self._all.gateway.check_input(code)
        context_id, language = member(body, "context_id", str, None), member(body, "language", str, None)
        if context_id is not None and language is not None:
            raise Refused(400, "Only one of context_id or language can be provided")
        place = await self._contexts.place(record, context_id or named(language))
        if place.language == "java":
            env = {**record.env, **env}  # as properties, since Java cannot change its environment
        if env:
            _inside.check_environment(place.language, env)
        call = _Call(self._all, self._contexts, record, place, _Answer(send))
        running = asyncio.ensure_future(call.run(code, env))
        try:
            await asyncio.wait({running}, timeout=_SHORT)  # most code has ended before anybody can have left
            if running.done() or await self._attended(running, receive, call.answering):
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


class _Call:
    """One run of code, until its answer has been given."""

    def __init__(
        self, sandboxes: Sandboxes, contexts: Contexts, record: Record, place: Place, answering: _Answer
    ) -> None:
        self._all, self._contexts = sandboxes, contexts
        self._record, self._place, self.answering = record, place, answering
        self._between: list[bytes] = []

    async def run(self, code: str, env: dict[str, str]) -> None:
        """Runs it and answers. Raises Disconnected where the sandbox has ended."""
        try:
            if env:
                await self._run_own(_inside.with_environment(self._place.language, env))
            result = await self._shown(code)
            if result.status == "failed" and self._record.id not in self._all:
                raise NoSuchSession
            uncounted = self._contexts.uncounted(self._record, self._place)
            await self._settle(result, env)
        except (NoSuchSession, SessionClosed):
            # E2B's clients know it from a connection that breaks off: they ask whether the sandbox is there.
            await self.answering.begin()
            raise Disconnected from None
        except Error as error:
            await self.answering.end([_results.error(error.name, error.message, "")])
            return
        lines = _results.ending(result, uncounted, self.answering.has_value)
        told = _results.restored(self._all.told(self._record))
        await self.answering.end(self._between + lines + told)

    async def _shown(self, code: str) -> Result:
        """Runs it, also for those who look at the session elsewhere."""
        session, python = self._place.session, self._place.language == PYTHON
        translation = translated(code) if python else code
        timeout = min(max(self._record.end - time.time(), 1.0), _LONGEST)
        run_id = new_run_id()

        def begin(callbacks: Callbacks) -> Awaitable[Result]:
            return session.run(translation, timeout, run_id=run_id, **callbacks)

        answering = self.answering
        told = {"on_stdout": answering.stdout, "on_stderr": answering.stderr, "on_display": answering.display}
        shown = Shown(self._all.gateway, owner_of(self._record), session, run_id)
        result = await shown.call(self._place.language, code, begin, told)
        self._between += _results.between(result)
        return result

    async def _settle(self, result: Result, env: dict[str, str]) -> None:
        """Before the answer ends, so that the next call finds everything in its place."""
        self._all.live(self._record).state = result.state
        if result.state != "kept" and self._place.language == PYTHON:
            await self._all.settle(self._record, self._place.session, result, self._place.cwd)
        if env and result.state != "lost":
            await self._run_own(_inside.without_environment(self._place.language, env))

    async def _run_own(self, code: str) -> None:
        """A call that its user did not make."""
        self._between += _results.between(await self._place.session.run(code, _inside.TIME))
        self._contexts.not_counted(self._record, self._place)


class _Answer:
    """A stream of lines; one answer of known length where there was nothing to say before the end."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False
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

    async def begin(self) -> None:
        if not self.begun:
            self.begun = True
            headers = [(b"content-type", _LINES), (b"cache-control", b"no-store")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, line: bytes) -> None:
        await self.begin()
        await self._send({"type": "http.response.body", "body": line, "more_body": True})

    async def end(self, lines: list[bytes]) -> None:
        body = b"".join(lines)
        if self.begun:
            await self._send({"type": "http.response.body", "body": body})
        else:
            await respond(self._send, 200, body, [(b"content-type", _LINES), (b"cache-control", b"no-store")])
