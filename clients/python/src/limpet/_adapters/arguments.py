"""The options of a session on the command line of an adapter."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn, get_args, get_type_hints

from .. import SessionOptions

# These are given in ways of their own; bindings, which have secrets, to the session by whoever opens it.
OTHERS = ("timeout", "env", "bindings")
HINTS = {name: hint for name, hint in get_type_hints(SessionOptions).items() if name not in OTHERS}


class WrongOption(Exception):
    """The arguments are wrong; the message says which."""


class Parser(argparse.ArgumentParser):
    """Raises WrongOption, where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise WrongOption(message)


def add(parser: argparse.ArgumentParser) -> None:
    """An option for each that Client.open() takes, but for ``timeout``. Rules of ``--network`` have commas between."""
    for name, hint in HINTS.items():
        kinds = {int, float}.intersection(get_args(hint)) if str not in get_args(hint) else ()
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            metavar="N" if kinds else "TEXT",
            type=next(iter(kinds), str),
            help="of the session",
        )
    parser.add_argument(
        "--env", metavar="NAME=VALUE", action="append", default=[], help="of the session; may be repeated"
    )


def environment(options: argparse.Namespace) -> dict[str, str]:
    """What ``--env`` says. Raises WrongOption."""
    wrong = [pair for pair in options.env if "=" not in pair]
    if wrong:
        raise WrongOption(f"argument --env: '{wrong[0]}' is not NAME=VALUE")
    return dict(pair.split("=", 1) for pair in options.env)


def chosen(options: argparse.Namespace) -> dict[str, Any]:
    """Those for Client.open(), None where nothing was given."""
    given = {name: getattr(options, name) for name in HINTS}
    if given["network"] not in (None, "none", "bridge", "host"):
        given["network"] = {"allow": given["network"].split(",")}
    return {**given, "env": environment(options) or None}
