"""``python -m limpet._command``: what ``limpet save``, ``limpet open --restore`` and ``limpet export`` become."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from . import Client, Error

EXIT_SANDBOX = 125
_NUMBERS = {"timeout": float, "cpus": float, "ttl": float, "pids": int, "files": int}


def save(client: Client, session: str, path: str) -> None:
    """``limpet save SESSION FILE``."""
    saved = client.attach(session).save(path)
    for name, why in saved.lost.items():
        _say(f"not saved: {name}: {why}")
    for note in saved.skipped:
        _say(f"not saved: {note}")
    count = len(saved.variables) - len(saved.lost)
    print(f"saved {_shown(session)}: {count} variables, /session; {saved.size} bytes")


def restore(client: Client, path: str, name: str, *given: str) -> None:
    """``limpet open --restore FILE [OPTIONS] SESSION``."""
    session = client.open(name, restore=path, **options(given))
    for note in session.restored or ():
        _say(f"not as it was saved: {note}")
    print(f"opened {session.name} ({session.engine})")


def export(client: Client, session: str, directory: str) -> None:
    """``limpet export SESSION DIRECTORY``."""
    made = client.attach(session).export(directory)
    for artifact in made["artifacts"]:
        if artifact["file"] is None:
            _say(f"not exported: {artifact['path']}: it is not as the call left it any more")
    print(made["notebook"])


def options(given: tuple[str, ...]) -> Any:
    """Of ``NAME=VALUE`` each; variables of the environment and allowed destinations come one by one."""
    found: dict[str, Any] = {}
    for option in given:
        name, _, value = option.partition("=")
        if name == "env":
            variable, _, text = value.partition("=")
            found.setdefault("env", {})[variable] = text
        elif name == "allow":
            found.setdefault("network", {"allow": []})["allow"].append(value)
        else:
            found[name] = _NUMBERS.get(name, str)(value)
    return found


def _shown(text: str) -> str:
    """What a sandbox may have chosen stays one line, and tells the terminal nothing."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _say(text: str) -> None:
    print(f"limpet: {_shown(text)}", file=sys.stderr)


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    warnings.showwarning = lambda message, *_: _say(str(message))
    commands: dict[str, Any] = {"save": save, "restore": restore, "export": export}
    try:
        with Client() as client:
            commands[arguments[0]](client, *arguments[1:])
    except (Error, OSError) as error:
        name = error.name if isinstance(error, Error) else type(error).__name__
        _say(f"{name}: {error}")
        return EXIT_SANDBOX
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
