"""The options of a kernel: given to ``install``, kept in its kernel.json, and read when Jupyter starts it."""

from __future__ import annotations

import argparse
import re
from typing import Any

from .._adapters.arguments import HINTS, Parser, WrongOption, add, chosen, environment

LONGEST = 86400.0
# What Jupyter and its frontends give a kernel: its connection file, and traits as --Class.trait=value.
JUPYTERS = re.compile(r"--[A-Z]\w*\.\w+=")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--session",
        metavar="ID",
        help="use this session, and keep it; by default a session of the notebook's own, which ends with it",
    )
    parser.add_argument(
        "--address", metavar="ADDRESS", help="socket of the controller, or the address of one elsewhere"
    )
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=LONGEST, help="for one cell; by default a day"
    )
    parser.add_argument(
        "--trust-output",
        action="store_true",
        help="show HTML, SVG and scripts from the sandbox as they are: they can act as you in the browser",
    )
    add(parser)


def to_arguments(options: argparse.Namespace) -> list[str]:
    """The arguments from which ``read`` makes the same options."""
    given = [("session", options.session), ("address", options.address)]
    if options.timeout != LONGEST:
        given.append(("timeout", options.timeout))
    given += [(name, getattr(options, name)) for name in HINTS]
    given += [("env", pair) for pair in options.env]
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in given if value is not None]
    return arguments + ["--trust-output"] * options.trust_output


def read(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and what is for Jupyter's own machinery. WrongOption names those that are for nobody."""
    parser = Parser(add_help=False, allow_abbrev=False)
    add_options(parser)
    parser.add_argument("-f", "--f", dest="connection_file")
    options, rest = parser.parse_known_args(arguments)
    strange = [argument for argument in rest if not JUPYTERS.match(argument)]
    if strange:
        raise WrongOption(f"unrecognized arguments: {' '.join(strange)}")
    environment(options)
    return options, ["-f", options.connection_file, *rest]


def connection_file(arguments: list[str]) -> list[str]:
    """Of arguments that are wrong otherwise: enough to start, and to say so in a cell."""
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("-f", "--f", dest="connection_file")
    options, _ = parser.parse_known_args(arguments)
    return ["-f", options.connection_file]


def of_session(options: argparse.Namespace) -> dict[str, Any]:
    """Those for Client.open()."""
    return chosen(options)
