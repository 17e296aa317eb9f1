"""Commands as frameworks run them: their output up to a limit, and input and arguments of any size."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from .. import AsyncSession, Error, Result
from .exits import check_ran
from .kept import Kept

FOREVER = 86400.0  # the longest time limit there is
STDIN = 4 << 20  # what fits into one request
ARGV = 1 << 19
WITH_STDIN = 'exec "$@" <"$0"'
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
    async with _prepared(session, list(argv), stdin) as (command, data):
        try:
            result = await session.exec(
                command,
                cwd=cwd,
                env=env,
                timeout=timeout or FOREVER,
                stdin=data,
                on_stdout=stdout.add,
                on_stderr=stderr.add,
            )
        except _Full:
            raise OutputLimit(stdout.text, stderr.text) from None
    check_ran(result)
    return Ran(result, stdout.text, stderr.text, stdout.note("stdout") + stderr.note("stderr"))


@contextlib.asynccontextmanager
async def _prepared(
    session: AsyncSession, argv: list[str], stdin: str | bytes | None
) -> AsyncIterator[tuple[list[str], bytes | None]]:
    """The command and its input, as far as these do not have to be in files meanwhile."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    files: list[str] = []
    try:
        words = b"".join(os.fsencode(word) + b"\0" for word in argv)
        if len(words) > ARGV:
            argv = ["bash", "-c", WITH_ARGV, await _file(session, files, words)]
        if data is not None and len(data) > STDIN:
            argv = ["bash", "-c", WITH_STDIN, await _file(session, files, data), *argv]
            data = None
        yield argv, data
    finally:
        for path in files:
            with contextlib.suppress(Error):
                await session.files.remove(path)


async def _file(session: AsyncSession, files: list[str], data: bytes) -> str:
    path = f"/session/.limpet-input-{os.urandom(8).hex()}"
    files.append(path)
    await session.files.write(path, data, mode=0o600)
    return path.removeprefix("/session/") if session.engine == "local" else path


class _Full(Exception):
    """More has come than is kept."""


class _Limited(Kept):
    """Ends the command when it is full."""

    def add(self, text: str) -> None:
        super().add(text)
        if self.cut:
            raise _Full
