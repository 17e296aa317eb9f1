"""The options of a session on the command line of an adapter."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn, get_args, get_type_hints

from .. import SessionOptions

# These are given in ways of their own; bindings, which have secrets, to the session by whoever opens it.
OTHERS = ("timeout", "env", "bindings")
HINTS = {name: hint for name, hint in get_type_hints(SessionOptions).items() if name not in OTHERS}

HELP = {
    "memory": "memory of the session, such as 512m or 2g",
    "cpus": "processors; may be a fraction",
    "pids": "maximum number of processes and threads",
    "disk": "maximum size of what the session writes, such as 2g",
    "files": "maximum number of files it writes",
    "data": "directory to mount read-only at /data",
    "network": "none, or destinations HOST:PORT, separated by commas",
    "image": "image of the container",
    "packages": "Python packages to install first",
    "build": "refuse or allow: packages without a wheel",
    "template": "template that the session begins from",
    "ttl": "idle seconds after which the session is saved or closed",
    "ttl_action": "close or save",
    "checkpoint": "automatic checkpoints: auto, always or off",
    "pip": "packages that code may install with pip: refuse, allow, or names",
}


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
            help=HELP[name],
        )
    parser.add_argument(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="environment variable of the code; may be repeated",
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
