"""Packages for sessions."""

from __future__ import annotations

from typing import Any

import msgspec

from ._call import Call
from ._operations import PREFIX, operation


class InstallRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Requirements, as pip has them."""

    packages: list[str]
    timeout: float = 300


class InstalledPackages(msgspec.Struct):
    """All packages that the session has installed, and the same with their hashes as a requirements file."""

    packages: dict[str, str]
    lock: str
    cached: bool
    duration: float


@operation("POST", PREFIX + "/sessions/{session}/install", takes=InstallRequest, gives=InstalledPackages)
async def install(call: Call) -> Any:
    """Installs Python packages in a session while it runs."""
    body: InstallRequest = call.body
    call.gateway.check_input("\n".join(body.packages))
    made = await (await call.session()).install(body.packages, body.timeout)
    return InstalledPackages(made.packages, made.lock, made.cached, made.duration)
