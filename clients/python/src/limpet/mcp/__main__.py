"""``python -m limpet.mcp``: what an MCP client starts."""

from __future__ import annotations

import sys

from . import require


def main(arguments: list[str] | None = None) -> int:
    """``limpet mcp``; returns its exit status."""
    try:
        require()
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    from ._main import run

    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
