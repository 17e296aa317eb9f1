"""``limpet save``, ``show``, ``export`` and ``open --restore``, which the command hands to this package."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from typing import TextIO

import msgpack

from ._calls._asks import Asks
from ._protocol._options import data_option
from ._saved import _contents
from ._sync.client import Client
from .errors import Error, LimpetWarning

EXIT_SANDBOX, EXIT_INTERRUPTED = 125, 130


def _tell(text: str, file: TextIO | None = None) -> None:
    """Prints a line that may have names of files, in the bytes that they have."""
    stream = file or sys.stdout
    stream.flush()
    stream.buffer.write(text.encode("utf-8", "surrogateescape") + b"\n")
    stream.buffer.flush()


def _line(text: str) -> str:
    """One line, whatever the sandbox has put into it."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)


def _note(text: str) -> None:
    _tell(_line(f"limpet: {text}"), sys.stderr)


def _save(client: Client, name: str, path: str) -> None:
    try:
        saved = client.attach(name).save(path)
    except OSError as error:
        error.filename = path  # not the temporary one
        raise
    fate = "saved in the memory alone" if saved.memory else "not saved"
    for variable, why in saved.lost.items():
        _note(f"{fate}: {variable}: {why}")
    for skipped in saved.skipped:
        _note(f"not saved: {skipped}")
    memory = "its memory, " if saved.memory else ""
    _tell(
        f"saved {name}: {memory}{len(saved.variables) - len(saved.lost)} variables, /session; {saved.size} bytes"
    )


def _show(client: Client, path: str) -> None:
    for line in _contents.lines(path):
        _tell(_line(line))


def _export(client: Client, name: str, directory: str) -> None:
    made = client.attach(name).export(directory)
    for artifact in made["artifacts"]:
        if artifact["file"] is None:
            _note(f"not exported: {artifact['path']}: it is not as the call left it any more")
    _tell(made["notebook"])


def _restore(client: Client, path: str, name: str, options: str) -> None:
    """Reads the options from a descriptor: secrets are not for command lines. They come as the protocol has them, and
    the directory as the user has named it.
    """
    with open(int(options), "rb") as file:
        given = msgpack.unpackb(file.read(), unicode_errors="surrogateescape")
    given = {option: value for option, value in given.items() if value is not None}
    if "data" in given:
        given["data"] = data_option(given["data"], client._endpoint.far)
    session = client._restored(path, name, Asks(), given)
    for missing in session.restored or []:
        _note(f"not as it was saved: {missing}")
    way = "memory" if session.restored_memory else "pickled variables"
    _tell(f"opened {session.name} ({session.engine}), with its {way}")


_COMMANDS: dict[str, Callable[..., None]] = {
    "save": _save,
    "show": _show,
    "export": _export,
    "restore": _restore,
}


def main(arguments: list[str] | None = None) -> int:
    """Does what the command was asked for; returns its exit status."""
    command, *operands = sys.argv[1:] if arguments is None else arguments
    warnings.simplefilter("always", LimpetWarning)
    warnings.showwarning = lambda message, *_: _note(f"warning: {message}")
    try:
        with Client() as client:
            _COMMANDS[command](client, *operands)
        return 0
    except Error as error:
        _tell(f"limpet: {error.name}: {error.message}", sys.stderr)
    except OSError as error:
        _tell(f"limpet: {error.filename or 'standard output'}: {error.strerror}", sys.stderr)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_SANDBOX


if __name__ == "__main__":
    sys.exit(main())
