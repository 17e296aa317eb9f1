"""Where the controller listens, and how one is started."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any, TypeVar, Union

from ..errors import BadRequest, Unavailable
from ._dialling import arguments, is_dialled
from ._keys import KeyFile, Keys, is_remote, keys_for

Address = Union[str, "os.PathLike[str]", None]

T = TypeVar("T")

ROOTS = "/run/limpet/limpet.sock"

# Connecting fails with these when nobody listens.
NOBODY = (FileNotFoundError, ConnectionRefusedError)


class Endpoint:
    """Where one controller is, and whether this client may start it."""

    keys: Keys | None = None  # for one over a network
    dialled = False  # a command reaches it

    def __init__(
        self, address: Address, autostart: bool | None, key: KeyFile = None, server_key: str | None = None
    ) -> None:
        self.path = standard_path() if address is None else _settled(os.fspath(address))
        if is_remote(self.path):
            self.keys = keys_for(self.path, key, server_key)
            autostart = False
        elif is_dialled(self.path):
            arguments(self.path)  # raises where they cannot be
            self.dialled, autostart = True, False
        self._or_roots = address is None and not os.environ.get("LIMPET_SOCKET") and _user() != 0
        self.autostart = os.environ.get("LIMPET_AUTOSTART") != "0" if autostart is None else autostart
        self._key, self._server_key = key, server_key

    def arguments(self) -> dict[str, Any]:
        """Those that make the same one. A secret key is named by its file, and is not among them."""
        return {
            "address": None if self._or_roots else self.path,
            "autostart": self.autostart,
            "key": self._key,
            "server_key": self._server_key,
        }

    @property
    def far(self) -> bool:
        """Whether it is on another machine."""
        return is_far(self.path)

    def others(self) -> list[str]:
        """Where else a controller may listen that this client may use: root's."""
        return [ROOTS] if self._or_roots else []

    def settle(self, path: str) -> None:
        """The controller that is found stays the one, as the sessions are there. Root's is not ours to start."""
        self.path = path
        if self._or_roots and path == ROOTS:
            self.autostart = False
        self._or_roots = False

    def check(self) -> None:
        """Unavailable when the socket may be somebody else's: its directory is where all may write."""
        if self.far:
            return
        if not hasattr(socket, "AF_UNIX"):
            raise Unavailable(
                "a controller cannot be reached on this machine, which has no unix sockets for Python: give the "
                "address of one on another machine, such as ssh://HOST or tcp://HOST:PORT"
            )
        directory = os.path.dirname(self.path)
        if directory != _shared_directory():
            return
        try:
            status = os.lstat(directory)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != _user() or status.st_mode & 0o077:
            raise Unavailable(
                f"{directory} is not a directory of this user alone (mode 0700): not trusting its socket"
            )

    def start(self, limit: float) -> None:
        """Starts one in the background; returns when its socket answers, within ``limit`` seconds."""
        program = find_limpetd()
        if program is None:
            raise Unavailable(
                f"no controller listens at {self.path}, and limpetd is not in PATH to start one; "
                "set LIMPETD to its path"
            )
        # A file and not a pipe: the controller in the background may keep it open.
        with tempfile.TemporaryFile() as stderr:
            try:
                status = subprocess.run(
                    [program, "--detach"],
                    env={**os.environ, "LIMPET_SOCKET": self.path},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    timeout=limit,
                    start_new_session=True,
                ).returncode
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Unavailable(f"cannot start a controller: {error}") from error
            if status != 0:
                stderr.seek(0)
                said = stderr.read(4096).decode("utf-8", "replace").strip()
                raise Unavailable(
                    f"cannot start a controller: {said or f'{program} ended with status {status}'}"
                )

    def unreachable(self, why: object) -> Unavailable:
        return Unavailable(f"the controller at {self.path} cannot be reached: {why}")


def remade(kind: type[T], arguments: Mapping[str, Any]) -> T:
    """A client that was pickled."""
    return kind(**arguments)


def connected(unconnected: socket.socket, path: str, deadline: float) -> bool:
    """Connects a socket that does not block. False while the listener's backlog is full: try again soon.

    It is when the listener is stopped or very busy; past the deadline that is a TimeoutError. The kernel does
    not wait for room, whatever the socket's timeout, and asyncio takes such a socket for a connected one.
    """
    try:
        unconnected.connect(path)
        return True
    except BlockingIOError:
        if time.monotonic() >= deadline:
            raise TimeoutError("it takes no connections") from None
        return False


def standard_path() -> str:
    """The path of the socket as PROTOCOL.md has it."""
    given = os.environ.get("LIMPET_SOCKET")
    if given:
        return _settled(given)
    if _user() == 0:
        return ROOTS
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return os.path.join(os.path.join(runtime, "limpet") if runtime else _shared_directory(), "limpet.sock")


def _settled(address: str) -> str:
    if is_far(address):
        return address
    if "://" in address:
        forms = "tcp://, ssh://, docker://, kubernetes://, exec: or the path of a socket"
        raise BadRequest(f"the address {address} does not have the form of one: {forms}")
    return os.path.abspath(address)


def is_far(address: str) -> bool:
    """Whether it is that of a controller on another machine."""
    return is_remote(address) or is_dialled(address)


def _user() -> int:
    """-1 where users have no numbers."""
    return os.geteuid() if hasattr(os, "geteuid") else -1


def _shared_directory() -> str:
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", f"limpet-{_user()}")


def find_limpetd() -> str | None:
    """The program that is started, None where there is none."""
    given = os.environ.get("LIMPETD")
    if given:
        return given
    beside = os.pathsep.join((os.path.dirname(sys.executable), os.path.join(sys.prefix, "bin")))
    return shutil.which("limpetd") or shutil.which("limpetd", path=beside)
