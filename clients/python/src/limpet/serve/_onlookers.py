"""Those who look at a session while another door than REST makes a call there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from .. import AsyncSession, Error, Result
from ._gateway import Gateway
from ._keys import Owner
from ._problems import Problem, problem_of
from ._rest._records import show

Callbacks = dict[str, Any]
"""``on_stdout``, ``on_stderr`` and ``on_display``, those that there are."""


COMMAND = "command"
_OF_COMMANDS = "on_stdout", "on_stderr"
_OF_CODE = *_OF_COMMANDS, "on_display"


class Shown:
    """A call as they see it. Nothing is done where nobody has looked at its session yet."""

    def __init__(self, gateway: Gateway, owner: Owner, session: AsyncSession, run_id: str) -> None:
        self._gateway, self._owner = gateway, owner
        self._session = session
        self._run = gateway.runs.onlooked(owner, run_id, session.name)

    async def call(
        self,
        kind: str,
        code: str,
        begin: Callable[[Callbacks], Awaitable[Result]],
        callbacks: Callbacks,
    ) -> Result:
        """The result of ``begin``, which takes callbacks: those that are given, and theirs."""
        run = self._run
        if run is None:
            return await begin(callbacks)
        run.begun(kind, session=self._gateway.name(self._owner, self._session.name), code=code)
        heard = _OF_COMMANDS if kind == COMMAND else _OF_CODE
        theirs = {name: _each(getattr(run, name), callbacks.get(name)) for name in heard}
        try:
            result = await begin({**callbacks, **theirs})
        except asyncio.CancelledError:
            run.fail(Problem(409, "Interrupted", "the client that made this call has disconnected"))
            raise
        except Error as error:
            run.fail(problem_of(error))
            raise
        run.end(result, show(self._gateway, self._owner, run.run_id, result))
        return result


def _each(
    first: Callable[[Any], Awaitable[None]], second: Callable[[Any], Awaitable[None]] | None
) -> Callable[[Any], Awaitable[None]]:
    async def tell(said: Any) -> None:
        await first(said)
        if second is not None:
            await second(said)

    return tell
