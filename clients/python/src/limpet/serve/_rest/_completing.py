"""Completion for those who type code."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from ... import AsyncSession, Error, Result
from ...jupyter import _complete
from ._call import Call
from ._operations import PREFIX, operation

_LIMIT = 3.0  # seconds that a question may wait for the session
_THREADS = ThreadPoolExecutor(4, "completion")  # of their own: what they wait for keeps nothing else waiting


class CompleteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Code, and where the cursor is in it: before that many characters."""

    code: str
    cursor: int


class Completion(msgspec.Struct):
    """What may stand there, and where that begins."""

    matches: list[str]
    start: int


@operation("POST", PREFIX + "/sessions/{session}/complete", takes=CompleteRequest, gives=Completion)
async def complete(call: Call) -> Any:
    """Completes code at a cursor. Attributes are looked up by one more call of the session, while it is idle."""
    call.gateway.check_input(call.body.code)
    asked: Any = _Asked(await call.session(), asyncio.get_running_loop())
    completed = functools.partial(_complete.complete, asked, call.body.code, call.body.cursor)
    matches, start = await asyncio.get_running_loop().run_in_executor(_THREADS, completed)
    return Completion(matches[:500], start)


class _Asked:
    """The session, as the completion of notebooks knows it: on a thread."""

    def __init__(self, session: AsyncSession, loop: asyncio.AbstractEventLoop) -> None:
        self._session = session
        self._loop = loop

    def names(self) -> list[str]:
        """Of the variables; none while another call runs."""
        found = self._wait(self._session.namespace(), _LIMIT)
        return [each.name for each in found or ()]

    def ask(self, code: str, timeout: float) -> Result | None:
        """The record of a call, None while another one runs."""
        return self._wait(self._session.run(code, timeout), timeout + _LIMIT)  # type: ignore[no-any-return]

    def _wait(self, work: Coroutine[Any, Any, Any], limit: float) -> Any:
        return asyncio.run_coroutine_threadsafe(self._while_idle(work, limit), self._loop).result()

    async def _while_idle(self, work: Coroutine[Any, Any, Any], limit: float) -> Any:
        """None where it would have to wait for another call, and where it fails."""
        try:
            base = self._session.name.partition("/")[0]
            rows = await self._session._client.sessions()
            statuses = {row.status for row in rows if row.session.partition("/")[0] == base}
            if statuses == {"idle"}:
                return await asyncio.wait_for(work, limit)
        except (Error, asyncio.TimeoutError):
            pass
        finally:
            work.close()
        return None
