"""What the code of a call asks, put to whoever answers: input(), and functions that a client of the gateway has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Any

from .. import Asks, BadRequest
from ._plain import encode

ANSWER_TIME = 600.0
"""Seconds after which nobody is expected to answer any more."""

_ERROR = re.compile(r"[A-Za-z_]\w{0,99}\Z")


class Questions:
    """Of one call.

    Args:
        run_id: Of the call.
        tell: Called with the name and the data of an event.
    """

    def __init__(self, run_id: str, tell: Callable[[str, bytes], None]) -> None:
        self._run_id = run_id
        self._tell = tell
        self._open: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._last = 0

    def asks(self, takes_input: bool, tools: Iterable[str]) -> Asks | None:
        """For ``run()``. Raises BadRequest."""
        functions = {name: self._tool(name) for name in tools}
        if not functions and not takes_input:
            return None
        try:
            return Asks(functions or None, self._line if takes_input else None)
        except ValueError as error:
            raise BadRequest(str(error)) from None

    def answer(self, number: int, given: dict[str, Any]) -> None:
        """Brings the answer. Raises BadRequest where nobody waits for it, or where it does not fit."""
        kind, waiting = self._open.get(number, ("", None))
        if waiting is None or waiting.done():
            raise BadRequest(f"question {number} of this call does not wait for an answer (any more)")
        if kind == "tool":
            error = given.get("error")
            if ("value" in given) == (error is not None):
                raise BadRequest("the call of a tool is answered with 'value', or with 'error'")
            waiting.set_exception(_error(error)) if error is not None else waiting.set_result(given["value"])
        else:
            line = given.get("line")
            if line is not None and not isinstance(line, str):
                raise BadRequest("input() is answered with 'line': text, or null for the end of input")
            waiting.set_result(line)

    async def _line(self, prompt: str, password: bool = False) -> str | None:
        try:
            line = await self._ask("password" if password else "input", {"prompt": prompt})
        except asyncio.TimeoutError:
            return None
        return None if line is None else str(line)

    def _tool(self, name: str) -> Callable[..., Any]:
        async def called(*args: Any, **kwargs: Any) -> Any:
            try:
                return await self._ask("tool", {"name": name, "args": args, "kwargs": kwargs})
            except asyncio.TimeoutError:
                raise TimeoutError(f"nobody has answered the call of {name}()") from None

        called.__name__ = name
        return called

    async def _ask(self, kind: str, said: dict[str, Any]) -> Any:
        self._last += 1
        number = self._last
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[number] = kind, waiting
        self._tell("ask", encode({"run_id": self._run_id, "ask": number, "kind": kind, **said}))
        try:
            return await asyncio.wait_for(waiting, ANSWER_TIME)
        finally:
            del self._open[number]
            self._tell("answered", encode({"run_id": self._run_id, "ask": number}))


def _error(said: Any) -> Exception:
    """An exception of that name, which the code in the sandbox then sees."""
    known = said if isinstance(said, dict) else {"message": said}
    name, message = str(known.get("name") or "RuntimeError"), str(known.get("message") or "")
    kind: type[Exception] = type(name if _ERROR.match(name) else "RuntimeError", (Exception,), {})
    return kind(message)
