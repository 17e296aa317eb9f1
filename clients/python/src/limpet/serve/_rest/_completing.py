"""Completion for those who type code."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ... import AsyncSession, Error, Result
from ..._async.connecting import in_thread
from ...jupyter import _complete
from ._call import Call
from ._operations import PREFIX, operation


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
    asked = _Asked(await call.session(), asyncio.get_running_loop())
    matches, start = await in_thread(_complete.complete, asked, call.body.code, call.body.cursor)
    return Completion(matches[:500], start)


class _Asked:
    """The session, as the completion of notebooks knows it: on a thread."""

    def __init__(self, session: AsyncSession, loop: asyncio.AbstractEventLoop) -> None:
        self._session = session
        self._loop = loop

    def names(self) -> list[str]:
        """Of the variables."""
        return [each.name for each in self._wait(self._session.namespace())]

    def ask(self, code: str, timeout: float) -> Result | None:
        """The record of a call, None while another one runs."""
        return self._wait(self._run(code, timeout))  # type: ignore[no-any-return]

    async def _run(self, code: str, timeout: float) -> Result | None:
        try:
            rows = {row.session: row for row in await self._session._client.sessions()}
            idle = rows[self._session.name].status == "idle"
            return await self._session.run(code, timeout) if idle else None
        except (Error, KeyError):
            return None

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
