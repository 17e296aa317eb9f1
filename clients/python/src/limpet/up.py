"""``limpet up`` and ``limpet down``: a controller in a container of a Docker Engine, here or on another machine."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence

from ._connection._address import find_limpetd
from ._connection._dialling import docker_command
from .errors import Error

CONTAINER = "limpet"
"""The name by which ``docker://`` addresses find it."""
DIRECTORY = "/var/lib/limpet-docker"
USER = 20002
"""The controller has no rights but those of this user, and the engine's socket."""
STANDARD_SOCKET = "/var/run/docker.sock"
DIAL_SECONDS = 9.0
COMMAND_SECONDS = 60.0
LIBRARIES = "/usr/local/lib/limpet"
_OPTIONS = "limpet.options"
_OF_THE_C_LIBRARY = ("ld-linux", "libc.", "libm.", "libdl.", "librt.", "libpthread.", "libresolv.")


class UpFailed(Error):
    """It cannot be done; the message says what to do."""


class Engine:
    """A Docker Engine, by the docker command."""

    def __init__(self, address: str) -> None:
        self._command = docker_command(address)
        if shutil.which("docker") is None:
            raise UpFailed("the command docker is not in PATH: install it (docker-cli, or docker.io)")

    def __call__(self, *words: str, stdin: bytes = b"", timeout: float = COMMAND_SECONDS) -> str:
        """Runs a command of docker. UpFailed with the last line that it wrote to standard error."""
        command = [*self._command, *words]
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise UpFailed(
                f"`{' '.join([*self._command, words[0]])}` has not ended after {timeout:g} s"
            ) from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [
                f"exit status {done.returncode}"
            ]
            raise UpFailed(f"`{' '.join([*self._command, words[0]])}`: {said[-1]}")
        return done.stdout.decode().strip()

    def finds(self, kind: str, name: str, field: str) -> str | None:
        """A field of something that it may have; None where there is no such thing."""
        try:
            return self(kind, "inspect", "--format", f"{{{{{field}}}}}", name)
        except UpFailed:
            self(
                "version", timeout=DIAL_SECONDS
            )  # where the engine itself does not answer, that is the failure
            return None

    def takes(self, command: Sequence[str], *words: str) -> None:
        """Feeds what a command writes to a command of docker."""
        with subprocess.Popen(command, stdout=subprocess.PIPE) as source:
            done = subprocess.run(
                [*self._command, *words], stdin=source.stdout, capture_output=True, check=False
            )
        if source.returncode or done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise UpFailed(said[-1] if done.returncode and said else f"`{' '.join(command)}` failed")


def _note(text: str) -> None:
    print(f"limpet: {text}", file=sys.stderr, flush=True)


# ---- what it consists of ----


def _libraries(program: str) -> list[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = [line.split(" => ")[1].split(" (")[0] for line in listed.splitlines() if " => /" in line]
    return [path for path in found if not os.path.basename(path).startswith(_OF_THE_C_LIBRARY)]


def _programs() -> bytes:
    """A tar of the programs of this machine, with the libraries that these need but the C library."""
    limpetd = find_limpetd()
    if limpetd is None:
        raise UpFailed("limpetd is not in PATH: install Limpet on this machine, or set LIMPETD to its path")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        programs = [
            os.path.realpath(limpetd),
            os.path.join(os.path.dirname(os.path.realpath(limpetd)), "limpet"),
        ]
        for path in programs:
            tar.add(path, f"usr/local/bin/{os.path.basename(path)}")
        for path in sorted({path for program in programs for path in _libraries(program)}):
            tar.add(os.path.realpath(path), f"{LIBRARIES[1:]}/{os.path.basename(path)}")
    return packed.getvalue()


def _image_tool() -> list[str]:
    limpetd = find_limpetd()
    beside = os.path.join(os.path.dirname(os.path.realpath(limpetd)), "limpet") if limpetd else "limpet"
    return [beside, "image"]


def _bring_image(engine: Engine) -> None:
    """Gives the engine this machine's default image, unless it has that one."""
    listed = subprocess.run([*_image_tool(), "ls", "--json"], capture_output=True, text=True, check=False)
    if listed.returncode:
        raise UpFailed(listed.stderr.strip().removeprefix("limpet: "))
    rows = json.loads(listed.stdout)
    names = [row["manifest"]["name"] for row in rows if "default" in row["aliases"]]
    there = engine.finds("image", "limpet:default", 'index .Config.Labels "limpet.image"')
    if there is not None and (not names or there == names[0]):
        return
    if not names:
        raise UpFailed(
            "neither that engine nor this machine has an image: build one with `limpet image build`"
        )
    _note(f"copying the image {names[0]} to the engine (about 1 GB)")
    tag = f"limpet:{names[0]}"
    engine.takes(
        [*_image_tool(), "export", names[0]], "import", "--change", f"LABEL limpet.image={names[0]}", "-", tag
    )
    engine("tag", tag, "limpet:default")


# ---- up and down ----


def _socket(address: str, options: list[str], before: str) -> str:
    """Where the engine's machine has its socket: by limpetd's option, as before, or by DOCKER_HOST."""
    place = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    place.add_argument("--docker-socket")
    given, options[:] = place.parse_known_args(options)
    host = os.environ.get("DOCKER_HOST", "") if address == "docker://" else address.removeprefix("docker://")
    here = host.removeprefix("unix://") if host.startswith("unix://") else STANDARD_SOCKET
    return given.docker_socket or before or here


def _shell(engine: Engine, path: str, script: str) -> str:
    """Runs a script as root on something of the engine's machine, and returns what it prints."""
    at = ["--network", "none", "--volume", f"{path}:{path}", "--entrypoint", "sh"]
    return engine("run", "--rm", *at, "limpet:default", "-c", script)


def _create(engine: Engine, socket: str, directory: str, options: Sequence[str]) -> None:
    """Makes the container. The directory is at the same path in it, as the engine mounts parts of it into sandboxes."""
    group = _shell(engine, socket, f"stat -c %g {shlex.quote(socket)}")
    at = shlex.quote(directory)
    _shell(engine, directory, f"chown {USER}:{USER} {at} && chmod 711 {at}")
    # fmt: off
    engine(
        "create", "--name", CONTAINER, "--restart", "unless-stopped", "--network", "none",
        "--pid", "host",  # who connects is told from others by the number of its process
        "--user", f"{USER}:{USER}", "--group-add", group, "--cap-drop", "ALL",
        "--volume", f"{socket}:{STANDARD_SOCKET}", "--volume", f"{directory}:{directory}",
        "--env", f"HOME={directory}", "--env", f"LIMPET_SOCKET={directory}/run/limpet.sock",
        "--env", f"LD_LIBRARY_PATH={LIBRARIES}", "--label", f"{_OPTIONS}={json.dumps([socket, directory, *options])}",
        "limpet:default", "/usr/local/bin/limpetd", "--engine", "docker",
        "--state-dir", directory, "--runtime-dir", f"{directory}/run", *options,
    )
    # fmt: on
    engine("cp", "-", f"{CONTAINER}:/", stdin=_programs())


def _wait(engine: Engine) -> None:
    end = time.monotonic() + COMMAND_SECONDS
    while True:
        try:
            # Older engines never tell the end of a command with which the container ends.
            engine("exec", CONTAINER, "limpet", "ls", timeout=DIAL_SECONDS)
            return
        except UpFailed as error:
            if time.monotonic() > end:
                raise UpFailed(
                    f"the controller does not answer: {error}; `docker logs {CONTAINER}` has more"
                ) from None
        if engine.finds("container", CONTAINER, ".RestartCount") not in ("0", None):
            logged = subprocess.run([*engine._command, "logs", CONTAINER], capture_output=True, check=False)
            said = (logged.stderr or logged.stdout).decode(errors="replace").strip().splitlines()
            engine("rm", "--force", CONTAINER)
            raise UpFailed(f"the controller does not start: {said[-1] if said else 'it says nothing'}")
        time.sleep(0.1)


def _remove(engine: Engine, keep: bool) -> None:
    """The controller ends in order, and its sandboxes wait for another one, or end, too."""
    engine("update", "--restart", "no", CONTAINER)
    if engine.finds("container", CONTAINER, ".State.Running") == "true":
        # Detached, as the container ends with it.
        engine("exec", "--detach", CONTAINER, "limpet", "shutdown", *(["--keep"] if keep else []))
        engine("wait", CONTAINER)
    engine("rm", CONTAINER)


def up(address: str, directory: str | None, upgrade: bool, options: list[str]) -> None:
    """Starts it, unless it runs.

    Args:
        address: ``docker://…``: of the engine.
        directory: Of the engine's machine. Defaults to that of the container that is replaced.
        upgrade: Whether one that runs is replaced, by this machine's programs and image, with its sessions.
        options: Those of limpetd. Defaults to those of the container that is replaced.

    Raises:
        UpFailed: It does not serve.
    """
    engine = Engine(address)
    engine("version", timeout=DIAL_SECONDS)
    had = engine.finds("container", CONTAINER, f'index .Config.Labels "{_OPTIONS}"')
    if had == "":
        raise UpFailed(
            f"the container {CONTAINER} of that engine was not made by `limpet up`: remove or rename it"
        )
    if had is not None and not upgrade:
        engine("start", CONTAINER)
        if options or directory:
            raise UpFailed("a controller runs there already: `limpet up --upgrade` gives it other options")
    else:
        socket, known, *before = json.loads(had) if had else ("", DIRECTORY)
        socket = _socket(address, options, socket)
        _bring_image(engine)
        if had is not None:
            _remove(engine, keep=True)
        _create(engine, socket, directory or known, options or before)
        engine("start", CONTAINER)
    _wait(engine)
    print(address)
    _note(f"a controller serves there; try: limpet --connect {address} run -c 'print(6 * 7)'")


def down(address: str, all_sessions: bool) -> None:
    """Ends it. Its sessions wait for the next one, or end, too."""
    engine = Engine(address)
    if engine.finds("container", CONTAINER, ".Id") is None:
        raise UpFailed(f"there is no controller: that engine has no container {CONTAINER}")
    made = engine.finds("container", CONTAINER, f'index .Config.Labels "{_OPTIONS}"')
    _remove(engine, keep=not all_sessions)
    if all_sessions and made:
        directory = json.loads(made)[1]
        _shell(engine, directory, f"find {shlex.quote(directory)} -mindepth 1 -delete")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="limpet", add_help=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    starts = verbs.add_parser(
        "up",
        prog="limpet up",
        usage="limpet up [--upgrade] [--directory DIR] [ADDRESS] [OPTION...]",
        description="Starts a controller in a container of a Docker Engine: that of ADDRESS, such as docker://CONTEXT, "
        "or the one that the docker command uses. The engine gets this machine's default image if it lacks that. "
        "Other options are those of limpetd; --docker-socket is where the engine's machine has its socket.",
    )
    starts.add_argument(
        "--upgrade",
        action="store_true",
        help="replace a controller that runs there by this version, with its sessions",
    )
    starts.add_argument(
        "--directory", metavar="DIR", help=f"of the engine's machine, for its state; default {DIRECTORY}"
    )
    ends = verbs.add_parser(
        "down",
        prog="limpet down",
        usage="limpet down [--all] [ADDRESS]",
        description="Ends the controller that `limpet up` has started. Its sessions wait an hour for the next one.",
    )
    ends.add_argument("--all", action="store_true", help="its sessions end, too, and its files are removed")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    given, options = _parser().parse_known_args(arguments)
    address = options.pop(0) if options and "://" in options[0] else "docker://"
    try:
        if given.verb == "up":
            up(address, given.directory, given.upgrade, options)
        elif options:
            _parser().error(f"unknown argument {options[0]}")
        else:
            down(address, given.all)
    except Error as error:
        _note(str(error))
        return 125
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
