"""A server of the Model Context Protocol, whose tools are a Limpet session.

pip install mcp                  # or the extra ``mcp`` with the package itself
python -m limpet.mcp             # or: limpet mcp

An MCP client starts it and speaks to it over standard input and output.
"""

from __future__ import annotations

INSTALL = "pip install 'mcp>=2.3,<3'"


def require() -> None:
    """Raises ImportError, with the line that installs what is missing."""
    try:
        import mcp.server.request_state  # noqa: F401  what older ones do not have
    except ImportError as error:
        raise ImportError(f"limpet.mcp needs mcp 2.3 or newer ({error}): {INSTALL}", name="mcp") from error
