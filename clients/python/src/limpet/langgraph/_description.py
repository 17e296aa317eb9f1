"""The tool's text for the model, made from what the session really is: nothing in it is a mere hope."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from .._asks import NO_ASKS, Asks

ENTRIES = 30  # of /data that are listed
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")

_FATE = {
    "always": "the variables go back to how they were before that call",
    "auto": "the variables go back to how an earlier call left them, mostly the last; the result says which",
    "off": "all variables are lost; the result says so",
}


def describe(
    kinds: tuple[str, ...],
    options: Mapping[str, Any],
    engine: str | None,
    max_timeout: float | None,
    notes: str,
    asks: Asks = NO_ASKS,
) -> str:
    """``kinds``: ``pinned``, ``ephemeral``, the default one first. ``options``: those that are known.

    ``engine``: None before it is known.
    """
    isolated = engine != "local"
    parts = [
        "Runs Python 3 code and returns what it printed, the value of its last expression, its figures as images, "
        "its error if it fails, and the files it made.",
        *(_pinned(options, isolated) if "pinned" in kinds else ()),
        *(_ephemeral(len(kinds) > 1) if "ephemeral" in kinds else ()),
        _limits(options, isolated, max_timeout),
        *(_data(options) if isolated else ()),
        *(_network(options) if isolated else ()),
        *_tools(asks),
        notes,
    ]
    return "\n".join(part for part in parts if part)


def _pinned(options: Mapping[str, Any], isolated: bool) -> list[str]:
    where = "/session/artifacts" if isolated else "artifacts/"
    lines = [
        "Variables, imports and files stay from call to call of this conversation: do not load or define again "
        f"what is there. Put files for the user into {where}; other files stay in the working directory."
    ]
    fate = _FATE.get(options.get("checkpoint") or "", "the result says what became of the variables")
    lines.append(
        f"An exception keeps everything. When a call crashes, runs out of memory or has to be killed, {fate}."
    )
    if options.get("ttl"):
        lines.append(
            f"After {_seconds(options['ttl'])} without a call the session ends and all in it is gone."
        )
    return lines


def _ephemeral(chosen: bool) -> list[str]:
    which = 'With session="ephemeral" the call runs' if chosen else "Each call runs"
    return [
        f"{which} in a clean container: no variables, imports or files of other calls are there, and none stay. "
        "Put files for the user into /work/artifacts."
    ]


def _tools(asks: Asks) -> list[str]:
    if not asks.tools:
        return []
    approval = (
        " Some need a person's approval: one that is denied raises PermissionError." if asks.approve else ""
    )
    lines = ["Functions of the host, for code that does `import limpet_tools`:"]
    for tool in asks.tools.values():
        doc = f": {tool.first_line}" if tool.first_line else ""
        lines.append(f"  limpet_tools.{tool.name}{tool.signature}{doc}")
    return [*lines, f"Their arguments and results are plain data.{approval}"]


def _limits(options: Mapping[str, Any], isolated: bool, max_timeout: float | None) -> str:
    limits = []
    if options.get("timeout"):
        limits.append(f"{_seconds(options['timeout'])} for a call")
    if max_timeout is not None:
        limits.append(f"up to {_seconds(max_timeout)} where you give timeout")
    if isolated:
        if options.get("memory"):
            limits.append(f"{_size(options['memory'])} of memory")
        if options.get("cpus"):
            limits.append(f"{options['cpus']:g} CPUs")
        if options.get("pids"):
            limits.append(f"{options['pids']} processes and threads")
        if options.get("disk"):
            limits.append(f"{_size(options['disk'])} of files in /session")
        if options.get("files"):
            limits.append(f"{options['files']} of them")
    return f"Limits: {', '.join(limits)}." if limits else ""


def _data(options: Mapping[str, Any]) -> list[str]:
    directory = options.get("data")
    if not directory:
        return []
    try:
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return ["Input files are in /data, read-only."]
    if not found:
        return ["/data is empty."]
    names = [_entry(entry) for entry in found[:ENTRIES]]
    more = f" and {len(found) - ENTRIES} more" if len(found) > ENTRIES else ""
    return [f"Input files, read-only: in /data {', '.join(names)}{more}."]


def _entry(entry: os.DirEntry[str]) -> str:
    name = _literal(entry.name)
    try:
        return f"{name}/" if entry.is_dir() else f"{name} ({_size(entry.stat().st_size)})"
    except OSError:
        return name


def _literal(name: str) -> str:
    """Whoever has named a file is not to write lines of ours: what is not plain is a Python literal."""
    return name if _PLAIN.fullmatch(name) else repr(name)


def _network(options: Mapping[str, Any]) -> list[str]:
    network = options.get("network") or "none"
    if network == "none":
        return ["There is no network: nothing can be downloaded or installed."]
    return [f"The network can be reached ({network})."]


def _seconds(value: float) -> str:
    return f"{value / 3600:g} h" if value >= 3600 else f"{value:g} s"


def _size(value: Any) -> str:
    """Bytes, or text that people can read already."""
    if not isinstance(value, int):
        return str(value)
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value} bytes"
