"""What both kinds of session know of the session they stand for."""

from __future__ import annotations

from typing import Any, Mapping

from ._requests import field
from .errors import SessionClosed


class Opened:
    name: str
    engine: str
    """``oci``, ``docker`` or ``local``."""
    options: dict[str, Any]
    """All options, as they hold."""

    def __init__(self, opened: Mapping[str, Any]) -> None:
        self.name = field(opened, "session")
        self.engine = field(opened, "engine")
        self.options = field(opened, "options")
        # The instance, because a session that was closed and opened again has other variables.
        self._target = {"session": self.name, "instance": field(opened, "instance")}
        self._closed = False

    def __repr__(self) -> str:
        closed = " (closed)" if self._closed else ""
        return f"<limpet.{type(self).__name__} {self.name} on {self.engine}{closed}>"

    def _check(self) -> None:
        if self._closed:
            raise SessionClosed(f"the session '{self.name}' is closed")
