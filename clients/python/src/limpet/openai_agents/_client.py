"""The client of the SDK that makes sandboxes."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any, Literal

from agents.sandbox import Manifest, SnapshotSpec
from agents.sandbox.session import Dependencies, Instrumentation, SandboxSession, SandboxSessionState
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.snapshot import SnapshotBase, resolve_snapshot

from .. import AsyncClient, AsyncSession, Error, NoSuchSession
from .._adapters import references
from .._adapters.running import run
from ._session import BACKEND, LimpetSandboxSession, LimpetSandboxSessionState

THEIR_ROOT = Manifest.model_fields["root"].default  # which stands for where our commands start


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
        async with _closed_by_failure(session):
            state = LimpetSandboxSessionState(
                session_id=session_id,
                manifest=await _rooted(manifest, session),
                snapshot=resolve_snapshot(snapshot, str(session_id)),
                exposed_ports=options.exposed_ports,
                reference=references.reference(session),
                options=opening,
            )
            inner = LimpetSandboxSession(state, session)
            return self._wrap_session(inner, instrumentation=self._instrumentation)

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
            async with _closed_by_failure(session):
                state.manifest = await _rooted(state.manifest, session)
            state.workspace_root_ready = False
        inner = LimpetSandboxSession(state, session)
        inner._set_start_state_preserved(preserved)
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """A state out of JSON."""
        return self._deserialize_session_state_payload(payload, LimpetSandboxSessionState)


@contextlib.asynccontextmanager
async def _closed_by_failure(session: AsyncSession) -> AsyncIterator[None]:
    """A session that nobody gets to know is not left open."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Error):
            await session.close()
        raise


async def _rooted(manifest: Manifest, session: AsyncSession) -> Manifest:
    """Without a directory of its own, the workspace is where commands start."""
    ours = session.engine == "local"  # whose sessions are each in another directory
    if manifest.root != THEIR_ROOT and not ours:
        return manifest
    root = (await run(session, ["pwd", "-P"])).stdout.rstrip("\n")
    return manifest.model_copy(update={"root": root})
