"""The server as a process: its options, its life, and its end."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from typing import Any

import anyio
from mcp.server.lowlevel.server import Server

from .. import AsyncClient
from .._adapters import arguments, times
from .._adapters.arguments import Parser, WrongOption
from .._adapters.telling import Limits
from . import _functions
from ._place import Home, Place
from ._server import make
from ._standard import streams

CHARS, IMAGES = 20_000, 4

_ENDING: set[asyncio.Future[None]] = set()  # asyncio itself does not hold them


def run(arguments: list[str]) -> int:
    """``limpet mcp``; returns its exit status."""
    try:
        options = _parser().parse_args(arguments)
        home, tools = _home(options), _functions.of_file(options.tools, options.allow, ("--tools", "--allow"))
    except WrongOption as error:
        print(f"limpet mcp: {error}\nTry 'limpet mcp --help'.", file=sys.stderr)
        return 2
    limits = Limits(options.max_chars, options.max_images, longer=times.longer("timeout"))
    place = Place(home, options.session)
    asyncio.run(_serve(place, make(lambda context: place, limits, tools, set(options.allow))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="limpet mcp",
        description="Serves the Model Context Protocol on standard input and output: tools that run code and commands "
        "in a session. An MCP client starts it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--session",
        metavar="ID",
        help="use this session, and keep it; by default a session of the connection's own, which ends with it",
    )
    parser.add_argument(
        "--address", metavar="ADDRESS", help="socket of the controller, or the address of one elsewhere"
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        help=f"for one call of a tool that names none; by default {times.STANDARD:g}",
    )
    parser.add_argument(
        "--max-chars",
        metavar="N",
        type=_count,
        default=CHARS,
        help=f"characters of each text that the model is shown; by default {CHARS}",
    )
    parser.add_argument(
        "--max-images",
        metavar="N",
        type=_count,
        default=IMAGES,
        help=f"figures of one call that the model is shown; by default {IMAGES}",
    )
    parser.add_argument(
        "--tools",
        metavar="FILE",
        help="a Python file; the code may call its functions as limpet_tools.NAME(), with the user's approval",
    )
    parser.add_argument(
        "--allow",
        metavar="NAME",
        action="append",
        default=[],
        help="this function of --tools needs no approval; may be repeated",
    )
    arguments.add(parser)
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def _home(options: argparse.Namespace) -> Home:
    given = arguments.chosen(options)
    _find_runtime_directory()
    return Home(AsyncClient(options.address), {**given, "timeout": options.timeout})


def _find_runtime_directory() -> None:
    """MCP clients hand on few variables, and without this one another controller would be looked for."""
    directory = f"/run/user/{os.geteuid()}"
    if os.geteuid() and "XDG_RUNTIME_DIR" not in os.environ and os.access(directory, os.W_OK):
        os.environ["XDG_RUNTIME_DIR"] = directory


async def _serve(place: Place, server: Server[Any]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, _on_signal, place, number)
    async with streams() as (read, write):
        try:
            await server.run(read, write, server.create_initialization_options())
        finally:
            with anyio.CancelScope(shield=True):
                await _leave(place)


def _on_signal(place: Place, number: int) -> None:
    _ENDING.add(asyncio.ensure_future(_end(place, number)))


async def _end(place: Place, number: int) -> None:
    """The thread that reads standard input cannot be ended, so the process is."""
    try:
        await _leave(place)
    finally:
        os._exit(128 + number)


async def _leave(place: Place) -> None:
    await place.end()
    await place.client.close()
