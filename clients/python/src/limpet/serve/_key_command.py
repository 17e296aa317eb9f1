"""``limpet key``: makes, lists and ends the keys of the gateway."""

from __future__ import annotations

import json
import sys
import time

from .._adapters.arguments import Parser, WrongOption
from . import _settings
from ._keys import KeyFailed, KeyStore


def run(arguments: list[str]) -> int:
    """``limpet key``; returns its exit status."""
    try:
        options = _parser().parse_args(arguments)
        store = KeyStore(_settings.of(options).state_dir)
        if options.command == "create":
            print(store.create(options.name))
        elif options.command == "revoke":
            store.revoke(options.name)
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
        prog="limpet key", description="The keys with which users come to `limpet serve`.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    create = commands.add_parser("create", help="makes a key and prints it, this once")
    create.add_argument("name", metavar="NAME", help="whose it is")
    listing = commands.add_parser("ls", help="lists the keys by name")
    listing.add_argument("--json", action="store_true", help="as JSON")
    revoke = commands.add_parser("revoke", help="ends a key")
    revoke.add_argument("name", metavar="NAME")
    for command in (create, listing, revoke):
        _settings.add(command, ("state_dir",))
    return parser


def _list(store: KeyStore, as_json: bool) -> None:
    keys = store.all()
    if as_json:
        print(json.dumps([{"name": key.name, "owner": key.owner, "created": key.created} for key in keys]))
        return
    for key in keys:
        print(f"{key.name}\t{time.strftime('%Y-%m-%d %H:%M', time.localtime(key.created))}")
