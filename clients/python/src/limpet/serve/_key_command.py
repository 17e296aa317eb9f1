"""``limpet key``: makes, lists and ends the keys of the gateway."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time

from .._adapters.arguments import Parser, WrongOption
from . import _settings
from ._keys import KeyFailed, KeyStore


def run(arguments: list[str]) -> int:
    """``limpet key``; returns its exit status."""
    try:
        options = _parser().parse_args(arguments)
        store = KeyStore(_settings.of(options).keys)
        if options.command == "create":
            print(store.create(options.name, options.expires))
        elif options.command == "rotate":
            print(store.rotate(options.name, options.expires))
        elif options.command == "revoke":
            store.revoke(options.name, options.id)
        else:
            _list(store, options.json)
    except WrongOption as error:
        print(f"limpet key: {error}\nTry 'limpet key --help'.", file=sys.stderr)
        return 2
    except KeyFailed as error:
        print(f"limpet key: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="limpet key", description="Keys for the users of `limpet serve`.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    create = commands.add_parser("create", help="makes a key and prints it, this once")
    create.add_argument("name", metavar="NAME", help="whose it is: all keys of a name have the same sessions")
    rotate = commands.add_parser(
        "rotate", help="replaces all keys of NAME by a new one and prints it, this once"
    )
    rotate.add_argument("name", metavar="NAME")
    for command in (create, rotate):
        command.add_argument(
            "--expires", metavar="TIME", type=_duration, help="it is good for so long, such as 90d or 12h"
        )
    listing = commands.add_parser("ls", help="lists the keys by name")
    listing.add_argument("--json", action="store_true", help="as JSON")
    revoke = commands.add_parser("revoke", help="ends all keys of NAME, or the one of an id that `ls` shows")
    revoke.add_argument("name", metavar="NAME")
    revoke.add_argument("id", metavar="ID", nargs="?")
    for command in (create, rotate, listing, revoke):
        _settings.add(command, ("state_dir", "keys"))
    return parser


def _list(store: KeyStore, as_json: bool) -> None:
    keys = store.all()
    if as_json:
        shown = ("name", "id", "owner", "created", "expires")
        print(json.dumps([{name: getattr(key, name) for name in shown} for key in keys]))
        return
    for key in keys:
        ends = (
            ""
            if key.expires is None
            else f"\t{'expired' if key.has_expired else 'until'} {_time(key.expires)}"
        )
        print(f"{key.name}\t{_time(key.created)}\t{key.id}{ends}")


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _duration(text: str) -> float:
    found = re.fullmatch(r"(\d{1,9})([smhd])", text.strip())
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time, such as 90d, 12h, 30m or 60s")
    return int(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]
