"""``python -m limpet.jupyter install``, and what Jupyter starts: ``python -m limpet.jupyter -f CONNECTION``."""

from __future__ import annotations

import sys

from . import require


def main(arguments: list[str] | None = None) -> int:
    """``limpet jupyter``; returns its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        require()
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments[:1] == ["install"]:
        from ._install import install

        return install(arguments[1:])
    if not any(argument.split("=")[0] in ("-f", "--f") for argument in arguments):
        print("usage: python -m limpet.jupyter install [OPTIONS]; see install --help", file=sys.stderr)
        return 2
    from ._app import run

    run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
