"""``python -m limpet.serve``: the gateway; ``python -m limpet.serve key``: its keys."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """``limpet serve``, and after the word ``key`` ``limpet key``; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["key"]:
        from ._key_command import run as run_key

        return run_key(given[1:])
    from . import require

    try:
        require()
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    from ._main import run

    return run(given)


if __name__ == "__main__":
    sys.exit(main())
