"""``limpet doctor``: what is right on this machine, in this Python and with this gateway, and what is to be done."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from . import Client, Error, __version__, jupyter, mcp, serve
from ._adapters.arguments import WrongOption
from ._connection._address import find_limpetd, is_far
from ._connection._transport import NATIVE
from .serve import _settings
from .serve._keys import KeyFailed, KeyStore

EXTRAS = {
    "langgraph": (("langchain", "langgraph"), "pip install langchain 'langgraph<2'"),
    "jupyter": (("ipykernel", "nh3"), jupyter.INSTALL),
    "mcp": (("mcp",), mcp.INSTALL),
    "serve": (("httptools", "httpx", "msgspec", "prometheus_client", "starlette", "uvicorn"), serve.INSTALL),
    "tcp://": (("zmq",), "pip install pyzmq"),
}
"""What parts of the package need of other packages, and the line that installs these."""
ANSWER_SECONDS = 5.0
_DESCRIPTION = (
    "Checks this machine, the controller, this Python and the gateway, and names remedies. Starts nothing."
)

Level = Literal["ok", "warn", "FAIL", "--"]


@dataclass(frozen=True)
class Finding:
    """One line, and what to do about it. ``--``: not there, and not needed by everybody."""

    level: Level
    subject: str
    text: str
    remedy: str = ""


def of_machine(address: str | None) -> tuple[str, int]:
    """What ``limpetd --check`` prints, and its exit status. A controller is checked by its user, on its machine."""
    found = of_another(address)
    if found:
        check = (
            "sudo limpetd --check"
            if found == "root's controller"
            else "limpetd --check, as its user and there"
        )
        return f"machine\n  --    limpetd        {found} serves this user\n{'':23}→ {check}\n", 0
    program = find_limpetd()
    if program is None:
        return (
            "  FAIL  limpetd        not in PATH\n                       → install it, or set LIMPETD to its path\n",
            1,
        )
    try:
        said = subprocess.run(
            [program, "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    except OSError as error:
        return f"  FAIL  limpetd        {program}: {error.strerror}\n", 1
    return said.stdout, said.returncode


def of_another(address: str | None) -> str:
    """The controller that answers, if it is on another machine or another user's; otherwise empty."""
    try:
        with Client(address, autostart=False, reconnect_timeout=0) as client:
            client.info()
            found = client.address
    except Error:
        return ""
    owner = -1 if is_far(found) else os.stat(found).st_uid
    if owner >= 0 and owner == os.geteuid():
        return ""
    return f"the controller at {found}" if owner else "root's controller"


def of_controller(address: str | None) -> Iterator[Finding]:
    """Of the one that clients of this user find. None is started."""
    try:
        with Client(address, autostart=False, reconnect_timeout=0) as client:
            info, found = client.info(), client.address
    except Error as error:
        remedy = "the first client starts one, unless LIMPET_AUTOSTART=0; systemctl start limpetd"
        yield Finding("warn", "controller", error.message, remedy)
        return
    where = f"limpetd {info.version} at {found}, engine {info.engine}"
    if info.version == __version__:
        yield Finding("ok", "controller", where)
    else:
        remedy = "install both from one source, and restart the controller with limpet shutdown --keep"
        yield Finding("warn", "controller", f"{where}; this package is {__version__}", remedy)
    if info.misfits:
        remedy = "limpet logs says what did not fit, such as an image that was built anew meanwhile"
        yield Finding(
            "warn", "memory images", f"{info.misfits} spare containers could not begin with one", remedy
        )


def of_python() -> Iterator[Finding]:
    """Of the one that runs this, which is that of ``limpet jupyter``, ``mcp``, ``serve`` and ``key``."""
    yield Finding("ok", "python", f"{platform.python_version()}, {sys.executable}, limpet {__version__}")
    if NATIVE:
        yield Finding("ok", "extension", "the client's C code is used")
    else:
        yield Finding(
            "warn",
            "extension",
            "the client is all Python, and slower",
            "install a C compiler and the package again",
        )
    for name, (modules, install) in EXTRAS.items():
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        if missing:
            yield Finding("--", name, f"needs {', '.join(missing)}", install)
        else:
            yield Finding("ok", name, "what it needs is there")


def of_gateway() -> Iterator[Finding]:
    """Of the one that the configuration file and the environment describe."""
    try:
        settings = _settings.of(argparse.Namespace(config=None))
        keys = KeyStore(settings.keys).all()
    except (WrongOption, KeyFailed) as error:
        yield Finding("FAIL", "settings", str(error), "see limpet serve --help")
        return
    expired = sum(key.has_expired for key in keys)
    if expired:
        yield Finding(
            "warn", "keys", f"{expired} of {len(keys)} have expired", "limpet key rotate NAME, limpet key ls"
        )
    elif keys:
        yield Finding("ok", "keys", f"{len(keys)} in {settings.state_dir}")
    else:
        yield Finding("--", "keys", "none: it would serve this machine alone", "limpet key create NAME")
    scheme = "https" if settings.certificate else "http"
    url = f"{scheme}://{settings.host}:{settings.port}"
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=ANSWER_SECONDS):
            yield Finding("ok", "gateway", f"serves at {url}")
    except urllib.error.HTTPError as error:
        yield Finding(
            "FAIL", "gateway", f"{url}/ready answers {error.code}", "see its log; is its controller there?"
        )
    except (OSError, ValueError):
        yield Finding("--", "gateway", f"nothing answers at {url}", "limpet serve")


def shown(title: str, findings: Iterator[Finding]) -> bool:
    """Prints them; returns whether none is a failure."""
    print(title)
    well = True
    for finding in findings:
        well = well and finding.level != "FAIL"
        print(f"  {finding.level:<5} {finding.subject:<14} {finding.text}")
        if finding.remedy:
            print(f"{'':23}→ {finding.remedy}")
    return well


def main(arguments: list[str] | None = None) -> int:
    """``limpet doctor``; returns its exit status: 1 where something fails."""
    parser = argparse.ArgumentParser(prog="limpet doctor", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument(
        "--address", metavar="ADDRESS", help="socket of the controller, or the address of one elsewhere"
    )
    options = parser.parse_args(arguments)
    said, status = of_machine(options.address)
    print(said.rstrip() + "\n")
    parts = {
        "controller": of_controller(options.address),
        "this Python": of_python(),
        "gateway": of_gateway(),
    }
    well = [shown(title, findings) for title, findings in parts.items()]
    return 0 if status == 0 and all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
