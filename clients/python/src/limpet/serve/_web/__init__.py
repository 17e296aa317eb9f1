"""The web page at /: static files, which use the REST interface as any other client does."""

from __future__ import annotations

from .._app import Door
from .._gateway import Gateway
from ._static import Static


def door(gateway: Gateway) -> Door:
    """All that nobody else claims."""
    return Door(lambda scope: scope["type"] == "http", Static())
