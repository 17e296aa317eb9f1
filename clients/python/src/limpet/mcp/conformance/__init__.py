"""What the official conformance suite asks a server for: tools, prompts and resources beside the real ones.

``limpet mcp --conformance`` and ``limpet serve --conformance`` offer them, through the code that serves the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.lowlevel.server import Server

from ... import Tools
from ..._adapters.telling import Limits
from .. import _server
from .._place import Place
from .._questions import Context
from . import _asking, _others, _plain, _tasks

__all__ = ["make"]


def make(find: Callable[[Context], Place], limits: Limits, tools: Tools, allowed: set[str]) -> Server[Any]:
    """The server of ``_server.make()``, with these."""
    offered = {**_server.TOOLS, **_plain.TOOLS, **_asking.TOOLS, **_tasks.TOOLS, **_others.TOOLS}
    server = _server.make(find, limits, tools, allowed, offered)
    _others.extend(server)
    return server
