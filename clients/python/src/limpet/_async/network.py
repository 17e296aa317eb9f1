"""What a session may reach of the network. The blocking one is generated from this file."""

from __future__ import annotations

from collections.abc import Mapping

from .._protocol import _network
from .._protocol._options import Binding, Network
from .commands import AsyncCommands


class AsyncNetworking(AsyncCommands):
    """How a session's network is changed."""

    async def set_network(
        self, network: Network | None = None, bindings: Mapping[str, Binding] | None = None
    ) -> None:
        """Changes what the code may connect to, at once and for the whole container.

        Connections to destinations that are no longer allowed are closed. Later commands and contexts find the proxy in
        their environment, and so does Python from its next call on.

        Args:
            network: ``"none"``, or ``{"allow": ["api.example.com:443", "*.example.org"]}``, as in
                :meth:`AsyncClient.open`. Defaults to what it is.
            bindings: All bindings from now on. Defaults to what they are.

        Raises:
            BadRequest: A rule or a binding is malformed, or the session has another network than ``"none"``.
        """
        reply = await self._request(_network.change(network, bindings))
        self.options["network"] = reply["network"]
        self.options["bindings"] = reply["bindings"]
