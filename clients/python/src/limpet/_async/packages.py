"""Packages of a session that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._calls._stream import stream_of
from .._copying import _progress
from .._protocol import _requests
from .._protocol._opened import Opened
from ..packages import Installed, Requirements, as_text
from .connecting import in_thread

if TYPE_CHECKING:
    from .client import AsyncClient


class AsyncPackages(Opened):
    """How a session gets packages."""

    _client: AsyncClient

    async def install(
        self,
        packages: Requirements,
        timeout: float = 300,
        on_progress: Callable[[str], Any] | None = None,
        *,
        progress: bool = False,
    ) -> Installed:
        """Installs Python packages. They can be imported at once, by cells (also one that runs), branches,
        checkpoints and commands.

        An installer in a container of its own fetches wheels. It reaches only the package index, and sees nothing of
        the session. Packages that other sessions have installed take milliseconds. An imported module stays as it is
        until :meth:`reset`.

        Installing again is harmless: nothing is installed twice.

        Args:
            packages: A list of requirements such as ``polars==1.*``, or the path of a requirements file.
            timeout: Time limit in seconds.
            on_progress: Called with text that the installer writes.
            progress: Whether to print that text to standard error.

        Raises:
            InstallFailed: They could not be installed; the message gives the reason, ``log`` what the installer wrote.
            BadRequest: A line is no requirement.
        """
        self._check()
        stream = stream_of(None, on_progress or (_progress.said if progress else None), None, None)
        request = _requests.install(await in_thread(as_text, packages), timeout, stream is not None)
        return await self._client._request(request.of(self._target), stream=stream)
