"""The tool's text for the model, made once, from what the sandbox really is: nothing in it is a mere hope."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from .. import Asks
from ._contents import Contents

ENTRIES = 30  # of /data that are listed
PACKAGES = 40  # that are listed
# What code most often needs; the others follow in the order of the alphabet.
_FIRST = (
    "numpy", "pandas", "scipy", "scikit-learn", "statsmodels", "sympy", "networkx", "polars", "pyarrow", "duckdb",
    "sqlalchemy", "matplotlib", "seaborn", "plotly", "pillow", "openpyxl", "xlsxwriter", "python-docx", "pypdf", "lxml",
    "beautifulsoup4", "pyyaml", "requests", "jinja2", "torch",
)  # fmt: skip
_PLAIN = re.compile(r"[A-Za-z0-9._+-]+")

_FATE = {
    "always": "the variables are restored to the state before that call",
    "auto": "the variables are restored to the state after an earlier call, usually the previous one; the result says "
    "which",
    "off": "all variables are lost; the result says so",
}


def describe(
    kinds: tuple[str, ...],
    contents: Contents,
    timeout: float,
    max_timeout: float | None,
    notes: str,
    asks: Asks,
) -> str:
    """``kinds``: ``pinned``, ``ephemeral``, the default one first."""
    isolated = contents.engine != "local"
    options = contents.options
    parts = [
        f"Runs Python {contents.python or '3'} code and returns what it printed, the value of its last expression, its "
        "figures as images, its error if it fails, and the files it created.",
        _packages(contents),
        *(_pinned(options, isolated) if "pinned" in kinds else ()),
        *(_ephemeral(len(kinds) > 1) if "ephemeral" in kinds else ()),
        _limits(options, isolated, timeout, max_timeout),
        *(_data(options) if isolated else ()),
        *(_network(options) if isolated else ()),
        *_tools(asks),
        notes,
    ]
    return "\n".join(part for part in parts if part)


def _pinned(options: Mapping[str, Any], isolated: bool) -> list[str]:
    where = "/session/artifacts" if isolated else "artifacts/"
    other = "/session, the working directory" if isolated else "the working directory"
    lines = [
        "Variables, imports and files persist between calls of this conversation, unless a result says otherwise. Do "
        f"not reload or redefine what already exists. Write files for the user to {where}, and other files to {other}."
    ]
    fate = _FATE.get(options.get("checkpoint") or "", "the result says what happened to the variables")
    lines.append(
        f"An exception keeps everything. If a call crashes, runs out of memory or has to be killed, {fate}."
    )
    if options.get("ttl"):
        idle = f"After {_seconds(options['ttl'])} without a call, the session"
        if options.get("ttl_action") == "close":
            lines.append(f"{idle} ends and its variables and files are gone.")
        else:
            lines.append(
                f"{idle} is saved. The next call brings variables and files back, but no programs, and not always "
                "threads."
            )
    return lines


def _ephemeral(chosen: bool) -> list[str]:
    which = 'With session="ephemeral" the call runs' if chosen else "Each call runs"
    return [
        f"{which} in a clean container, without variables, imports or files of other calls. Nothing is kept. "
        "Write files for the user to /work/artifacts."
    ]


def _tools(asks: Asks) -> list[str]:
    if not asks.tools:
        return []
    approval = (
        " Some calls need the approval of a person; a denied call raises PermissionError."
        if asks.approve
        else ""
    )
    lines = ["Functions of the host; `import limpet_tools` to call them:"]
    for tool in asks.tools.values():
        doc = f": {tool.first_line}" if tool.first_line else ""
        lines.append(f"  limpet_tools.{tool.name}{tool.signature}{doc}")
    return [*lines, f"Their arguments and results are plain data.{approval}"]


def _limits(options: Mapping[str, Any], isolated: bool, timeout: float, max_timeout: float | None) -> str:
    limits = []
    longer = "" if max_timeout is None else f" (pass `timeout` for up to {_seconds(max_timeout)})"
    limits.append(f"{_seconds(timeout)} per call{longer}")
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
            limits.append(f"{options['files']} files")
    return f"Limits: {', '.join(limits)}." if limits else ""


def _data(options: Mapping[str, Any]) -> list[str]:
    directory = options.get("data")
    if not directory:
        return ["There are no input files: /data is empty."]
    try:
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return ["Input files are in /data, read-only."]
    if not found:
        return ["/data is empty."]
    names = [_entry(entry) for entry in found[:ENTRIES]]
    more = f" and {len(found) - ENTRIES} more" if len(found) > ENTRIES else ""
    return [f"Input files in /data (read-only): {', '.join(names)}{more}."]


def _packages(contents: Contents) -> str:
    """The image may be anybody's: what has an odd name is a literal, as is a file's."""
    if not contents.packages:
        return ""

    def rank(pair: tuple[str, str]) -> int:
        name = re.sub(r"[-_.]+", "-", pair[0]).lower()
        return _FIRST.index(name) if name in _FIRST else len(_FIRST)

    found = sorted(contents.packages, key=rank)
    names = [f"{_literal(name)} {_literal(version)}" for name, version in found[:PACKAGES]]
    more = f" and {len(found) - PACKAGES} more (see importlib.metadata)" if len(found) > PACKAGES else ""
    return f"Installed: {', '.join(names)}{more}."


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
    bindings = [f"http://{name}.limpet/" for name in options.get("bindings") or {}]
    reach = [*map(_literal, network["allow"]), *bindings] if isinstance(network, Mapping) else bindings
    if reach and (network == "none" or isinstance(network, Mapping)):
        return [f"The network reaches only {', '.join(reach)}, through the proxy in the environment."]
    if network == "none":
        return ["There is no network: nothing can be downloaded or installed."]
    return [f"The network is available ({network})."]


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
