"""Sessions as sandboxes of the OpenAI Agents SDK.

from agents import Runner, RunConfig
from agents.sandbox import SandboxAgent, SandboxRunConfig
from limpet.openai_agents import LimpetSandboxClient, LimpetSandboxClientOptions

options = LimpetSandboxClientOptions(memory="512m")
sandbox = SandboxRunConfig(client=LimpetSandboxClient(), options=options)
await Runner.run(SandboxAgent(...), "...", run_config=RunConfig(sandbox=sandbox))

Needs openai-agents, which the extra ``openai-agents`` of the package brings.
"""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

try:
    from agents.sandbox import Manifest, SnapshotSpec
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
    from agents.sandbox.session import Dependencies, Instrumentation, SandboxSession, SandboxSessionState
    from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
    from agents.sandbox.session.runtime_helpers import RESOLVE_WORKSPACE_PATH_HELPER, RuntimeHelperScript
    from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
    from agents.sandbox.snapshot import SnapshotBase, resolve_snapshot
    from agents.sandbox.types import ExecResult, ExposedPortEndpoint, User
    from agents.sandbox.util.tar_utils import UnsafeTarMemberError, validate_tarfile
except ImportError as error:
    raise ImportError(
        f"limpet.openai_agents needs openai-agents ({error}): pip install 'limpet[openai-agents]'",
        name=error.name,
    ) from error

from . import AsyncClient, AsyncSession, Error, NoSuchSession
from ._adapters import placing, references
from ._adapters.exits import SIGNALLED, exit_code
from ._adapters.running import run
from ._ports import Forwarding

__all__ = [
    "LimpetSandboxClient",
    "LimpetSandboxClientOptions",
    "LimpetSandboxSession",
    "LimpetSandboxSessionState",
]

BACKEND: Literal["limpet"] = "limpet"
THEIR_ROOT = Manifest.model_fields["root"].default  # which stands for where our commands start
INTERRUPTED = SIGNALLED + 2
OURS, ARTIFACTS = ".limpet", "artifacts"  # directories of /session that the code cannot remove
HELPERS = f"{RESOLVE_WORKSPACE_PATH_HELPER.install_path.parent}/"  # scripts of the SDK, for sh


class LimpetSandboxClientOptions(BaseSandboxClientOptions):  # type: ignore[misc, unused-ignore]
    """Options of :meth:`limpet.Client.open` for a sandbox."""

    type: Literal["limpet"] = BACKEND
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
    exposed_ports: tuple[int, ...] = ()
    """Ports that ``resolve_exposed_port()`` gives an address of this machine."""

    def of_session(self) -> dict[str, Any]:
        """Those that Limpet takes."""
        dumped = self.model_dump(exclude_none=True)
        return {name: value for name, value in dumped.items() if name not in ("type", "exposed_ports")}


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

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        words = [str(word) for word in command]
        try:
            ran = await run(self.limpet, _runnable(words), timeout=timeout)
        except Error as failed:
            raise ExecTransportError(command=words, cause=failed, message=failed.message) from failed
        if ran.result.status == "timeout":
            raise ExecTimeoutError(command=words, timeout_s=timeout)
        code = exit_code(ran.result)
        return ExecResult(
            stdout=ran.stdout.encode(),
            stderr=ran.stderr.encode(),
            exit_code=INTERRUPTED if code is None else code,
        )

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
        address = self._forwardings[port].address
        assert not isinstance(address, str)
        return ExposedPortEndpoint(host=address[0], port=address[1])

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


class LimpetSandboxClient(BaseSandboxClient[LimpetSandboxClientOptions]):  # type: ignore[misc, unused-ignore]
    """Makes sandboxes that are sessions of a controller."""

    backend_id = BACKEND
    supports_default_options = True

    def __init__(
        self,
        client: AsyncClient | None = None,
        *,
        instrumentation: Instrumentation | None = None,
        dependencies: Dependencies | None = None,
    ) -> None:
        """By default, ``client`` is one of its own."""
        super().__init__()
        self._client = client or AsyncClient()
        self._instrumentation = instrumentation or Instrumentation()
        self._dependencies = dependencies

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: LimpetSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """Opens a session. Its workspace is ``/session``, unless the manifest names another directory."""
        options = options or LimpetSandboxClientOptions()
        manifest = self._validate_manifest_for_create(manifest or Manifest())
        given = await manifest.environment.resolve()
        env = {**(options.env or {}), **{name: value for name, value in given.items() if value is not None}}
        opening = options.of_session() | ({"env": env} if env else {})
        session = await self._client.open(**opening)
        session_id = uuid.uuid4()
        state = LimpetSandboxSessionState(
            session_id=session_id,
            manifest=await _rooted(manifest, session),
            snapshot=resolve_snapshot(snapshot, str(session_id)),
            exposed_ports=options.exposed_ports,
            reference=references.reference(session),
            options=opening,
        )
        return self._wrap_session(LimpetSandboxSession(state, session), instrumentation=self._instrumentation)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """Closes the session."""
        inner = session._inner
        if not isinstance(inner, LimpetSandboxSession):
            raise TypeError(f"a Limpet sandbox is needed, not {type(inner).__name__}")
        await inner.shutdown()
        return session

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """The session of a state, with its live Python. Where it has ended, its files in a new one from the snapshot.

        Raises:
            NoSuchSession: It has ended, and there is no snapshot.
        """
        if not isinstance(state, LimpetSandboxSessionState):
            raise TypeError(f"the state of a Limpet sandbox is needed, not {type(state).__name__}")
        state.assert_path_grants_rebound()
        try:
            session, preserved = await references.attach_async(self._client, state.reference), True
        except NoSuchSession:
            if not await state.snapshot.restorable(dependencies=self._resolve_dependencies()):
                raise
            session, preserved = await self._client.open(**state.options), False
            state.reference = references.reference(session)
            state.manifest = await _rooted(state.manifest, session)
            state.workspace_root_ready = False
        inner = LimpetSandboxSession(state, session)
        inner._set_start_state_preserved(preserved)
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """A state out of JSON."""
        return self._deserialize_session_state_payload(payload, LimpetSandboxSessionState)


async def _rooted(manifest: Manifest, session: AsyncSession) -> Manifest:
    """Without a directory of its own, the workspace is where commands start."""
    ours = session.engine == "local"  # whose sessions are each in another directory
    if manifest.root != THEIR_ROOT and not ours:
        return manifest
    root = (await run(session, ["pwd", "-P"])).stdout.rstrip("\n")
    return manifest.model_copy(update={"root": root})


def _runnable(words: list[str]) -> list[str]:
    """Nothing below a sandbox's ``/tmp`` is executable, where the SDK puts its scripts."""
    if words[0].startswith(HELPERS):
        return ["sh", *words]
    if words[:2] == ["test", "-x"] and words[-1].startswith(HELPERS):
        return ["test", "-r", words[-1]]
    return words


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
