"""A sandbox of the SDK that is a session."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

from agents.sandbox.errors import (
    ConfigurationError,
    ErrorCode,
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceWriteTypeError,
)
from agents.sandbox.session import SandboxSessionState
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.pty_types import PtyExecUpdate
from agents.sandbox.session.runtime_helpers import RESOLVE_WORKSPACE_PATH_HELPER, RuntimeHelperScript
from agents.sandbox.types import ExecResult, ExposedPortEndpoint, User
from agents.sandbox.util.tar_utils import UnsafeTarMemberError, validate_tarfile

from .. import AsyncSession, Error, NoSuchSession
from .._adapters import placing
from .._adapters.exits import INTERRUPTED, exit_code
from .._adapters.running import run
from .._connection._ports import Forwarding
from ._terminals import Terminals

BACKEND: Literal["limpet"] = "limpet"
OURS, ARTIFACTS = ".limpet", "artifacts"  # directories of /session that the code cannot remove


class LimpetSandboxSessionState(SandboxSessionState):  # type: ignore[misc, unused-ignore]
    """What a sandbox is found again by."""

    type: Literal["limpet"] = BACKEND
    reference: str = ""
    """Name and instance of the session."""
    options: dict[str, Any] = {}


class LimpetSandboxSession(BaseSandboxSession):  # type: ignore[misc, unused-ignore]
    """A session as a sandbox. :attr:`limpet` has its live Python, checkpoints and branches."""

    state: LimpetSandboxSessionState

    def __init__(self, state: LimpetSandboxSessionState, session: AsyncSession) -> None:
        self.state = state
        self.limpet = session
        self._forwardings: dict[int, Forwarding] = {}
        self._terminals = Terminals(session)

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        words = [str(word) for word in command]
        try:
            ran = await run(self.limpet, words, cwd=self.state.manifest.root, timeout=timeout)
        except Error as failed:
            raise ExecTransportError(command=words, cause=failed, message=failed.message) from failed
        if ran.result.status == "timeout":
            raise ExecTimeoutError(command=words, timeout_s=timeout)
        code = exit_code(ran.result)
        return ExecResult(
            stdout=ran.stdout.encode(),
            stderr=(ran.stderr + ran.note).encode(),
            exit_code=INTERRUPTED if code is None else code,
        )

    def supports_pty(self) -> bool:
        """It has processes and terminals that a model may look at again."""
        return True

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Starts a command, which goes on when this returns what it has written so far."""
        words = self._prepare_exec_command(*command, shell=shell, user=user)
        try:
            return await self._terminals.start(
                words, self.state.manifest.root, tty, yield_time_s, max_output_tokens
            )
        except Error as failed:
            raise ExecTransportError(command=words, cause=failed, message=failed.message) from failed

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Types into such a command, or without ``chars`` only looks at it."""
        try:
            return await self._terminals.write(session_id, chars, yield_time_s, max_output_tokens)
        except Error as failed:
            raise ExecTransportError(
                command=["write_stdin"], cause=failed, message=failed.message
            ) from failed

    async def pty_terminate_all(self) -> None:
        """Ends such commands."""
        await self._terminals.end()

    def _prepare_exec_command(
        self, *command: str | Path, shell: bool | list[str], user: str | User | None
    ) -> list[str]:
        _refuse_user("exec", user)
        prepared: list[str] = super()._prepare_exec_command(*command, shell=shell, user=None)
        return prepared

    def _runtime_helpers(self) -> tuple[RuntimeHelperScript, ...]:
        return (RESOLVE_WORKSPACE_PATH_HELPER,)

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        return await self._validate_remote_path_access(path, for_write=for_write)

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        """Reads a file of the workspace."""
        _refuse_user("read", user)
        where = await self._validate_path_access(path)
        try:
            return io.BytesIO(await self.limpet.files.read(where.as_posix()))
        except FileNotFoundError as missing:
            raise WorkspaceReadNotFoundError(path=where, cause=missing) from missing
        except Error as failed:
            raise WorkspaceArchiveReadError(path=where, cause=failed) from failed

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        """Writes a file of the workspace; directories are made."""
        _refuse_user("write", user)
        where = await self._validate_path_access(path, for_write=True)
        try:
            await placing.write(self.limpet, where.as_posix(), _payload(where, data))
        except (Error, OSError) as failed:
            raise WorkspaceArchiveWriteError(path=where, cause=failed) from failed

    async def running(self) -> bool:
        """Whether the session is there."""
        try:
            await self.limpet.files.stat("/session")
        except Error:
            return False
        return True

    async def _prepare_backend_workspace(self) -> None:
        await self.limpet.files.mkdir(self.state.manifest.root)

    async def persist_workspace(self) -> io.IOBase:
        """The workspace as a tar archive."""
        root = self._workspace_root_path()
        skipped = sorted(path.as_posix() for path in self._persist_workspace_skip_relpaths())
        excluded = [f"--exclude=./{path}" for path in skipped]
        try:
            names = b"".join(os.fsencode(name) + b"\0" for name in await self._names(root))
            async with self._archive() as path:
                taken = ["--null", "--verbatim-files-from", "-T", "-"]
                await self._tar(
                    root, "-cf", path, "--anchored", "--no-wildcards", *excluded, *taken, stdin=names
                )
                return io.BytesIO(await self.limpet.files.read(path))
        except (Error, OSError) as failed:
            raise WorkspaceArchiveReadError(path=root, cause=failed) from failed

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Fills the workspace from a tar archive. One that leads out of it is refused."""
        root = self._workspace_root_path()
        archive = _payload(root, data)
        try:
            with tarfile.open(fileobj=io.BytesIO(archive), mode="r:*") as tar:
                validate_tarfile(tar, allow_external_symlink_targets=False)
            async with self._archive() as path:
                await self.limpet.files.write(path, archive, mode=0o600)
                await self._tar(root, "-xf", path, "--no-same-owner")
        except (Error, OSError, tarfile.TarError, UnsafeTarMemberError) as failed:
            raise WorkspaceArchiveWriteError(path=root, cause=failed) from failed

    async def _remove_workspace_entry_on_resume(self, path: Path) -> None:
        if path.parent.as_posix() != self.state.manifest.root or path.name not in (OURS, ARTIFACTS):
            await super()._remove_workspace_entry_on_resume(path)
        elif path.name == ARTIFACTS:
            for entry in await self.limpet.files.list(path):
                await self.limpet.files.remove(entry.path, recursive=True)

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        try:
            if port not in self._forwardings:
                self._forwardings[port] = self.limpet.forward(port)
        except (Error, OSError) as failed:
            raise ExposedPortUnavailableError(
                port=port, exposed_ports=self.state.exposed_ports, reason="backend_unavailable", cause=failed
            ) from failed
        host, _, number = self._forwardings[port].address.rpartition(":")
        return ExposedPortEndpoint(host=host, port=int(number))

    async def _shutdown_backend(self) -> None:
        forwardings, self._forwardings = self._forwardings, {}
        for forwarding in forwardings.values():
            forwarding.close()
        with contextlib.suppress(NoSuchSession):
            await self.limpet.close()

    async def _names(self, root: Path) -> list[str]:
        """What an archive has: all but Limpet's own directories, which another session has as well."""
        names: list[str] = []
        for entry in await self.limpet.files.list(root):
            if entry.name == ARTIFACTS:
                names += [f"./{ARTIFACTS}/{each.name}" for each in await self.limpet.files.list(entry.path)]
            elif entry.name != OURS:
                names.append(f"./{entry.name}")
        return names

    @contextlib.asynccontextmanager
    async def _archive(self) -> AsyncIterator[str]:
        """Path of an archive in the sandbox, for a moment."""
        path = f"{self.state.manifest.root}/{OURS}-archive-{os.urandom(8).hex()}"
        try:
            yield path
        finally:
            with contextlib.suppress(Error):
                await self.limpet.files.remove(path)

    async def _tar(self, root: Path, *arguments: str, stdin: bytes | None = None) -> None:
        ran = await run(self.limpet, ["tar", "-C", root.as_posix(), *arguments], stdin=stdin)
        if not ran.result.ok:
            raise OSError(f"tar failed in the sandbox: {ran.stderr.strip()[-2000:]}")


def _payload(path: Path, data: io.IOBase) -> bytes:
    payload: object = data.read()
    if isinstance(payload, str):
        return payload.encode()
    if not isinstance(payload, (bytes, bytearray)):
        raise WorkspaceWriteTypeError(path=path, actual_type=type(payload).__name__)
    return bytes(payload)


def _refuse_user(operation: Literal["exec", "read", "write"], user: str | User | None) -> None:
    if user is not None:
        raise ConfigurationError(
            message="a Limpet sandbox has one user; leave out user= and run_as=",
            error_code=ErrorCode.SANDBOX_CONFIG_INVALID,
            op=operation,
            context={"backend": BACKEND},
        )
