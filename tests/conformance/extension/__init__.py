"""What the official conformance suite asks a server for: tools, prompts and resources beside the real ones.

They go through the code that serves the others. ``python -m tests.conformance.extension`` is ``limpet serve`` with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.lowlevel.server import Server

from limpet import Tools
from limpet._adapters.telling import Limits
from limpet.mcp import _server
from limpet.mcp._place import Place
from limpet.mcp._questions import Context
from . import _asking, _others, _plain, _tasks

__all__ = ["make"]


def make(find: Callable[[Context], Place], limits: Limits, tools: Tools, allowed: set[str]) -> Server[Any]:
    """The server of ``_server.make()``, with these."""
    offered = {**_server.TOOLS, **_plain.TOOLS, **_asking.TOOLS, **_tasks.TOOLS, **_others.TOOLS}
    server = _server.make(find, limits, tools, allowed, offered)
    _others.extend(server)
    return server
