"""Commands as frameworks run them: their output up to a limit, and arguments of any size."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from .. import AsyncSession, Error, Result
from .exits import check_ran
from .kept import Kept

FOREVER = 86400.0  # the longest time limit there is
ARGV = 1 << 19
WITH_ARGV = 'mapfile -d "" -t words <"$0"; exec "${words[@]}"'


class OutputLimit(Exception):
    """A command wrote too much, and was ended. Has the beginning of what it wrote."""

    def __init__(self, stdout: str, stderr: str) -> None:
        super().__init__("the command wrote too much")
        self.stdout = stdout
        self.stderr = stderr


@dataclass(frozen=True)
class Ran:
    """A command that has ended, with what it wrote."""

    result: Result
    stdout: str
    stderr: str
    note: str = ""
    """Lines that name the streams of which only the beginning is here."""


async def run(
    session: AsyncSession,
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes | None = None,
    timeout: float | None = None,
    limit: int | None = None,
) -> Ran:
    """Runs a program; ``timeout`` None is for ever. Raises OutputLimit after ``limit`` characters of a stream; without
    one its beginning is kept. Raises SessionClosed where the session ends meanwhile.
    """
    stdout, stderr = (_Limited(limit), _Limited(limit)) if limit is not None else (Kept(), Kept())
    async with _prepared(session, list(argv)) as command:
        try:
            result = await session.exec(
                command,
                cwd=cwd,
                env=env,
                timeout=timeout or FOREVER,
                stdin=stdin,
                on_stdout=stdout.add,
                on_stderr=stderr.add,
            )
        except _Full:
            raise OutputLimit(stdout.text, stderr.text) from None
    check_ran(result)
    return Ran(result, stdout.text, stderr.text, stdout.note("stdout") + stderr.note("stderr"))


@contextlib.asynccontextmanager
async def _prepared(session: AsyncSession, argv: list[str]) -> AsyncIterator[list[str]]:
    """The command, whose arguments are in a file meanwhile where there are too many."""
    words = b"".join(os.fsencode(word) + b"\0" for word in argv)
    if len(words) <= ARGV:
        yield argv
        return
    path = f"/session/.limpet-input-{os.urandom(8).hex()}"
    try:
        await session.files.write(path, words, mode=0o600)
        yield ["bash", "-c", WITH_ARGV, path.removeprefix("/session/") if session.engine == "local" else path]
    finally:
        with contextlib.suppress(Error):
            await session.files.remove(path)


class _Full(Exception):
    """More has come than is kept."""


class _Limited(Kept):
    """Ends the command when it is full."""

    def add(self, text: str) -> None:
        super().add(text)
        if self.cut:
            raise _Full
