"""Templates: what sessions begin from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .state import made, shape


@dataclass(frozen=True)
class Template:
    """A template: an image, files, an environment, and setup code that has run in each session that begins from it."""

    name: str
    user: int
    """Uid of the user whose template it is: this one, or that of the controller."""
    image: str | None
    """None: the default image."""
    env: tuple[str, ...]
    """Names of the environment variables that it sets."""
    files: int | None
    """Size of the files that it puts into ``/session``, or None if it has none."""
    setup: int | None
    """Size of its setup code, or None if it has none."""
    created: float
    """Unix time."""

    @classmethod
    def from_wire(cls, row: Mapping[str, Any]) -> Template:
        """From the body of a reply."""
        return made(_TEMPLATE, "a template", row)


_TEMPLATE = shape(Template, {"image": None, "files": None, "setup": None}, env=tuple)
