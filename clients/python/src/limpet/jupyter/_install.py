"""Tells Jupyter of the kernel: a directory with its kernel.json."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from typing import Any

from ipykernel._version import kernel_protocol_version
from jupyter_client.kernelspec import KernelSpecManager

from .._adapters.arguments import Parser, WrongOption, environment
from . import _options


def install(arguments: list[str]) -> int:
    try:
        options = _parser().parse_args(arguments)
        environment(options)
        where = _write(options)
    except WrongOption as error:
        print(f"limpet jupyter install: {error}\nTry 'limpet jupyter install --help'.", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"limpet jupyter install: {error}; try --user or --prefix", file=sys.stderr)
        return 1
    print(f"Installed the kernel '{options.name}' in {where}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="limpet jupyter install", description="Installs the Jupyter kernel.", allow_abbrev=False
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--user", action="store_true", help="for this user; the default outside a virtual environment"
    )
    place.add_argument(
        "--sys-prefix", action="store_true", help="in this Python's environment; the default in one"
    )
    place.add_argument("--prefix", metavar="P", help="below P/share/jupyter")
    parser.add_argument("--name", default="limpet", help="of the kernel; by default limpet")
    parser.add_argument("--display-name", metavar="TEXT", help="as the frontends show it")
    _options.add_options(parser)
    return parser


def _write(options: argparse.Namespace) -> str:
    prefix = options.prefix
    if options.sys_prefix or (sys.prefix != sys.base_prefix and not options.user and not prefix):
        prefix = sys.prefix
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        with open(os.path.join(directory, "kernel.json"), "w", encoding="utf-8") as file:
            json.dump(_spec(options), file, indent=1)
        return str(
            KernelSpecManager().install_kernel_spec(
                directory, options.name, user=prefix is None, prefix=prefix
            )
        )


def _spec(options: argparse.Namespace) -> dict[str, Any]:
    for path in ("data", "address"):
        if getattr(options, path):
            setattr(options, path, os.path.abspath(getattr(options, path)))
    shown = f"Limpet ({options.session})" if options.session else "Limpet"
    start = [sys.executable, "-m", "limpet.jupyter", "-f", "{connection_file}"]
    return {
        "argv": [*start, *_options.to_arguments(options)],
        "display_name": options.display_name or shown,
        "language": "python",
        "interrupt_mode": "message",
        "kernel_protocol_version": kernel_protocol_version,
        "metadata": {"debugger": False, "supported_encryption": ["curve"]},
    }
