"""The bodies of requests, and what the blocking and the asyncio client decide alike."""

from __future__ import annotations

import contextlib
import io
import os
from typing import IO, Any, Callable, Iterator, Mapping, Optional, Union

from . import _wire
from .errors import ProtocolMismatch, from_wire

VERSION = "0.1.0"
HELLO = {"protocol": _wire.VERSION, "peer": f"limpet-python/{VERSION}"}

# May be asked again on a new connection although the first may have been carried out.
IDEMPOTENT = frozenset((_wire.HELLO, _wire.OPEN, _wire.SESSIONS, _wire.RESULT, _wire.GET))

HANDSHAKE_TIMEOUT = 10.0  # seconds in which whoever listens must have said hello
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between attempts to connect again

ABANDON_TIMEOUT = 5.0  # seconds a cancelled task waits for the call it interrupted; it is killed after 2

Message = tuple[int, dict[str, Any]]  # kind and body
Path = Union[str, "os.PathLike[str]"]
Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, IO[bytes]]
Target = Union[str, "os.PathLike[str]", IO[bytes]]


class ConnectionLost(Exception):
    """The connection ended. ``sent``: the request may have reached the controller."""

    def __init__(self, why: object, sent: bool) -> None:
        super().__init__(str(why))
        self.sent = sent


def options(**given: Any) -> dict[str, Any]:
    """The options that were given, as the protocol has them."""
    chosen = {name: value for name, value in given.items() if value is not None}
    if "data" in chosen:
        chosen["data"] = os.path.abspath(os.fspath(chosen["data"]))
    return chosen


def run(
    session: Mapping[str, str], code: str, timeout: Optional[float], run_id: Optional[str], stream: bool
) -> dict[str, Any]:
    """The body of a run; ``session``: its name and instance, or nothing for a container of its own."""
    body: dict[str, Any] = {**session, "code": code, "run_id": run_id or os.urandom(16).hex()}
    if timeout is not None:
        body["timeout"] = timeout
    if stream:
        body["stream"] = True
    return body


def remote_path(path: Path) -> Union[str, bytes]:
    """A path in the container; bytes when it is not UTF-8, as the keys of the artifact map have it."""
    text = os.fspath(path)
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")


def check_hello(body: Mapping[str, Any]) -> Optional[str]:
    """The controller's warning, when it has one."""
    if body.get("protocol") != _wire.VERSION:
        raise ProtocolMismatch(
            f"the controller speaks version {body.get('protocol')} of the protocol, this client "
            f"{_wire.VERSION}; upgrade the older one"
        )
    return body.get("warning")


def answer(message: Message) -> dict[str, Any]:
    """The body of a reply; raises what an error says."""
    kind, body = message
    if kind == _wire.ERROR:
        raise from_wire(body)
    return body


def field(body: Mapping[str, Any], name: str) -> Any:
    try:
        return body[name]
    except KeyError:
        raise ProtocolMismatch(f"the controller's answer lacks '{name}'") from None


@contextlib.contextmanager
def source(local: Source) -> Iterator[Callable[[int], bytes]]:
    """A function that reads at most so many bytes, b"" at the end."""
    if isinstance(local, (bytes, bytearray, memoryview)):
        yield io.BytesIO(local).read
    elif isinstance(local, (str, os.PathLike)):
        with open(local, "rb") as file:
            yield file.read
    else:
        yield local.read


@contextlib.contextmanager
def target(local: Target) -> Iterator[Callable[[bytes], Any]]:
    """A function that writes bytes."""
    if isinstance(local, (str, os.PathLike)):
        with open(local, "wb") as file:
            yield file.write
    else:
        yield local.write
