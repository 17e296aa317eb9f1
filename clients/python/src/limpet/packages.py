"""Packages that are installed in a session while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from .errors import ProtocolMismatch

Requirements = Union[Iterable[str], str, "os.PathLike[str]"]
"""A list of requirements, or the path of a requirements file."""


@dataclass(frozen=True)
class Installed:
    """What :meth:`Session.install` returns."""

    packages: dict[str, str]
    """Names and versions of all packages that the session has installed."""
    lock: str
    """The same with their hashes, as a requirements file."""
    cached: bool
    """Whether nothing had to be fetched, because another session has installed the same."""
    duration: float
    """Seconds."""

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> Installed:
        """From the reply of a controller."""
        try:
            packages = {row["name"]: row["version"] for row in body["packages"]}
            return cls(packages, body["lock"], bool(body["cached"]), float(body["duration"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolMismatch(
                f"the controller described packages in an unknown way: {error!r}"
            ) from None


def as_text(packages: Requirements) -> str:
    """The text of a requirements file."""
    if isinstance(packages, (str, os.PathLike)):
        try:
            with open(packages, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError as error:
            what = f"no such requirements file; packages are given in a list, as [{packages!r}]"
            raise FileNotFoundError(error.errno, what, packages) from None
    lines = list(packages)
    for line in lines:
        if not isinstance(line, str):
            raise TypeError(f"a requirement is a str, not {type(line).__name__}")
    return "".join(f"{line}\n" for line in lines)
