"""Programs that a model starts and looks at again: with a terminal, or without one."""

from __future__ import annotations

import codecs
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.sandbox.errors import PtySessionNotFoundError
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    clamp_pty_yield_time_ms,
    process_id_to_prune_from_meta,
    resolve_pty_write_yield_time_ms,
    truncate_text_by_tokens,
)

from .. import AsyncProcess, AsyncSession, Error
from .._adapters import reading
from .._adapters.exits import INTERRUPTED, exit_code
from .._adapters.kept import Kept

YIELD = 10.0  # seconds, where the model names none


@dataclass
class _Program:
    process: AsyncProcess
    tty: bool
    since: int = 0
    used: float = field(default_factory=time.monotonic)
    # A character may come in two parts.
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )


class Terminals:
    """Those of one sandbox, by the numbers that the model knows them by."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._programs: dict[int, _Program] = {}

    async def start(
        self, words: Sequence[str], cwd: str, tty: bool, seconds: float | None, tokens: int | None
    ) -> PtyExecUpdate:
        """Starts a program, and returns what it writes within ``seconds`` or until it ends."""
        await self._make_room()
        process = await self._session.start(list(words), cwd=cwd, pty=True if tty else None)
        if not tty:
            with contextlib.suppress(Error):  # it has ended
                await process.close_stdin()
        number = allocate_pty_process_id(set(self._programs))
        self._programs[number] = _Program(process, tty)
        return await self._update(number, clamp_pty_yield_time_ms(_milliseconds(seconds)), tokens)

    async def write(self, number: int, text: str, seconds: float | None, tokens: int | None) -> PtyExecUpdate:
        """Types, and returns what comes of it, as :meth:`start` does."""
        program = self._programs.get(number)
        if program is None:
            raise PtySessionNotFoundError(session_id=number)
        if text:
            if not program.tty:
                raise RuntimeError("stdin is not available for this process")  # what the SDK's tool knows
            with contextlib.suppress(Error):  # it has ended, which its output tells
                await program.process.send(text)
        wait = resolve_pty_write_yield_time_ms(yield_time_ms=_milliseconds(seconds), input_empty=not text)
        return await self._update(number, wait, tokens)

    async def end(self) -> None:
        """Ends all of them."""
        programs, self._programs = self._programs, {}
        for program in programs.values():
            await _kill(program)

    async def _update(self, number: int, milliseconds: int, tokens: int | None) -> PtyExecUpdate:
        program = self._programs[number]
        deadline = time.monotonic() + milliseconds / 1000
        text, ended = Kept(), False
        while not ended and (left := deadline - time.monotonic()) > 0:
            output = await program.process.output(program.since, left)
            if output.dropped:
                text.add(f"\n[... {output.dropped} bytes are not kept ...]\n")
            for _, data in output.pieces:
                text.add(program.decoder.decode(data))
            program.since, ended = output.next, output.ended
        program.used = time.monotonic()
        if ended:
            text.add(program.decoder.decode(b"", True))
        shown, count = truncate_text_by_tokens(reading.output(text.text) + text.note("the output"), tokens)
        code = await self._finished(number) if ended else None
        return PtyExecUpdate(None if ended else number, shown.encode(), code, count)

    async def _finished(self, number: int) -> int:
        program = self._programs.pop(number)
        code = exit_code(await program.process.wait())
        return INTERRUPTED if code is None else code

    async def _make_room(self) -> None:
        if (
            len(self._programs) < PTY_PROCESSES_MAX // 2
        ):  # a session runs as many as the SDK allows, commands included
            return
        known = [(number, program.used, False) for number, program in self._programs.items()]
        oldest = process_id_to_prune_from_meta(known)
        if oldest is not None:
            await _kill(self._programs.pop(oldest))


def _milliseconds(seconds: float | None) -> int:
    return int((YIELD if seconds is None else seconds) * 1000)


async def _kill(program: _Program) -> None:
    with contextlib.suppress(Error):
        await program.process.kill()
