"""The tool that installs packages in the session."""

from __future__ import annotations

from typing import Annotated, Any

import mcp_types as types
from pydantic import Field

from .. import InstallFailed
from . import _results
from ._calls import Call
from ._running import Arguments, Seconds

LOG = 2000  # characters of what the installer wrote that the model is shown, from the end

INSTALLED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "packages": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "names and versions of all that the session has installed",
        },
        "lock": {"type": "string", "description": "the same with hashes, as a requirements file"},
        "cached": {"type": "boolean", "description": "whether nothing had to be fetched"},
        "duration": {"type": "number"},
    },
    "required": ["packages", "lock", "cached", "duration"],
}

Requirement = Annotated[str, Field(min_length=1)]


class Install(Arguments):
    packages: list[Requirement] = Field(
        description="requirements, such as polars or 'polars==1.*'", min_length=1
    )
    timeout: Seconds = Field(default=None, description="time limit; by default 300")


async def install(call: Call, given: Install) -> types.CallToolResult:
    session = await call.place.session()
    limit: dict[str, Any] = {} if given.timeout is None else {"timeout": given.timeout}
    report = call.live().get("on_stdout")
    try:
        done = await call.place.call(session.install(given.packages, **limit, on_progress=report))
    except InstallFailed as error:
        log = f"\n\n{error.log[-LOG:]}" if error.log else ""
        return _results.of_problem(f"{error.name}: {error.message}{log}")
    listed = "\n".join(f"{name} {version}" for name, version in done.packages.items())
    data = {"packages": done.packages, "lock": done.lock, "cached": done.cached, "duration": done.duration}
    return _results.of_text(f"The session has installed:\n{listed}"[: call.limits.chars], data)
