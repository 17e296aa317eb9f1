"""Dialling: a command whose standard input and output are one connection to a controller on another machine.

``limpet dial-stdio`` makes them one there. clients/c/dial.c says the same of addresses for C.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import threading
from typing import IO, Any

from ..errors import BadRequest, Unavailable

SECONDS = 9.0  # in which the command becomes a connection
SCHEMES = ("exec:", "ssh://", "docker://", "kubernetes://")

_END = 1.0  # seconds in which a command that has closed the connection ends
_WORDS = 64 << 10  # what a pipe holds
_SAID = 400  # characters of it that are told
_PIECE = 64 << 10
_PLACE = re.compile(
    r"(?:(?P<user>[^-@/ ][^/ ]*)@)?(?:\[(?P<v6>[^\]/ ]+)\]|(?P<host>[^-@:/ \[][^@:/ ]*))(?::(?P<port>\d+))?"
)


def is_dialled(address: str) -> bool:
    return address.startswith(SCHEMES)


def arguments(address: str) -> list[str]:
    """The command that an address stands for. BadRequest where it does not have the form of one."""
    scheme = next(scheme for scheme in SCHEMES if address.startswith(scheme))
    return _COMMANDS[scheme](address, address[len(scheme) :])


def _exec(address: str, command: str) -> list[str]:
    if not command.strip():
        raise _malformed(address, "exec:COMMAND")
    return ["/bin/sh", "-c", command]


def _ssh(address: str, place: str) -> list[str]:
    """A silent network is noticed as soon as over tcp://, and nothing is asked where nobody could answer."""
    found = _PLACE.fullmatch(place)
    if found is None:
        raise _malformed(address, "ssh://[USER@]HOST[:PORT]")
    user = ["-l", found["user"]] if found["user"] else []
    port = ["-p", found["port"]] if found["port"] else []
    options = ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=8", "-o", "ServerAliveInterval=15"]
    return ["ssh", *options, *user, *port, "--", found["v6"] or found["host"], "limpet", "dial-stdio"]


def docker_command(address: str) -> list[str]:
    """The docker command for the engine of a ``docker://`` address. BadRequest for another one.

    It reads contexts, DOCKER_HOST and certificates itself, and checks who answers over TCP only where it is told to,
    which giving it certificates means here.
    """
    scheme, place = address[: len("docker://")], address[len("docker://") :]
    if scheme != "docker://":
        raise _malformed(
            address, "docker://, docker://CONTEXT, docker://tcp://HOST:PORT or docker://ssh://HOST"
        )
    verify = ["--tlsverify"] if place.startswith("tcp://") and os.environ.get("DOCKER_CERT_PATH") else []
    engine = ["--host" if "://" in place else "--context", place] if place else []
    return ["docker", *verify, *engine]


def _docker(address: str, place: str) -> list[str]:
    return [*docker_command(address), "exec", "--interactive", "limpet", "limpet", "dial-stdio"]


def _kubernetes(address: str, place: str) -> list[str]:
    """Names of contexts may have slashes, those of namespaces have none."""
    context, slash, namespace = place.rpartition("/")
    if not namespace or (slash and not context):
        raise _malformed(address, "kubernetes://[CONTEXT/]NAMESPACE")
    within = ["--context", context] if context else []
    pod = ["--namespace", namespace, "exec", "--stdin", "deployment/limpet", "--"]
    return ["kubectl", *within, *pod, "limpet", "dial-stdio"]


_COMMANDS = {"exec:": _exec, "ssh://": _ssh, "docker://": _docker, "kubernetes://": _kubernetes}


def _malformed(address: str, form: str) -> BadRequest:
    return BadRequest(f"the address {address} does not have the form {form}")


class Command:
    """One that runs, with its connection as ``socket``."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._arguments = arguments(address)
        self._pid = os.getpid()
        self._words, said = os.pipe()
        try:
            # What it says when nobody has read so much is lost, and it goes on.
            with contextlib.suppress(OSError, AttributeError):
                os.set_blocking(said, False)
            self._process, self.socket = self._start(said)
        except OSError as error:
            os.close(self._words)
            program = f"the controller at {address} is reached with the program {self._arguments[0]}"
            missing = isinstance(error, FileNotFoundError)
            why = ", which is not in PATH; install it" if missing else f": {error.strerror}"
            raise Unavailable(program + why) from error
        finally:
            os.close(said)

    def _start(self, said: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
        if not hasattr(socket, "AF_UNIX"):
            return self._carried(said)
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                return self._launch(theirs, theirs, said), ours
            except BaseException:
                ours.close()
                raise

    def _carried(self, said: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Where a program cannot have a socket as its standard streams: threads copy."""
        process = self._launch(subprocess.PIPE, subprocess.PIPE, said)
        assert process.stdin is not None and process.stdout is not None
        ours, theirs = socket.socketpair()
        threading.Thread(target=_carry_in, args=(theirs, process.stdin), daemon=True).start()
        threading.Thread(target=_carry_out, args=(process.stdout, theirs), daemon=True).start()
        return process, ours

    def _launch(self, stdin: Any, stdout: Any, said: int) -> subprocess.Popen[bytes]:
        """In a session of its own, so that Ctrl-C is not for it."""
        environment = {name: value for name, value in os.environ.items() if name != "LIMPET_SOCKET"}
        return subprocess.Popen(
            self._arguments, stdin=stdin, stdout=stdout, stderr=said, env=environment, start_new_session=True
        )

    def end(self) -> None:
        """Ends it, unless it is that of the process that this one is a fork of. May be called again."""
        if self._pid == os.getpid() and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()
            self._process.wait()

    def attend(self) -> None:
        """Leaves it to itself: it ends with its connection, and a thread waits for that."""
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        self._process.wait()

    def failure(self, silent: bool) -> Unavailable:
        """Why there is no controller, in its own words. ``silent``: it has not become a connection in time."""
        if not silent:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END)
        self.end()
        os.set_blocking(self._words, False)
        words = b""
        with contextlib.suppress(BlockingIOError):
            words = os.read(self._words, _WORDS)
        text = " ".join(
            "".join(c if c.isprintable() else " " for c in words.decode("utf-8", "replace")).split()
        )
        return self._unreachable(
            text[-_SAID:]
            or (
                f"its command has not become a connection within {SECONDS:.0f} seconds, and says nothing"
                if silent
                else "its command has ended, and said nothing"
            )
        )

    def mistaken(self) -> str:
        """What to say where it prints something else."""
        return (
            f"what the command of {self._address} prints is no connection to a Limpet controller; nothing else may "
            "print there, such as a profile of the shell"
        )

    def _unreachable(self, why: str) -> Unavailable:
        if self._address.startswith("exec:"):
            hint = "the command has to become a connection, as `limpet dial-stdio` does on the controller's machine"
        else:
            hint = f"first `{shlex.join([*self._arguments[:-1], 'version'])}` has to work"
        return Unavailable(f"the controller at {self._address} cannot be reached: {why}; {hint}")

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.end()
            os.close(self._words)


def _carry_in(source: socket.socket, target: IO[bytes]) -> None:
    with contextlib.suppress(OSError), target:
        while piece := source.recv(_PIECE):
            target.write(piece)
            target.flush()


def _carry_out(source: IO[bytes], target: socket.socket) -> None:
    with contextlib.suppress(OSError), source, target:
        while piece := os.read(source.fileno(), _PIECE):
            target.sendall(piece)
        target.shutdown(socket.SHUT_RDWR)
