"""``limpet kubernetes``: what a cluster needs for sessions in pods."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import fields

import zmq

from ..errors import BadRequest
from ._manifest import Gateways, Pair, manifest
from ._pod import VARIABLE, PodOptions


def _pair() -> Pair:
    public, secret = zmq.curve_keypair()
    return Pair(public.decode(), secret.decode())


def _namespace(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"'{text}' cannot be a namespace")
    return text


def _line(text: str) -> str:
    if not re.fullmatch(r"[ -!#-\[\]-~]+", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} cannot be a value: one line without quotes and backslashes"
        )
    return text


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--namespace", type=_namespace, default="limpet", help="its name (default: %(default)s)"
    )
    pods = parser.add_argument_group("what pods of sessions are like, by PodOptions of limpet.kubernetes")
    for name in (each.name for each in fields(PodOptions)):
        pods.add_argument(
            f"--{name.replace('_', '-')}", dest=VARIABLE + name.upper(), type=_line, metavar="VALUE"
        )
    parser.add_argument(
        "--egress",
        type=int,
        metavar="N",
        default=0,
        help="how many limpet-egress connect sessions to what their rules and bindings name, of the controller's image "
        "(default: none, and rules are refused)",
    )
    gateways = parser.add_argument_group("gateways, `limpet serve`, where they have an image")
    gateways.add_argument(
        "--gateway-image",
        type=_line,
        metavar="IMAGE",
        help="image with the Python package and its extras serve and kubernetes",
    )
    shown = Gateways("")
    gateways.add_argument(
        "--gateways", type=int, metavar="N", default=shown.replicas, help="how many (default: %(default)s)"
    )
    for name, value in (("memory", shown.memory), ("cpu", shown.cpu), ("user", shown.user)):
        gateways.add_argument(
            f"--gateway-{name}", type=_line, metavar="VALUE", default=value, help="(default: %(default)s)"
        )


def main() -> int:
    """Runs a command of ``limpet kubernetes``."""
    parser = argparse.ArgumentParser(prog="limpet kubernetes", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser(
        "manifest",
        help="print the objects that a namespace needs, with new keys, for `kubectl apply -f -`",
        description="Prints the objects that a namespace needs, with new keys, for `kubectl apply -f -`: the "
        "namespace, the keys of controllers and of clients, a policy that leaves sessions without a network, "
        "a service account with the rights of clients, what pods are like, limpet-egress, and gateways. The output "
        "has secret keys in it.",
    )
    _add_options(making)
    given = parser.parse_args()
    pods = {name: text for name, text in vars(given).items() if name.startswith(VARIABLE) and text}
    gateways = None
    try:
        if pods or given.gateway_image or given.egress:
            PodOptions.from_environment(pods)
    except BadRequest as error:
        making.error(error.message)
    if given.gateway_image:
        gateways = Gateways(
            given.gateway_image, given.gateways, given.gateway_memory, given.gateway_cpu, given.gateway_user
        )
    sys.stdout.write(manifest(given.namespace, _pair(), _pair(), pods, gateways, given.egress))
    return 0


if __name__ == "__main__":
    sys.exit(main())
