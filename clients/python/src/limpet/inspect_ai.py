"""Sessions as sandboxes of inspect_ai: the type ``limpet``.

from inspect_ai import Task
import limpet.inspect_ai

Task(dataset=..., solver=..., scorer=..., sandbox="limpet")
Task(..., sandbox=SandboxEnvironmentSpec("limpet", LimpetConfig(memory="512m", image="analyst")))

Where the package is installed, inspect_ai finds the type by itself. Needs inspect_ai, which the extra ``inspect-ai`` of
the package brings.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Literal, overload

try:
    from inspect_ai.util import (
        ExecResult,
        OutputLimitExceededError,
        SandboxConnection,
        SandboxEnvironment,
        SandboxEnvironmentLimits,
        SandboxUnavailableError,
        SandboxUserUnsupportedError,
        sandboxenv,
    )
    from pydantic import BaseModel, ConfigDict
except ImportError as error:
    raise ImportError(
        f"limpet.inspect_ai needs inspect_ai ({error}): pip install 'inspect-ai>=0.3.285,<0.4'",
        name=error.name,
    ) from error

from . import AsyncClient, AsyncSession, Error, FileFailed
from ._adapters import placing, references
from ._adapters.exits import exit_code
from ._adapters.running import OutputLimit, Ran, run

__all__ = ["LimpetConfig", "LimpetSandboxEnvironment"]

PREFIX = "inspect-"  # of the names of our sessions
USERS = ("user", "20001")  # whose the programs of a sandbox are, in every image
NOT_EXECUTABLE = 126


class LimpetConfig(BaseModel, frozen=True):
    """Options of :meth:`limpet.Client.open` for the sessions of a task."""

    model_config = ConfigDict(extra="forbid")

    image: str | None = None
    memory: int | str | None = None
    cpus: float | None = None
    pids: int | None = None
    disk: int | str | None = None
    files: int | None = None
    data: str | None = None
    env: dict[str, str] | None = None
    network: Any = None
    ttl: float | None = None
    address: str | None = None
    """Of the controller."""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


@sandboxenv(name="limpet")
class LimpetSandboxEnvironment(SandboxEnvironment):  # type: ignore[misc, unused-ignore]
    """A session for each sample. :attr:`session` has its Python, checkpoints and branches, for solvers to use."""

    def __init__(self, client: AsyncClient, session: AsyncSession) -> None:
        super().__init__()
        self._client = client
        self.session = session

    @classmethod
    async def sample_init(
        cls, task_name: str, config: BaseModel | str | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Opens a session."""
        options = _config(config).model_dump(exclude_none=True)
        client = AsyncClient(options.pop("address", None))
        try:
            with _available():
                session = await client.open(
                    f"{PREFIX}{os.urandom(8).hex()}", **{"ttl_action": "close", **options}
                )
        except BaseException:
            await client.close()
            raise
        return {"default": cls(client, session)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: BaseModel | str | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Closes the session."""
        for environment in environments.values():
            sandbox = environment.as_type(cls)
            with contextlib.suppress(Error):
                await sandbox.session.close()
            await sandbox._client.close()

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Closes sessions that tasks have left, or the one of that name."""
        async with AsyncClient(autostart=False) as client:
            for row in await client.sessions():
                if row.session == id or (id is None and row.session.startswith(PREFIX)):
                    with contextlib.suppress(Error):
                        await client.close_session(row.session)

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """The configuration out of a log."""
        return LimpetConfig(**config)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Runs a program. One that reached its time limit is not tried again: it may have done things already."""
        _check_user(user)
        limits = SandboxEnvironmentLimits
        try:
            with _available():
                ran = await run(
                    self.session, cmd, cwd=cwd, env=env, stdin=input, timeout=timeout,
                    limit=limits.MAX_EXEC_OUTPUT_SIZE,
                )  # fmt: skip
        except OutputLimit as over:
            raise OutputLimitExceededError(
                limits.MAX_EXEC_OUTPUT_SIZE_STR, over.stdout or over.stderr
            ) from None
        return _result(ran, cmd)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Writes a file; directories are made."""
        with _available():
            await placing.write(
                self.session, file, contents.encode() if isinstance(contents, str) else contents
            )

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Reads a file."""
        with _available():
            data = await self.session.files.read(file, on_progress=_within_limit)
        return data.decode() if text else data

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        """How a person gets a shell there."""
        _check_user(user)
        command = f"limpet shell {self.session.name}"
        return SandboxConnection(type="limpet", command=command, container=references.reference(self.session))


def _check_user(user: str | None) -> None:
    if user is not None and user not in USERS:
        raise SandboxUserUnsupportedError(f"a sandbox of Limpet has one user, {USERS[0]}; there is no {user}")


def _config(config: BaseModel | str | None) -> LimpetConfig:
    if isinstance(config, str):
        return LimpetConfig(image=config)
    if config is None or isinstance(config, LimpetConfig):
        return config or LimpetConfig()
    raise TypeError(
        f"the sandbox limpet takes a LimpetConfig or the name of an image, not {type(config).__name__}"
    )


def _result(ran: Ran, cmd: list[str]) -> ExecResult[str]:
    if ran.result.status == "timeout":
        raise TimeoutError(f"{cmd[0]} reached its time limit")
    code = exit_code(ran.result)
    if code == NOT_EXECUTABLE and "denied" in ran.stderr.lower():
        raise PermissionError(ran.stderr.strip())
    told = f"{ran.result.error.message}\n" if ran.result.status == "oom" and ran.result.error else ""
    return ExecResult(ran.result.ok, 1 if code is None else code, ran.stdout, ran.stderr + told)


def _within_limit(read: int, size: int) -> None:
    if max(read, size) > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)


@contextlib.contextmanager
def _available() -> Iterator[None]:
    """What fails as inspect_ai has it: files as built-in exceptions, all else as the sandbox not being available."""
    try:
        yield
    except FileFailed as failed:
        raise placing.said(failed) from failed
    except Error as failed:
        raise SandboxUnavailableError(f"{failed.name}: {failed.message}") from failed
