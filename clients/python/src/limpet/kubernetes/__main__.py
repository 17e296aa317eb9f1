"""``limpet kubernetes``: what a cluster needs for sessions in pods."""

from __future__ import annotations

import argparse
import re
import sys

import zmq

from ._manifest import Pair, manifest


def _pair() -> Pair:
    public, secret = zmq.curve_keypair()
    return Pair(public.decode(), secret.decode())


def _namespace(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"'{text}' cannot be a namespace")
    return text


def main() -> int:
    """Runs a command of ``limpet kubernetes``."""
    parser = argparse.ArgumentParser(prog="limpet kubernetes", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser(
        "manifest",
        help="print the objects that a namespace needs, with new keys, for `kubectl apply -f -`",
        description="Prints the objects that a namespace needs, with new keys, for `kubectl apply -f -`: the "
        "namespace, the keys of controllers and of clients, a policy that leaves sessions without a network, and "
        "a service account with the rights of clients. The output has secret keys in it.",
    )
    making.add_argument(
        "--namespace", type=_namespace, default="limpet", help="its name (default: %(default)s)"
    )
    given = parser.parse_args()
    sys.stdout.write(manifest(given.namespace, _pair(), _pair()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
