"""A session behind Pydantic AI's protocol of workspaces."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    SupportsCommands,
    SupportsFilesystem,
    SupportsRealpath,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from typing_extensions import Unpack

from .. import AsyncClient, AsyncSession, Entry, NoSuchSession, SessionClosed, SessionOptions
from .._adapters import placing, references
from .._adapters.exits import INTERRUPTED, exit_code
from .._adapters.running import OutputLimit, Ran, run

PROVIDER = "limpet"
OUTPUT = 10 << 20  # characters of each stream, as LocalWorkspaceBackend has it
# Which of the links lead to directories.
DIRECTORIES = 'for path; do if test -d "$path"; then printf 1; else printf 0; fi; done'


class LimpetWorkspace(WorkspaceBackend, SupportsCommands, SupportsFilesystem, SupportsRealpath):
    """A session as the place where an agent works. Its live Python goes on beside that: see :meth:`session`.

    The session is opened with the first use, and found again by :attr:`ref`. Nothing closes it but its owner, or its
    ``ttl`` once nobody uses it.
    """

    def __init__(
        self,
        ref: WorkspaceRef | None = None,
        *,
        name: str | None = None,
        client: AsyncClient | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        """Does nothing yet.

        Args:
            ref: What :attr:`ref` of another one was; its session is meant, and none other.
            name: Of the session; by default one of its own.
            client: By default one of its own.
            **options: Those of :meth:`limpet.Client.open`.
        """
        if ref is not None and ref.provider != PROVIDER:
            raise ValueError(f"the workspace of {ref.provider} is not one of {PROVIDER}")
        self._ref = ref
        self._name = name
        self._options = options
        self._client = client or AsyncClient()
        self._session: AsyncSession | None = None
        self._working_dir: str | None = None
        self._opening: asyncio.Task[AsyncSession] | None = None

    @property
    def ref(self) -> WorkspaceRef | None:
        """Name and instance of the session, once there is one."""
        return self._ref

    async def session(self) -> AsyncSession:
        """The session itself, opened where it is not yet."""
        if self._session is not None:
            return self._session
        if self._opening is None or self._opening.done() or self._opening.get_loop() is not _loop():
            self._opening = _loop().create_task(self._open())
        with _available():
            # Whoever is cancelled here leaves it, to be found by its ref.
            return await asyncio.shield(self._opening)

    async def working_dir(self) -> str:
        """Where commands start."""
        session = await self.session()
        with _available():
            if self._working_dir is None:
                self._working_dir = (await run(session, ["pwd", "-P"])).stdout.rstrip("\n")
            else:
                await session.files.stat(self._working_dir)  # it may be gone
        return self._working_dir

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Runs a command, beside the session's Python."""
        argv = _argv(command, shell)
        if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
            raise ValueError("timeout must be a positive finite number or None")
        session = await self.session()
        try:
            with _available():
                ran = await run(session, argv, env=env, timeout=timeout, limit=OUTPUT)
        except OutputLimit as over:
            raise WorkspaceOutputLimitError(
                f"the command wrote more than {OUTPUT} characters",
                limit=OUTPUT,
                stdout=over.stdout,
                stderr=over.stderr,
            ) from None
        return _result(ran, timeout)

    async def read_bytes(self, path: str) -> bytes:
        """Reads a file."""
        session = await self.session()
        with _available():
            return await session.files.read(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Writes a file, through a link that is there; directories are made."""
        session = await self.session()
        with _available():
            await placing.write(session, path, data)

    async def stat(self, path: str) -> FileEntry:
        """What is at a path, or where a link there leads."""
        session = await self.session()
        with _available():
            entry = await session.files.stat(path)
            if entry.type == "symlink":
                entry = await session.files.stat(await placing.realpath(session, path))
        return _entry(entry, path, entry.type == "directory")

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """What is in a directory."""
        session = await self.session()
        with _available():
            if (await session.files.stat(path)).type == "symlink":
                path = await placing.realpath(session, path)
            entries = await session.files.list(path)
            links = [entry.path for entry in entries if entry.type == "symlink"]
            said = (await run(session, ["sh", "-c", DIRECTORIES, "sh", *links])).stdout if links else ""
        leading = {link for link, is_dir in zip(links, said, strict=True) if is_dir == "1"}
        return [
            _entry(
                entry, posixpath.join(path, entry.name), entry.type == "directory" or entry.path in leading
            )
            for entry in entries
        ]

    async def make_dir(self, path: str) -> None:
        """Makes a directory, and those above it."""
        session = await self.session()
        with _available():
            await session.files.mkdir(path)

    async def remove(self, path: str) -> None:
        """Removes a file, or a directory with all that is in it; not where commands start, or what that is in."""
        here = await self.working_dir()
        path = posixpath.normpath(posixpath.join(here, path))
        if here == path or here.startswith(path.rstrip("/") + "/"):
            raise ValueError(f"{path} has the working directory {here}, which is not removed")
        session = await self.session()
        with _available():
            await session.files.remove(path, recursive=True)

    async def exists(self, path: str) -> bool:
        """Whether there is something, where a link leads if it is one."""
        try:
            await self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False
            raise
        return True

    async def realpath(self, path: str) -> str:
        """Where a path leads in the end, as far as it exists."""
        session = await self.session()
        with _available():
            return await placing.realpath(session, path)

    async def _open(self) -> AsyncSession:
        if self._ref is not None:
            session = await references.attach_async(self._client, self._ref.id)
        else:
            session = await self._client.open(self._name, **self._options)
            self._ref = WorkspaceRef(provider=PROVIDER, id=references.reference(session))
        self._session = session
        return session


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _argv(command: WorkspaceCommand, shell: bool) -> list[str]:
    if isinstance(command, str):
        if not shell:
            raise TypeError("a string command requires shell=True; pass an argv sequence otherwise")
        return ["sh", "-c", command]
    if shell:
        raise TypeError("an argv sequence cannot be combined with shell=True; pass a single command string")
    return [os.fspath(word) for word in command]


def _result(ran: Ran, timeout: float | None) -> CommandResult:
    if ran.result.status == "timeout":
        raise WorkspaceTimeoutError(
            f"command timed out after {timeout or 0:g}s and was ended", stdout=ran.stdout, stderr=ran.stderr
        )
    code = exit_code(ran.result)
    return CommandResult(
        exit_code=INTERRUPTED if code is None else code, stdout=ran.stdout, stderr=ran.stderr
    )


def _entry(entry: Entry, path: str, is_dir: bool) -> FileEntry:
    size = entry.size if entry.type == "file" else None
    return FileEntry(name=posixpath.basename(path.rstrip("/")), path=path, is_dir=is_dir, size=size)


@contextlib.contextmanager
def _available() -> Iterator[None]:
    """A session that has ended is unavailable for good. All else goes on as it is: trying again may help."""
    try:
        yield
    except (NoSuchSession, SessionClosed) as failed:
        raise WorkspaceUnavailableError(f"{failed.name}: {failed.message}") from failed
