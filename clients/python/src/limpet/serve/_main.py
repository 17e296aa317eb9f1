"""The gateway as a process: its options, its life, and its end."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
import ssl
import sys
from types import FrameType

import uvicorn

from .._adapters.arguments import Parser, WrongOption
from . import _settings
from ._app import App
from ._gateway import Gateway
from ._keys import KeyFailed
from ._settings import Settings
from ._strangers import Connection, Strangers
from ._who import is_loopback

_END_TIME = 10  # seconds in which requests that run may end
_STRANGERS = 4096  # connections by which no request is under way


class _Refused(Exception):
    """The gateway does not start; says why."""


def run(arguments: list[str]) -> int:
    """``limpet serve``; returns its exit status."""
    try:
        settings = _settings.of(_parser().parse_args(arguments))
        asyncio.run(_serve(settings))
    except WrongOption as error:
        print(f"limpet serve: {error}\nTry 'limpet serve --help'.", file=sys.stderr)
        return 2
    except (_Refused, KeyFailed) as error:
        print(f"limpet serve: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="limpet serve",
        description="Serves sessions over HTTP: a REST interface under /v1 and a web page at /. Without keys (see "
        "'limpet key') it serves this machine alone.",
        allow_abbrev=False,
    )
    _settings.add(parser)
    return parser


async def _serve(settings: Settings) -> None:
    os.umask(0o022)
    try:
        os.makedirs(settings.state_dir, 0o700, exist_ok=True)
    except OSError as error:
        raise _Refused(
            f"{settings.state_dir} cannot be made: {error.strerror}; --state-dir names another"
        ) from None
    gateway = Gateway(settings)
    if not is_loopback(settings.host) and not gateway.keys.are_there:
        raise _Refused(
            f"there are no keys, so it does not listen on {settings.host}; 'limpet key create NAME' makes one"
        )
    listening = _listen(settings)
    Connection.strangers = Strangers(min(_allow_descriptors() // 4, _STRANGERS))
    config = uvicorn.Config(
        App(gateway).asgi, interface="asgi3", http=Connection, ws="auto", lifespan="on", log_config=None,
        access_log=False, server_header=False, date_header=True, timeout_graceful_shutdown=_END_TIME,
        timeout_keep_alive=75,
        ssl_certfile=settings.certificate, ssl_keyfile=settings.certificate_key, ssl_version=ssl.PROTOCOL_TLS_SERVER,
        proxy_headers=False,
    )  # fmt: skip
    try:
        config.load()
    except OSError as error:
        raise _Refused(f"{settings.certificate} and its key cannot be used: {error}") from None
    gc.collect()
    gc.freeze()  # what is loaded now stays, and need not be looked at again
    scheme = "https" if settings.certificate else "http"
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"limpet serve: listening on {scheme}://{shown}:{port}", flush=True)
    await _Server(config, gateway).serve([listening])


def _allow_descriptors() -> int:
    """As many as may be: each client has one, and each pod of a fleet some. Returns how many these are."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def _listen(settings: Settings) -> socket.socket:
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sends at once what it writes to sockets that say they are of TCP, and waits for more on others.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        listening.listen(1024)
    except OSError as error:
        raise _Refused(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; "
            "--host and --port choose another place"
        ) from None
    return listening


class _Server(uvicorn.Server):
    """Tells the gateway when it is to end: before it waits for the requests that run."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """On SIGTERM and SIGINT."""
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self._gateway.end)
